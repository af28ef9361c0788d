package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.local.CountTables;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.Unprotected;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which grants the local fallback hands over to be charged in the primary store. */
class LocalFallbackReconciliationTest extends LocalFallbackFixture {

    private final LocalFallback small = Fallback.local(16, clock);
    private final ManualWay smallWay = new ManualWay();

    @BeforeEach
    void bindTheSmallOneToAStore() {
        small.bindTo(new Unprotected(store), smallWay);
    }

    @Test
    void aRequestedCountHasPriorityForOneHandOverOnly() {
        for (int i = 0; i < 30; i++) {
            now(limiter.tryAcquire("early-" + i));
            assertThat(store.mustHandOver(List.of(claim(limiter, "early-" + i))))
                    .isTrue();
        }
        way.handOver(100, claim -> false).forEach(this::charged);
        for (int i = 0; i < 30; i++) {
            now(limiter.tryAcquire("early-" + i));
        }
        now(limiter.tryAcquire("late"));
        Claim late = claim(limiter, "late");
        assertThat(store.mustHandOver(List.of(late))).isTrue();
        assertThat(way.handOver(1, claim -> false))
                .extracting(one -> one.claim().identity())
                .containsExactly(late.identity());
    }

    @Test
    void grantsThatExpireBeforeEvictionAreNotLost() {
        RateLimiter limiter = Unprotected.limiter(small, Limit.perMinute(10));
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire(Charge.of("early-" + i, 2)));
        }
        clock.advanceMillis(WINDOW + 1);
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire(Charge.of("late-" + i, 0)));
        }
        CountTables.unprotected(small.ledgers());
        assertThat(small.state().toReconcile()).as("some counts are evicted").isLessThan(20);
        assertThat(small.state().lost()).isZero();
    }

    /** Those of a log may be ahead by the lease time. */
    @ParameterizedTest
    @CsvSource({"10/1m, 9900", "10/1m counter, 10000"})
    void grantsAheadOfASteppedBackClockAreHandedOverAsOfNow(String text, long age) {
        RateLimiter limiter = limiter(Limit.parse(text));
        now(limiter.tryAcquire(Charge.of("a", 2)));
        clock.advanceMillis(-5_000);
        Reconciliation reconciliation = way.handOver(10, claim -> false).get(0);
        clock.advanceMillis(10_000);
        assertThat(ages(reconciliation)).containsExactly(new Reconciliation.Grants(age, age, 2));
    }

    @Test
    void emptyWindowsOfACounterAreNotHandedOver() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        now(limiter.tryAcquire(Charge.of("current", 4)));
        assertThat(ages(way.handOver(10, claim -> false).get(0))).containsExactly(new Reconciliation.Grants(0, 0, 4));
        now(limiter.tryAcquire(Charge.of("before", 4)));
        clock.advanceMillis(WINDOW);
        assertThat(ages(way.handOver(10, claim -> false).get(0))).hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"3/1m", "3/1m counter"})
    void aCountedDenialIsToReconcileAtOnce(String text) {
        RateLimiter limiter = limiter(Limit.parse(text).countingDenied());
        now(limiter.tryAcquire(Charge.of("a", 2)));
        clock.advanceMillis(10_000);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 2))).isAllowed()).isFalse();
        assertThat(store.state().toReconcile()).isEqualTo(3);
        assertThat(ages(way.handOver(10, claim -> false).get(0)))
                .last()
                .extracting(Reconciliation.Grants::toMillis)
                .isEqualTo(0L);
    }

    /** The store has not charged them, and would remove permits of others. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter"})
    void aRefundOfGrantsInFlightIsDroppedIfTheyExpireBeforeTheResult(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        StoreDecision first = now(limiter.tryAcquire(Charge.of("a", 5)));
        clock.advanceMillis(50_000);
        now(limiter.tryAcquire(Charge.of("a", 1)));
        Reconciliation reconciliation = way.handOver(10, claim -> false).get(0);
        clock.advanceMillis(5_000);
        assertRefundedInThePrimary(first);
        clock.advanceMillis(10_000);
        assertThat(charged(reconciliation)).isZero();
    }

    /** The primary store removes the oldest permits. Those that stay must not count as expired with these. */
    @Test
    void aRefundOfChargedGrantsLeavesTheLaterPermitsOfThisInstance() {
        RateLimiter limiter = limiter(Limit.parse("10/16s"));
        store.share(0.5);
        StoreDecision first = now(limiter.tryAcquire(Charge.of("a", 5)));
        Reconciliation sent = way.handOver(10, claim -> false).get(0);
        refundGrants(store, first);
        clock.advanceMillis(8_000);
        Claim claim = claim(limiter, "a");
        assertThat(store.confirm(reply(claim.withPermits(10), 10, clock.millis(), 16_000)))
                .isTrue();
        RefundCharged refund = Objects.requireNonNull(way.charged(
                sent,
                CorrectedForTests.of(StoreUsage.of(
                        new Reply(Source.OTHER, clock.millis(), 1),
                        claim,
                        15,
                        false,
                        clock.millis(),
                        clock.millis() + 16_000))));
        assertThat(permits(refund)).isEqualTo(5);
        store.refundedOldestInPrimary(List.of(refund.claim()));
        clock.advanceMillis(1);
        report(limiter, "a", 10, 15_999);
        // Those granted first have expired.
        clock.advanceMillis(11_000);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        clock.advanceMillis(6_000);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 5))).isAllowed()).isTrue();
    }

    @Test
    void aRefundOfAChargedGrantIsNotDelayedByAnotherGrantInFlight() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter().alignedToClock());
        StoreDecision first = now(limiter.tryAcquire(Charge.of("a", 5)));
        clock.advanceMillis(1);
        charged(way.handOver(10, claim -> false).get(0));
        now(limiter.tryAcquire(Charge.of("a", 1)));
        Reconciliation inFlight = way.handOver(10, claim -> false).get(0);
        assertRefundedInThePrimary(first, 5);
        assertThat(charged(inFlight)).isZero();
    }

    /** Of ten permits half have faded; what counts of the five that are left is not known here. */
    @Test
    void aRefundOfFadedGrantsInFlightFreesNothingUntilTheNextReply() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter().alignedToClock());
        clock.advanceMillis(WINDOW - clock.millis() % WINDOW + 50_000);
        StoreDecision first = now(limiter.tryAcquire(Charge.of("a", 5)));
        now(limiter.tryAcquire(Charge.of("a", 5)));
        Reconciliation inFlight = way.handOver(10, claim -> false).get(0);
        clock.advanceMillis(40_000);
        assertRefundedInThePrimary(first);
        remember(inFlight.claim(), 5, 30_000);
        assertThat(charged(inFlight, 5)).isEqualTo(5);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
    }

    @Test
    void aResetForgetsRefundsOfGrantsInFlight() {
        StoreDecision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        Reconciliation reconciliation = way.handOver(10, claim -> false).get(0);
        refundGrants(store, decision);
        limiter.reset("a").block();
        assertThat(charged(reconciliation)).isZero();
        now(limiter.tryAcquire(Charge.of("a", 2)));
        Reconciliation next = way.handOver(10, claim -> false).get(0);
        assertThat(charged(next)).isZero();
    }

    @Test
    void grantsInFlightKeepTheirAgesAndStillCount() {
        now(limiter.tryAcquire(Charge.of("a", 2)));
        clock.advanceMillis(1_000);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        clock.advanceMillis(500);
        List<Reconciliation> reconciliations = way.handOver(10, claim -> false);
        assertThat(reconciliations).hasSize(1);
        assertThat(reconciliations.get(0).permits()).isEqualTo(5);
        assertThat(ages(reconciliations.get(0)))
                .containsExactly(new Reconciliation.Grants(1_500, 1_500, 2), new Reconciliation.Grants(500, 500, 3));
        clock.advanceMillis(100);
        assertThat(ages(reconciliations.get(0)).get(1).toMillis()).isEqualTo(600);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
        assertThat(store.state().toReconcile()).isEqualTo(5);
    }

    @Test
    void aCountIsHandedOverAgainOnlyAfterItsResult() {
        now(limiter.tryAcquire(Charge.of("a", 2)));
        Reconciliation first = way.handOver(10, claim -> false).get(0);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        assertThat(way.handOver(10, claim -> false)).isEmpty();
        remember(limiter, "a", 2, WINDOW);
        charged(first);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(5);
        Reconciliation second = way.handOver(10, claim -> false).get(0);
        assertThat(second.permits()).isEqualTo(3);
        assertThat(second.source()).isEqualTo(first.source());
        assertThat(second.number()).isGreaterThan(first.number());
        charged(second);
        assertThat(store.state().toReconcile()).isZero();
        assertThat(store.state().reconciled()).isEqualTo(5);
        assertThat(way.handOver(10, claim -> false)).isEmpty();
    }

    @Test
    void aCounterIsHandedOverAsTwoWindows() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        now(limiter.tryAcquire(Charge.of("a", 4)));
        clock.advanceMillis(WINDOW + 30_000);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        clock.advanceMillis(1_000);
        assertThat(ages(way.handOver(10, claim -> false).get(0)))
                .containsExactly(
                        new Reconciliation.Grants(WINDOW + 31_000, 31_001, 4),
                        new Reconciliation.Grants(31_000, 1_000, 3));
    }

    @Test
    void aLongLogIsMergedTowardsDenyingForTheHandOver() {
        RateLimiter limiter = limiter(Limit.of(1_000, Duration.ofMinutes(1)));
        for (int i = 0; i < 1_000; i++) {
            now(limiter.tryAcquire("a"));
            clock.advanceMillis(3);
        }
        Reconciliation reconciliation = way.handOver(10, claim -> false).get(0);
        assertThat(reconciliation.permits()).isEqualTo(1_000);
        assertThat(ages(reconciliation)).hasSizeLessThanOrEqualTo(64);
        long seenSoFar = 0;
        for (Reconciliation.Grants grants : ages(reconciliation)) {
            seenSoFar += grants.permits();
            assertThat(grants.toMillis()).as("the age of the last of them").isEqualTo(3_000 - 3 * (seenSoFar - 1));
        }
    }

    @Test
    void aLogOfSixtyFourEntriesIsHandedOverUnmerged() {
        RateLimiter limiter = limiter(Limit.of(1_000, Duration.ofMinutes(1)));
        // These expire before the hand-over.
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire("a"));
            clock.advanceMillis(1);
        }
        clock.advanceMillis(30_000);
        for (int i = 0; i < 64; i++) {
            now(limiter.tryAcquire("a"));
            clock.advanceMillis(3);
        }
        clock.advanceMillis(WINDOW - 30_000);
        assertThat(ages(way.handOver(10, claim -> false).get(0)))
                .hasSize(64)
                .allMatch(grants -> grants.permits() == 1 && grants.fromMillis() == grants.toMillis());
    }

    /** The exact time of a grant within its slot is not recorded. */
    @Test
    void grantsOfASlotAreHandedOverWithTheRangeOfTheSlot() {
        RateLimiter limiter = limiter(Limit.parse("10/1m resolution=1s"));
        clock.advanceMillis(300);
        now(limiter.tryAcquire(Charge.of("a", 2)));
        clock.advanceMillis(100);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        clock.advanceMillis(5_000);
        now(limiter.tryAcquire(Charge.of("a", 1)));
        clock.advanceMillis(1_600);
        // At 7,000, of the slots from 0 to 999 and from 5,000 to 5,999.
        assertThat(ages(way.handOver(10, claim -> false).get(0)))
                .containsExactly(
                        new Reconciliation.Grants(7_000, 6_001, 5), new Reconciliation.Grants(2_000, 1_001, 1));
    }

    @Test
    void evictedGrantsAreReportedAsLost() {
        RateLimiter limiter = Unprotected.limiter(small, Limit.perMinute(10));
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire(Charge.of("key-" + i, 2)));
        }
        CountTables.unprotected(small.ledgers());
        assertThat(small.state().lost()).isGreaterThan(900);
        assertThat(small.state().lost() + small.state().toReconcile()).isEqualTo(1_000);
        long handedOver = smallWay.handOver(1_000, claim -> false).stream()
                .mapToLong(Reconciliation::permits)
                .sum();
        assertThat(handedOver).isEqualTo(small.state().toReconcile());
    }

    @Test
    void evictedCountsAreGarbageCollected() {
        RateLimiter limiter = Unprotected.limiter(small, Limit.perMinute(10));
        List<WeakReference<Ledger>> counts = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire(Charge.of("key-" + i, 2)));
            CountTables.unprotected(small.ledgers()).forEach(count -> counts.add(new WeakReference<>(count)));
        }
        smallWay.handOver(1_000, claim -> true);
        await().untilAsserted(() -> {
            System.gc();
            assertThat(counts.stream()
                            .map(WeakReference::get)
                            .filter(Objects::nonNull)
                            .distinct())
                    .hasSizeLessThanOrEqualTo(17);
        });
    }

    @Test
    void grantsOfAProtectedCountAreNotLostToEviction() {
        RateLimiter limiter = Unprotected.limiter(small, Limit.perMinute(10));
        now(limiter.tryAcquire(Charge.of("a", 10)));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        for (int i = 0; i < 500; i++) {
            now(limiter.tryAcquire(Charge.of("key-" + i, 0)));
        }
        CountTables.unprotected(small.ledgers());
        assertThat(small.state().lost()).isZero();
        assertThat(smallWay.handOver(10, claim -> false))
                .extracting(Reconciliation::permits)
                .containsExactly(10L);
    }

    /**
     * In a long outage, each attempt to hand over leaves grants in flight. They must not count until the last expires.
     */
    @ParameterizedTest
    @CsvSource({"10/1m, 61, 5", "10/1m counter, 90, 5", "10/1m counter, 115, 8"})
    void grantsInFlightLeaveTheWindowOneByOne(String text, long seconds, long remaining) {
        RateLimiter limiter = limiter(Limit.parse(text));
        now(limiter.tryAcquire(Charge.of("a", 5)));
        clock.advanceMillis(30_000);
        now(limiter.tryAcquire(Charge.of("a", 5)));
        assertThat(way.handOver(10, claim -> false)).hasSize(1);
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        clock.advanceMillis(1_000 * (seconds - 30));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(remaining);
        clock.advanceMillis(120_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void aDenialSaysWhenTheFirstGrantsInFlightLeaveTheWindow() {
        now(limiter.tryAcquire(Charge.of("a", 5)));
        clock.advanceMillis(30_000);
        now(limiter.tryAcquire(Charge.of("a", 5)));
        assertThat(way.handOver(10, claim -> false)).hasSize(1);
        assertThat(now(limiter.tryAcquire("a")).retryAfter().orElseThrow())
                .isBetween(Duration.ofSeconds(30), Duration.ofMillis(30_010));
    }

    /** The call began in a ledger that was evicted since. The reset could remove the charge. */
    @Test
    void nothingIsHandedOverDuringAResetAlthoughAnEarlierCallEnds() {
        List<Claim> a = List.of(claim(limiter, "a"));
        Consumer<Boolean> end = store.beginReset(a);
        now(limiter.tryAcquire("a"));
        store.endCall(a);
        assertThat(way.handOver(10, claim -> false)).isEmpty();
        end.accept(true);
        assertThat(way.handOver(10, claim -> false)).hasSize(1);
    }

    /** Otherwise the same time would return two sets of permits. */
    @Test
    void aRefusedResetKeepsTheTimeInWhichLostPermitsOfABucketReturn() {
        RateLimiter limiter = limiter(Limit.bucket(10, Duration.ofSeconds(10), 10));
        now(limiter.tryAcquire(Charge.of("a", 5)));
        way.notCharged(way.handOver(10, claim -> false).get(0));
        now(limiter.tryAcquire(Charge.of("a", 10)));
        store.beginReset(List.of(claim(limiter, "a"))).accept(false);
        assertThat(now(limiter.tryAcquire("a")).retryAfter()).contains(Duration.ofSeconds(6));
    }

    @Test
    void theTimeSinceAResetSurvivesAClockStepBack() {
        RateLimiter limiter = limiter(Limit.perHour(10));
        limiter.tryAcquire("a").block();
        clock.advanceMillis(3_600_000);
        limiter.tryAcquire("a").block();
        limiter.reset("a").block();
        clock.advanceMillis(-3_600_000);
        now(limiter.peek("a"));
        clock.advanceMillis(61_000);
        refundConfirmed(store, taken(limiter, "a", 4));
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void aGrantDiscardedByAResetIsNotRefundedInThePrimaryStore() {
        RateLimiter limiter = limiter(Limit.perMinute(10).counter());
        StoreDecision before = now(limiter.tryAcquire(Charge.of("a", 2)));
        limiter.reset("a").block();
        now(limiter.tryAcquire(Charge.of("a", 3)));
        assertThat(way.handOver(10, claim -> false)).hasSize(1);
        assertRefundedInThePrimary(before);
        assertThat(store.state().toReconcile()).isEqualTo(3);
    }

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter"})
    void aRefundSubtractsConfirmedPermitsFirst(String text) {
        RateLimiter limiter = limiter(Limit.parse(text));
        remember(limiter, "a", 5, WINDOW);
        now(limiter.tryAcquire(Charge.of("a", 3)));
        limiter.refund(Charge.of("a", 6)).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(8);
        assertThat(store.state().toReconcile()).isEqualTo(2);
    }

    @Test
    void chargedGrantsOfEveryReconciliationAreRefundedInThePrimaryStore() {
        StoreDecision first = now(limiter.tryAcquire(Charge.of("a", 2)));
        charged(way.handOver(10, claim -> false).get(0));
        clock.advanceMillis(1_000);
        StoreDecision second = now(limiter.tryAcquire(Charge.of("a", 3)));
        charged(way.handOver(10, claim -> false).get(0));
        assertRefundedInThePrimary(first, 2);
        assertRefundedInThePrimary(second, 3);
    }

    @Test
    void noPermitStaysToReconcileAfterARandomHistory() {
        Random random = new Random(11);
        RateLimiter limiter = limiter(
                Limit.of(6, Duration.ofMillis(200)),
                Limit.of(9, Duration.ofMillis(300)).counter());
        List<StoreDecision> decisions = new ArrayList<>();
        List<Reconciliation> open = new ArrayList<>();
        for (int step = 0; step < 20_000; step++) {
            String key = "key-" + random.nextInt(8);
            switch (random.nextInt(10)) {
                case 0 -> open.addAll(way.handOver(random.nextInt(4), claim -> random.nextBoolean()));
                case 1, 2 -> {
                    if (!open.isEmpty()) {
                        Reconciliation one = open.remove(random.nextInt(open.size()));
                        if (random.nextInt(4) > 0) {
                            charged(one);
                        } else {
                            way.notCharged(one);
                        }
                    }
                }
                case 3 -> {
                    if (!decisions.isEmpty()) {
                        refundGrants(store, decisions.remove(random.nextInt(decisions.size())));
                    }
                }
                case 4 -> limiter.refund(Charge.of(key, 1 + random.nextInt(3))).block();
                case 5 -> clock.advanceMillis(random.nextInt(80));
                default -> {
                    StoreDecision decision = now(limiter.tryAcquire(Charge.of(key, 1 + random.nextInt(3))));
                    if (decision.isCharged()) {
                        decisions.add(decision);
                    }
                }
            }
            assertThat(store.state().toReconcile()).isNotNegative();
        }
        open.forEach(this::charged);
        way.handOver(1_000, claim -> false).forEach(this::charged);
        assertThat(store.state().toReconcile()).isZero();
    }

    /** While they were in flight, the bucket returned them, and no other permits. */
    @Test
    void permitsOfABucketThatCannotBeChargedHaveReturnedInTheirTime() {
        RateLimiter limiter = limiter(Limit.perSecond(10).burst(50));
        now(limiter.tryAcquire(Charge.of("a", 25)));
        Reconciliation sent = way.handOver(10, skipped -> false).get(0);
        now(limiter.tryAcquire(Charge.of("a", 25)));
        clock.advanceMillis(2_500);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 25))).isAllowed()).isTrue();
        clock.advanceMillis(2_500);
        way.notCharged(sent);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(25);
    }

    private static List<Reconciliation.Grants> ages(Reconciliation message) {
        return message.ages(message.grants());
    }
}
