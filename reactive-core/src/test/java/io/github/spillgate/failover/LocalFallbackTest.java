package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.internal.Time;
import io.github.spillgate.local.CountTables;
import io.github.spillgate.redis.CombinedDecision;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The usage that a local fallback remembers from the primary store, and its decisions based on it. */
class LocalFallbackTest extends LocalFallbackFixture {

    // Confirmed permits

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter", "10/1m counter aligned", "10/1m resolution=1s"})
    void confirmedPermitsCountUntilTheyExpire(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        remember(limiter, "a", 7, 50_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        clock.advanceMillis(49_999);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
        clock.advanceMillis(1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void theClockOfThePrimaryStoreMayDiffer() {
        Claim claim = claim(limiter, "a");
        long there = clock.millis() - Duration.ofDays(3).toMillis();
        store.confirm(reply(claim, 10, there, 5_000));
        clock.advanceMillis(4_999);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        clock.advanceMillis(1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void anOlderReplyDoesNotReplaceANewerOne() {
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.confirm(reply(claim, 9, at, WINDOW));
        store.confirm(StoreDecision.ofTake(
                reply(at - 2), List.of(StoreUsage.of(reply(at - 2), claim, 4, false, at, at + WINDOW))));
        store.confirm(reply(claim, 8, at, WINDOW));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        // But a reply of a clock that stepped back is accepted.
        long back = at - Duration.ofHours(1).toMillis();
        store.confirm(reply(claim, 2, back, WINDOW), Time.nanos());
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(8);
    }

    /** Each server decides at its own time; the combined decision has the time of the last one. */
    @Test
    void eachPartOfADecisionKeepsItsOwnTime() {
        Claim a = claim(limiter, "a").withPermits(1);
        Claim b = claim(limiter, "b").withPermits(1);
        long at = clock.millis();
        StoreDecision first = reply(a, 3, at, WINDOW);
        StoreDecision newer = StoreDecision.ofTake(
                reply(at + 4), List.of(StoreUsage.of(reply(at + 4), a, 8, false, at, at + WINDOW)));
        for (boolean violated : new boolean[] {false, true}) {
            StoreDecision last = StoreDecision.ofTake(
                    reply(at + 9), List.of(StoreUsage.of(reply(at + 9), b, 10, violated, at, at + WINDOW)));
            store.confirm(newer);
            store.confirm(CombinedDecision.of(List.of(a, b), List.of(first, last)));
            assertThat(now(limiter.peek("a")).remaining()).isEqualTo(2);
            assertThat(now(limiter.peek("b")).remaining()).isZero();
        }
    }

    /** Reconciled usage may exceed the limit. A key in constant use must not stay denied until the clock catches up. */
    @Test
    void oldUsageDeniesForAtMostTwoWindowsAfterThePrimaryClockStepsBack() {
        RateLimiter limiter = limiter(Limit.perSecond(10));
        Claim claim = claim(limiter, "a").withPermits(1);
        remember(limiter, "a", 15, 1_000);
        long later = 0;
        boolean fits = false;
        while (!fits && later < 30_000) {
            clock.advanceMillis(100);
            later += 100;
            long at = clock.millis() - 30_000;
            fits = store.confirm(reply(claim, 1, at, 1_000), Time.nanos());
        }
        assertThat(later).isLessThanOrEqualTo(2_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(9);
    }

    @Test
    void aRefundSubtractsPermitsThatNewerRepliesContain() {
        StoreDecision taken = taken(limiter, "a", 3);
        clock.advanceMillis(WINDOW - 1);
        remember(limiter, "a", 8, WINDOW);
        refundConfirmed(store, taken);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
    }

    @Test
    void aRefundOfAnExpiredGrantSubtractsNothing() {
        StoreDecision taken = taken(limiter, "a", 3);
        clock.advanceMillis(WINDOW);
        remember(limiter, "a", 8, WINDOW);
        refundConfirmed(store, taken);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(2);
    }

    /** The remaining weight of the refunded hit in a counter is not known locally. */
    @Test
    void aRefundIsSubtractedFromACounterOnlyIfNoReplyIsNewer() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        StoreDecision taken = taken(limiter, "a", 3);
        refundConfirmed(store, taken);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
        clock.advanceMillis(1);
        StoreDecision faded = taken(limiter, "a", 3);
        clock.advanceMillis(1);
        remember(limiter, "a", 4, WINDOW);
        refundConfirmed(store, faded);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
    }

    // Late grants

    @Test
    void usageAboveTheLimitLeavesNoRoomForALateGrant() {
        remember(limiter, "a", 11, WINDOW);
        clock.advanceMillis(-1);
        Claim claim = claim(limiter, "a").withPermits(1);
        assertThat(store.confirm(reply(claim, 5, clock.millis(), WINDOW))).isFalse();
    }

    /** A reply that is checked again and again is one grant: otherwise the next reply would look like lost data. */
    @Test
    void aReplyThatIsCheckedAgainIsGrantedOnce() {
        RateLimiter limiter = limiter(Limit.perMinute(10), Limit.perHour(100));
        now(limiter.tryAcquire(Charge.of("a", 8)));
        List<Claim> claims = seen.get(seen.size() - 1);
        assertThat(way.handOver(2, claim -> false)).hasSize(2);
        long at = clock.millis();
        StoreDecision reply = StoreDecision.ofTake(
                reply(at),
                List.of(
                        StoreUsage.of(reply(at), claims.get(0).withPermits(3), 3, false, at, at + WINDOW),
                        StoreUsage.of(reply(at), claims.get(1).withPermits(3), 60, false, at, at + WINDOW)));
        for (int i = 0; i < 50; i++) {
            assertThat(store.confirm(reply)).isFalse();
        }
        clock.advanceMillis(1);
        // Permits of other instances have expired.
        store.confirm(StoreDecision.ofPeek(
                reply(at + 1), List.of(StoreUsage.of(reply(at + 1), claims.get(1), 5, false, at, at + WINDOW))));
        assertThat(now(limiter.peek("a")).limits().get(1).used()).isEqualTo(8 + 5);
    }

    /** No local request since then has removed the expired grants. */
    @Test
    void expiredLocalGrantsLeaveRoomForAGrantOfThePrimary() {
        Claim claim = claim(limiter, "a");
        now(limiter.tryAcquire(Charge.of("a", 4)));
        clock.advanceMillis(WINDOW);
        assertThat(remember(claim, 10, WINDOW)).isFalse();
        clock.advanceMillis(1);
        assertThat(remember(claim, 10, WINDOW)).isTrue();
    }

    @Test
    void grantsInFlightAreInDoubtForAtMostTwoWindowsAfterAClockStepBack() {
        Claim claim = claim(limiter, "a");
        now(limiter.tryAcquire(Charge.of("a", 4)));
        way.handOver(10, one -> false);
        clock.advance(Duration.ofHours(-5));
        assertThat(remember(claim, 7, WINDOW)).isFalse();
        clock.advanceMillis(2 * WINDOW + 1);
        assertThat(remember(claim, 7, WINDOW)).isTrue();
    }

    @Test
    void anUnchargedDecisionAlwaysFits() {
        now(limiter.tryAcquire(Charge.of("a", 10)));
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        List<StoreUsage> used = List.of(StoreUsage.of(reply(at), claim, 10, false, at, at + WINDOW));
        List<StoreUsage> violated = List.of(StoreUsage.of(reply(at), claim, 10, true, at, at + WINDOW));
        assertThat(store.confirm(StoreDecision.ofPeek(reply(at), used))).isTrue();
        assertThat(store.confirm(StoreDecision.ofTake(reply(at), violated))).isTrue();
        assertThat(store.confirm(StoreDecision.ofTake(reply(at), used))).isFalse();
    }

    @Test
    void confirmedPermitsDenyForAtMostTwoWindowsAfterAClockStepBack() {
        remember(limiter, "a", 10, WINDOW);
        clock.advance(Duration.ofHours(-5));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        clock.advanceMillis(2 * WINDOW + 1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void theShareIsRoundedDownAndItsUsageUp() {
        RateLimiter limiter = limiter(Limit.perMinute(100));
        remember(limiter, "a", 30, WINDOW);
        store.share(0.255);
        // floor(25.5) − ceil(7.65)
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(17);
        store.share(0.009);
        // One permit is left of every limit, and this key's is used.
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        assertThat(now(limiter.peek("b")).remaining()).isEqualTo(1);
        store.share(1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(70);
    }

    /** Tries every millisecond: each request before the retry time is denied, the one at it is allowed. */
    @ParameterizedTest
    @ValueSource(strings = {"8/97ms", "8/97ms counter", "8/97ms counter aligned", "8/97ms resolution=7ms"})
    void theRetryAfterIsExactForMixedUsage(String text) {
        Random random = new Random(7);
        for (int run = 0; run < 200; run++) {
            String key = "key-" + run;
            store.share(random.nextInt(4) == 0 ? 0.6 : 1);
            RateLimiter limiter = limiter(Limit.parse(text));
            int most = store.share().orElse(1) == 1 ? 8 : 4;
            for (int step = 0; step < 6; step++) {
                switch (random.nextInt(4)) {
                    case 0 -> report(limiter, key, random.nextInt(9), 1 + random.nextInt(190));
                    case 1 -> way.handOver(1, claim -> false);
                    default -> now(limiter.tryAcquire(Charge.of(key, 1 + random.nextInt(most))));
                }
                clock.advanceMillis(random.nextInt(60));
            }
            int cost = 1 + random.nextInt(most);
            StoreDecision denied = now(limiter.peek(Charge.of(key, cost)));
            if (denied.isAllowed()) {
                continue;
            }
            long wait = denied.retryAfter().orElseThrow().toMillis();
            for (long waited = 0; waited < wait; waited++) {
                assertThat(now(limiter.peek(Charge.of(key, cost))).isAllowed())
                        .as("run %d after %d of %d ms", run, waited, wait)
                        .isFalse();
                clock.advanceMillis(1);
            }
            assertThat(now(limiter.peek(Charge.of(key, cost))).isAllowed())
                    .as("run %d after %d ms", run, wait)
                    .isTrue();
        }
    }

    @Test
    void ofTwoRepliesOfOneInstantTheHigherUsageCountsUntilItExpires() {
        Claim claim = claim(limiter, "a");
        long at = clock.millis();
        store.confirm(reply(claim, 7, at, 5_000));
        store.confirm(reply(claim, 9, at, 5_000));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        clock.advanceMillis(5_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void theResetTimeCoversConfirmedPermitsAndGrantsInFlight() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        remember(limiter, "a", 7, 50_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(50_000);
        limiter.refund(Charge.of("a", 7)).block();
        assertThat(wholeAfter(limiter, "a")).isZero();
        now(limiter.tryAcquire(Charge.of("a", 2)));
        way.handOver(10, claim -> false);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(2 * WINDOW);
        remember(limiter, "a", 1, 50_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(2 * WINDOW);
        clock.advanceMillis(50_000);
        assertThat(wholeAfter(limiter, "a")).isEqualTo(2 * WINDOW - 50_000);
    }

    @Test
    void aRefundIgnoresExpiredConfirmedPermits() {
        remember(limiter, "a", 5, 50_000);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        clock.advanceMillis(50_000);
        limiter.refund(Charge.of("a", 2)).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(9);
    }

    @Test
    void aReplyWithoutUsageIsNotStored() {
        remember(limiter, "a", 0, 0);
        assertThat(CountTables.unprotected(store.ledgers())).isEmpty();
    }

    /** The reset time is on the clock of the primary, which may differ from ours. */
    @Test
    void aKeyDeniedByThePrimaryIsProtectedUntilItsResetTime() {
        LocalFallback small = Fallback.local(16, clock);
        long there = clock.millis() - Duration.ofDays(3).toMillis();
        Claim late = claim(limiter, "late");
        for (int i = 0; i < 16; i++) {
            small.confirm(denied(claim(limiter, "key-" + i), there, there + 5_000));
        }
        clock.advanceMillis(4_999);
        small.confirm(denied(late, there + 4_999, there + WINDOW));
        assertThat(CountTables.isProtected(small.ledgers(), late.handle())).isFalse();
        clock.advanceMillis(1);
        small.confirm(denied(late, there + 5_000, there + WINDOW));
        assertThat(CountTables.isProtected(small.ledgers(), late.handle())).isTrue();
    }

    /** The count is evicted after a reply has looked it up and before the reply locks it. */
    @Test
    void aReplyIsNotStoredInAnEvictedCount() throws Exception {
        Claim claim = claim(limiter, "a");
        remember(claim, 1, WINDOW);
        Ledger forgotten = CountTables.unprotected(store.ledgers()).get(0);
        Thread answer = new Thread(() -> remember(claim, 7, WINDOW));

        synchronized (forgotten) {
            answer.start();
            await().until(() -> answer.getState() == Thread.State.BLOCKED);
            CountTables.evict(store.ledgers());
            assertThat(forgotten.isEvicted()).isTrue();
        }
        answer.join();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
    }

    /** Only the primary store, which has the whole limit, can allow it. */
    @Test
    void aCostAboveTheShareIsDeniedForASecond() {
        store.share(0.5);
        StoreDecision denied = now(limiter.tryAcquire(Charge.of("a", 6)));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).hasValue(Duration.ofSeconds(1));
        assertThat(now(limiter.tryAcquire(Charge.of("a", 5))).isAllowed()).isTrue();
    }

    @Test
    void aChangingShareNeverGrantsWhatBothSharesDeny() throws Exception {
        RateLimiter limiter = limiter(Limit.perMinute(100));
        Claim claim = claim(limiter, "a").withPermits(1);
        remember(limiter, "a", 100, WINDOW);
        store.share(0.25);
        assertThat(now(store.take(StoreRequest.take(List.of(claim)))).isAllowed())
                .isFalse();
        store.share(1);
        assertThat(now(store.take(StoreRequest.take(List.of(claim)))).isAllowed())
                .isFalse();
        AtomicBoolean done = new AtomicBoolean();
        Thread changes = new Thread(() -> {
            while (!done.get()) {
                store.share(0.25);
                store.share(1);
            }
        });
        changes.start();
        int allowed = 0;
        try {
            for (int asked = 0; asked < 100_000; asked++) {
                allowed += now(store.take(StoreRequest.take(List.of(claim)))).isAllowed() ? 1 : 0;
            }
        } finally {
            done.set(true);
            changes.join();
        }
        assertThat(allowed).as("of 100,000").isZero();
    }
}
