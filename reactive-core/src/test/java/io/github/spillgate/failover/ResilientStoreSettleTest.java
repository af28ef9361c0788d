package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.testkit.LogForTests;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.Disposable;

/** Settled costs reach the primary store once, or count in the ledgers of the fallback. */
class ResilientStoreSettleTest extends ResilientStoreFixture {

    static List<Limit> kinds() {
        return List.of(LIMIT, LIMIT.counter(), LIMIT.counter().alignedToClock(), LIMIT.burst(10));
    }

    @Test
    void aSettlementWithALostReplyIsRetriedAndTakesEffectOnce() {
        RateLimiter limiter = limiter(LIMIT);
        Decision more = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision less = now(limiter.tryAcquire(Charge.of("b", 9)));
        remote.losesReplies(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        limiter.settle(more, 5).subscribe();
        limiter.settle(less, 4).subscribe();
        time.pass(Duration.ofSeconds(5));
        assertThat(remote.settlementBatches()).hasSizeGreaterThan(2);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(used("a")).isEqualTo(5);
        assertThat(used("b")).isEqualTo(4);
        assertThat(limiter.state().lostSettlements()).isZero();
        int sent = remote.settlementBatches().size();
        time.pass(Duration.ofMinutes(2));
        assertThat(remote.settlementBatches()).hasSize(sent);
    }

    @Test
    void theCallerWaitsUntilTheDeadlineOnly() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        remote.holdsReplies();
        limiter.settle(decision, 5).subscribe(null, signals::add, () -> signals.add("completed"));
        time.passMillis(99);
        assertThat(signals).isEmpty();
        time.passMillis(1);
        assertThat(signals).containsExactly("completed");
    }

    @Test
    void settlementsThatWaitForAReplyAreSentTogether() {
        RateLimiter limiter = limiter(LIMIT);
        List<Decision> decisions = IntStream.range(0, 101)
                .mapToObj(i -> now(limiter.tryAcquire(Charge.of("key-" + i, 2))))
                .toList();
        remote.holdsReplies();
        decisions.forEach(decision -> limiter.settle(decision, 3).subscribe());
        assertThat(remote.settlementBatches()).hasSize(1);
        remote.replyToAll();
        time.passMillis(1);
        remote.replyToAll();
        time.passMillis(1);
        remote.replyToAll();
        assertThat(remote.settlementBatches()).extracting(List::size).containsExactly(1, Outbox.BATCH, 36);
        remote.isAvailable();
        assertThat(used("key-100")).isEqualTo(3);
    }

    @Test
    void aBatchDoesNotGrowWhenItIsRetried() {
        RateLimiter limiter = limiter(LIMIT);
        List<Decision> decisions = IntStream.range(0, 200)
                .mapToObj(i -> now(limiter.tryAcquire(Charge.of("key-" + i, 2))))
                .toList();
        remote.losesReplies(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        decisions.forEach(decision -> limiter.settle(decision, 3).subscribe());
        time.pass(Duration.ofSeconds(20));
        assertThat(remote.settlementBatches())
                .hasSizeGreaterThan(5)
                .allSatisfy(batch -> assertThat(batch).hasSizeLessThanOrEqualTo(Outbox.BATCH));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(used("key-199")).isEqualTo(3);
    }

    @Test
    void aRefundIsDeliveredAfterAnOutageOfLessThanTheHorizon() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 9)));
        open(limiter);
        limiter.settle(decision, 4).subscribe(null, signals::add, () -> signals.add("completed"));
        assertThat(signals).containsExactly("completed");
        time.pass(Duration.ofSeconds(45));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(4));
        assertThat(used("a")).isEqualTo(4);
        assertThat(limiter.state().lostSettlements()).isZero();
    }

    @Test
    void aRefundThatCannotBeDeliveredWithinTheHorizonIsLost() {
        try (LogForTests log = LogForTests.listen()) {
            RateLimiter limiter = limiter(LIMIT);
            Decision decision = now(limiter.tryAcquire(Charge.of("a", 9)));
            open(limiter);
            limiter.settle(decision, 4).subscribe();
            time.pass(Duration.ofSeconds(52));
            assertThat(limiter.state().lostSettlements()).isEqualTo(1);
            remote.isAvailable();
            time.pass(Duration.ofSeconds(5));
            assertThat(used("a")).isEqualTo(9);
            assertThat(log.lines("1 settled costs could not be delivered to ControlledStore"))
                    .hasSize(1);
        }
    }

    @Test
    void theReasonOfALostSettlementCannotForgeALine() {
        try (LogForTests log = LogForTests.listen()) {
            RateLimiter limiter = limiter(LIMIT);
            Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
            remote.failsWith(new LimitStoreException(Kind.REJECTED, "bad\nWARN forged"));
            limiter.settle(decision, 4).subscribe();
            time.pass(Duration.ofSeconds(2));
            assertThat(log.lines("1 settled costs could not be delivered to ControlledStore"))
                    .hasSize(1)
                    .allMatch(line -> line.endsWith("bad\\u000aWARN forged"));
        }
    }

    /** Its permits are in the primary store by then, which the next outage hides. */
    @ParameterizedTest
    @MethodSource("kinds")
    void aDecisionOfTheFallbackIsSettledAfterItsReconciliation(Limit limit) {
        RateLimiter limiter = limiter(limit);
        remote.fails();
        Decision local = now(limiter.tryAcquire(Charge.of("a", 9)));
        assertThat(local.source()).isEqualTo(Source.LOCAL);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(9);
        open(limiter);
        limiter.settle(local, 1).subscribe();
        time.pass(Duration.ofSeconds(2));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(4));
        assertThat(limiter.state().lostSettlements()).isZero();
        assertThat(used("a", limit)).as(String.valueOf(limiter.state())).isLessThanOrEqualTo(1);
    }

    @Test
    void severalDecisionsOfTheFallbackOnOneKeyAreSettledAfterTheirReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        List<Decision> local = Stream.generate(() -> now(limiter.tryAcquire(Charge.of("a", 3))))
                .limit(3)
                .toList();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        open(limiter);
        local.forEach(decision -> limiter.settle(decision, 1).subscribe());
        time.pass(Duration.ofSeconds(2));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(4));
        assertThat(used("a")).isEqualTo(3);
        assertThat(limiter.state().lostSettlements()).isZero();
    }

    @Test
    void aRefundOfReconciledPermitsWithoutAReplyIsLostAndCounted() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        Decision local = now(limiter.tryAcquire(Charge.of("a", 9)));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        remote.failsWith(new LimitStoreException(Kind.UNANSWERED, "the connection was lost"));
        limiter.settle(local, 1).subscribe();
        time.passMillis(1);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(used("a")).isEqualTo(9);
        assertThat(limiter.state().lostSettlements()).isEqualTo(1);
    }

    /** It is a grant of the fallback, which is reconciled however long the outage lasts. */
    @ParameterizedTest
    @MethodSource("kinds")
    void anAdditionalCostDuringAnOutageIsReconciled(Limit limit) {
        RateLimiter limiter = limiter(limit);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        open(limiter);
        limiter.settle(decision, 12).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(10);
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.source()).isEqualTo(Source.LOCAL);
        assertThat(denied.isAllowed()).isFalse();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(limiter.state().reconciled()).isEqualTo(10);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    /** The reset has removed what was charged. */
    @ParameterizedTest
    @MethodSource("kinds")
    void anAdditionalCostDuringAnOutageIsNotChargedAfterAReset(Limit limit) {
        RateLimiter limiter = limiter(limit);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        listen(limiter.reset("a"));
        time.passMillis(1);
        open(limiter);
        limiter.settle(decision, 12).subscribe();
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 3))).isAllowed()).isTrue();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a", limit)).isBetween(1L, 3L);
        assertThat(limiter.state().lostSettlements()).isZero();
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aDecisionOfTheFallbackIsSettledBeforeItIsReconciled(Limit limit) {
        RateLimiter limiter = limiter(limit);
        open(limiter);
        Decision more = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision less = now(limiter.tryAcquire(Charge.of("b", 9)));
        limiter.settle(more, 14).subscribe();
        limiter.settle(less, 3).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(17);
        assertThat(now(limiter.peek("a")).isAllowed()).isFalse();
        assertThat(now(limiter.tryAcquire(Charge.of("b", 7))).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire("b")).isAllowed()).isFalse();
        assertThat(remote.settlementBatches()).isEmpty();
    }

    @Test
    void aDecisionOfTheFallbackIsSettledAfterItWasReconciled() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        Decision more = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision less = now(limiter.tryAcquire(Charge.of("b", 9)));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("b")).isEqualTo(9);
        limiter.settle(more, 14).subscribe();
        limiter.settle(less, 3).subscribe();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(14);
        assertThat(used("b")).isEqualTo(3);
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void theDebtOfTheFallbackIsBounded(Limit limit) {
        RateLimiter limiter = limiter(limit);
        open(limiter);
        Decision first = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision second = now(limiter.tryAcquire(Charge.of("a", 2)));
        limiter.settle(first, 1_000_000).subscribe();
        limiter.settle(second, 1_000_000).subscribe();
        assertThat(now(limiter.peek("a")).limits().get(0).used()).isEqualTo(20);
        assertThat(limiter.state().toReconcile()).isEqualTo(20);
    }

    @Test
    void aRefundEndsACachedDenial() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 10)));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.CACHED_DENIAL);
        limiter.settle(decision, 5).subscribe();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void aRefundWakesWaiters() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 10)));
        Disposable waiter = listen(limiter.acquire("a", Duration.ofMinutes(2)));
        time.passMillis(10);
        assertThat(signals).isEmpty();
        limiter.settle(decision, 9).subscribe();
        time.passMillis(1);
        assertThat(decisions()).extracting(Decision::isAllowed).containsExactly(true);
        waiter.dispose();
    }

    @Test
    void whatTheStoreRefusesIsSentAgainAndDoesNotOpenTheBreaker() {
        RateLimiter limiter = limiter(LIMIT);
        for (int i = 0; i < 30; i++) {
            Decision decision = now(limiter.tryAcquire(Charge.of("key-" + i, 2)));
            remote.failsWith(new LimitStoreException(Kind.REFUSED, "no permission"));
            limiter.settle(decision, 3).subscribe();
            time.passMillis(1);
            remote.isAvailable();
        }
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        time.pass(Duration.ofSeconds(1));
        assertThat(limiter.state().lostSettlements()).isZero();
        assertThat(used("key-29")).isEqualTo(3);
    }

    @Test
    void aSettlementIsDeliveredAndFreesItsPlaceOnceIfTheBreakerThrows() {
        ResilientStore store = throwsWhenTheBreakerOpens(2);
        RateLimiter limiter = on(store);
        int capacity = store.failover().gates().whole().freeCapacity();
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        remote.holdsReplies();
        limiter.settle(decision, 5).subscribe();
        time.passMillis(2);
        remote.replyToAll();
        remote.isAvailable();
        assertThat(limiter.state().lostSettlements()).isZero();
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(capacity);
        assertThat(used("a")).isEqualTo(5);
    }

    @Test
    void theQueueIsBounded() {
        RateLimiter limiter = limiter(Limit.of(1_000_000, Duration.ofHours(1)).counter());
        remote.holdsReplies();
        remote.isAvailable();
        List<Decision> decisions = IntStream.range(0, SettlementOutbox.MOST_WAITING + 3)
                .mapToObj(i -> now(limiter.tryAcquire(Charge.of("a", 2))))
                .toList();
        remote.holdsReplies();
        decisions.forEach(decision -> limiter.settle(decision, 3).subscribe());
        assertThat(limiter.state().lostSettlements()).isEqualTo(3);
    }

    @Test
    void theEndOfTheLimiterDeliversWhatWaits() {
        RateLimiter limiter = limiter(LIMIT);
        Decision first = now(limiter.tryAcquire(Charge.of("a", 2)));
        Decision second = now(limiter.tryAcquire(Charge.of("b", 2)));
        remote.losesReplies(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        limiter.settle(first, 5).subscribe();
        limiter.settle(second, 1).subscribe();
        remote.isAvailable();
        limiter.closeLater().subscribe(null, signals::add, () -> signals.add("closed"));
        time.passMillis(50);
        assertThat(signals).containsExactly("closed");
        assertThat(used("a")).isEqualTo(5);
        assertThat(used("b")).isEqualTo(1);
    }

    @Test
    void theIdsOfAllSettlementsAreDifferent() {
        RateLimiter limiter = limiter(LIMIT);
        for (int i = 0; i < 5; i++) {
            limiter.settle(now(limiter.tryAcquire(Charge.of("a", 1))), 2).subscribe();
            time.passMillis(1);
        }
        assertThat(remote.settlementBatches().stream().flatMap(List::stream).map(Settlement::id))
                .hasSize(5)
                .doesNotHaveDuplicates();
        assertThat(used("a")).isEqualTo(10);
    }
}
