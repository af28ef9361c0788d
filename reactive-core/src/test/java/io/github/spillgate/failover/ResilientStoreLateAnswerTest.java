package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.StoreForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Answers of the store that arrive after the fallback has decided, or while it begins to. */
class ResilientStoreLateAnswerTest extends ResilientStoreFixture {

    @Test
    void aLateGrantCancelsTheReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        time.passMillis(100);
        assertThat(sources()).containsExactly(Source.LOCAL);
        assertThat(limiter.state().toReconcile()).isEqualTo(3);
        time.pass(Duration.ofSeconds(20));
        assertThat(remote.batches()).as("a count in doubt is not reconciled").isEmpty();
        remote.replyToAll();
        remote.isAvailable();
        assertThat(limiter.state().toReconcile()).isZero();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(3);
        assertThat(limiter.state().unknown()).isZero();
        assertThat(limiter.state().reconciled()).isZero();
    }

    @ParameterizedTest
    @EnumSource(
            value = Kind.class,
            names = {"LATE", "UNAVAILABLE"})
    void aRequestThatFailsAfterItsDeadlineIsReconciled(Kind kind) {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsAfter(Duration.ofMillis(150), new LimitStoreException(kind, "late"));
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        time.passMillis(100);
        assertThat(sources()).containsExactly(Source.LOCAL);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(3);
        assertThat(limiter.state().reconciled()).isEqualTo(3);
        assertThat(limiter.state().unknown()).isZero();
    }

    /** For the breaker, a refusal at the deadline is a missed deadline, and one before it is an answer. */
    @ParameterizedTest
    @CsvSource({"100, OPEN", "99, CLOSED"})
    void aRefusalAtTheDeadlineIsAFailureAndOneBeforeItIsNot(long millis, Breaker breaker) {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsAfter(Duration.ofMillis(millis), new LimitStoreException(Kind.LATE, "too late"));
        for (int i = 0; i < 10; i++) {
            listen(limiter.tryAcquire("key" + i));
        }
        time.passMillis(101);
        assertThat(sources()).hasSize(10).containsOnly(Source.LOCAL);
        assertThat(limiter.state().breaker()).isEqualTo(breaker);
    }

    /** The permits that the store and the fallback grant together must not exceed the limit. */
    @Test
    void lateGrantsAreDeniedIfTheFallbackHasGrantedTheLimit() {
        RateLimiter limiter = limiter(LIMIT);
        startFallbackWithFiveInFlight(limiter);
        // The first five time out, and the fallback, which knows of none of them, grants up to the limit.
        take(limiter, 10);
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(10);
        remote.replyToAll();
        assertThat(decisions()).hasSize(20);
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(10);
        assertThat(sources()).containsOnly(Source.LOCAL);
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(limiter.state().reconciled()).isEqualTo(5);
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void grantsInFlightAreAllowedWhileLocalGrantsLeaveRoom() {
        RateLimiter limiter = limiter(LIMIT);
        startFallbackWithFiveInFlight(limiter);
        take(limiter, 2);
        remote.replyToAll();
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(10);
        assertThat(sources()).filteredOn(source -> source == Source.OTHER).hasSize(3);
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void aLateGrantOverSeveralCountsIsAllowedForAllOrNone() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 2), Charge.of("b", 2)));
        remote.fails();
        assertThat(now(limiter.tryAcquire(Charge.of("b", 9))).isAllowed()).isTrue();
        remote.isAvailable();
        remote.replyToAll();
        assertThat(decisions()).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
        });
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isZero();
        assertThat(used("b")).isEqualTo(9);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 10))).isAllowed()).isTrue();
    }

    @Test
    void lateGrantsAreComparedWithTheLocalShare() {
        local.share(0.5);
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        take(limiter, 7);
        remote.fails();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 5))).isAllowed()).isTrue();
        remote.replyToAll();
        assertThat(sources()).filteredOn(source -> source == Source.OTHER).hasSize(5);
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(5);
    }

    /** Whether the reconciliation has been charged becomes known with its reply only. */
    @Test
    void theFallbackDecidesUntilAReconciliationIsAnswered() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 6)));
        remote.isAvailable();
        remote.reconciles(charged -> charged.delayElement(Duration.ofMillis(30)));
        sendTheReconciliation(limiter);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 3))).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 2))).isAllowed()).isFalse();
        time.passMillis(100);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 1)));
        assertThat(decision.source()).isEqualTo(Source.OTHER);
        assertThat(decision.isAllowed()).isTrue();
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void aReplyDoesNotWaitForAReconciliationThatIsNotInFlight() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 5)));
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 6)));
        remote.isAvailable();
        remote.reconciles(charged -> charged.then(Mono.error(new LimitStoreException(Kind.UNANSWERED, "lost"))));
        sendTheReconciliation(limiter);
        remote.replyToAll();
        assertThat(decisions()).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
        });
    }

    @Test
    void aReconciliationBetweenChargeAndReplyIsTakenIntoAccount() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 5)));
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 6)));
        remote.isAvailable();
        sendTheReconciliation(limiter);
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(used("a")).isEqualTo(11);
        remote.replyToAll();
        assertThat(decisions()).singleElement().matches(decision -> !decision.isAllowed());
        assertThat(used("a")).isEqualTo(6);
    }

    /** The charge is older than the other grant, so it would expire before that grant does. */
    @Test
    void aLateChargeOfARefundedGrantCancelsNoOtherGrant() {
        RateLimiter limiter = limiter(LIMIT);
        Decision refunded = grantsOfTheSameTime(limiter).get(0);
        limiter.refund(refunded).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        remote.replyToAll();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a")).isZero();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(4);
        assertThat(used("a")).isEqualTo(4);
    }

    /** So much of the charge replaces the grant as the settlement leaves of it; the rest is refunded. */
    @ParameterizedTest
    @CsvSource({"1", "5"})
    void aLateChargeOfASettledGrantCancelsNoOtherGrant(int actual) {
        RateLimiter limiter = limiter(LIMIT);
        Decision settled = grantsOfTheSameTime(limiter).get(0);
        limiter.settle(settled, actual).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + actual);
        remote.replyToAll();
        int charged = Math.min(3, actual);
        assertThat(used("a")).isEqualTo(charged);
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + actual - charged);
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(4 + actual);
    }

    @Test
    void aLateChargeIsRefundedOnlyUnderTheLimitsOfTheRefund() {
        Limit daily = Limit.of(20, Duration.ofDays(1));
        RateLimiter limiter = limiter(LIMIT, daily);
        Decision refunded = grantsOfTheSameTime(limiter).get(0);
        limiter.refund(refunded, usage -> usage.limit().equals(LIMIT)).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + 7);
        remote.replyToAll();
        assertThat(limiter.state().toReconcile())
                .as("the daily grant is cancelled")
                .isEqualTo(4 + 4);
        time.pass(Duration.ofSeconds(3));
        Decision usage =
                now(remote.unprotected("api").limit(LIMIT).limit(daily).build().peek("a"));
        assertThat(usage.limits()).extracting(Decision.Usage::used).containsExactly(4L, 7L);
    }

    /** Leaves five callers answered by the fallback and five waiting for the store. */
    private void startFallbackWithFiveInFlight(RateLimiter limiter) {
        remote.holdsReplies();
        take(limiter, 5);
        time.passMillis(60);
        take(limiter, 5);
        time.passMillis(40);
        remote.isAvailable();
    }

    /** Passes the deadline, at which the fallback grants. */
    private void replyToALocalGrantAfter(int millis) {
        time.passMillis(millis);
        assertThat(decisions().get(0).isAllowed()).isTrue();
        remote.isAvailable();
        remote.replyToAll();
    }

    private void take(RateLimiter limiter, int times) {
        for (int i = 0; i < times; i++) {
            listen(limiter.tryAcquire("a"));
        }
    }

    @Test
    void aLocalGrantIsReconciledAfterALateDenial() {
        RateLimiter limiter = limiter(LIMIT);
        now(remote.unprotected("api").limit(LIMIT).build().tryAcquire(Charge.of("a", 9)));
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        time.passMillis(100);
        remote.replyToAll();
        remote.isAvailable();
        assertThat(limiter.state().toReconcile()).isEqualTo(3);
        now(limiter.peek("b"));
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(3);
    }

    /** The reset has deleted the store's charge, so only the fallback knows of the grant. */
    @Test
    void aLateGrantFromBeforeAResetKeepsTheReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        limiter.tryAcquire(Charge.of("b", 3)).subscribe();
        limiter.reset("a").subscribe();
        replyToALocalGrantAfter(100);
        assertThat(limiter.state().toReconcile()).isEqualTo(3);
        now(limiter.peek("c"));
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(3);
        assertThat(used("a")).isEqualTo(3);
        assertThat(used("b")).isEqualTo(3);
    }

    /** The store may execute the two in either order. */
    @ParameterizedTest
    @CsvSource({"0, 50", "60, 0"})
    void aLateGrantBesideAResetKeepsTheReconciliation(int resetAt, int takenAt) {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        Schedulers.parallel().schedule(limiter.reset("a")::subscribe, resetAt, TimeUnit.MILLISECONDS);
        Schedulers.parallel()
                .schedule(() -> listen(limiter.tryAcquire(Charge.of("a", 3))), takenAt, TimeUnit.MILLISECONDS);
        replyToALocalGrantAfter(takenAt + 110);
        assertThat(limiter.state().toReconcile()).isEqualTo(3);
    }

    @Test
    void aCancelledResetCountsAsOfItsCancellation() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        Disposable pending = limiter.reset("a").subscribe();
        time.passMillis(50);
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        pending.dispose();
        replyToALocalGrantAfter(100);
        assertThat(limiter.state().toReconcile()).isEqualTo(3);
    }

    @Test
    void aLateGrantRequestedAfterAResetCancelsTheReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        limiter.reset("a").block();
        time.passMillis(1);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        replyToALocalGrantAfter(100);
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(used("a")).isEqualTo(3);
    }

    @Test
    void aLateGrantThatTheFallbackDeniedIsRefunded() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire(Charge.of("a", 10)));
        remote.unprotected("api").limit(LIMIT).build().reset("a").block();
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        time.passMillis(100);
        assertThat(decisions().get(0).isAllowed()).isFalse();
        remote.isAvailable();
        remote.replyToAll();
        assertThat(used("a")).isZero();
    }

    /** As if the reply arrived on another thread, after the deadline and before the decision of the fallback. */
    @Test
    void aGrantThatArrivesWhileTheFallbackDeniesIsPassedOn() {
        RateLimiter limiter = limiterWith(new Unprotected(Fallback.deny()) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                return Mono.defer(() -> {
                    remote.replyToAll();
                    return super.take(claims);
                });
            }
        });
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        time.passMillis(100);
        assertThat(decisions()).singleElement().matches(Decision::isAllowed);
        assertThat(sources()).containsExactly(Source.OTHER);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(3);
    }

    static Stream<LimitStore> fallbacksThatDecideNothing() {
        return Stream.of(
                Fallback.error(),
                deciding(Mono.empty()),
                deciding(Mono.error(new LimitStoreException(Kind.REJECTED, "no"))));
    }

    private static LimitStore deciding(Mono<StoreDecision> what) {
        return StoreForTests.taking(LocalStore.bounded(16), claims -> what);
    }

    @ParameterizedTest
    @MethodSource("fallbacksThatDecideNothing")
    void aLateGrantWithoutAFallbackDecisionIsRefunded(LimitStore fallback) {
        ResilientStore store = ResilientStore.builder(remote).fallback(fallback).build();
        RateLimiter limiter = on(store);
        remote.holdsReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3))
                .switchIfEmpty(Mono.error(new LimitStoreException(Kind.REJECTED, "nothing"))));
        time.passMillis(100);
        assertThat(signals).hasSize(1).hasOnlyElementsOfType(LimitStoreException.class);
        remote.isAvailable();
        remote.replyToAll();
        assertThat(used("a")).isZero();
    }

    @Test
    void anUnansweredCallIsReconciledAndReportedAsUnknown() {
        RateLimiter limiter = limiter(Limit.of(10, Duration.ofMinutes(5)));
        remote.neverReplies();
        listen(limiter.tryAcquire(Charge.of("a", 3)));
        time.passMillis(100);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(50));
        assertThat(limiter.state().unknown()).isZero();
        assertThat(limiter.state().toReconcile()).isEqualTo(3);
        time.pass(Duration.ofSeconds(15));
        assertThat(limiter.state().unknown()).isEqualTo(3);
        assertThat(limiter.state().reconciled()).isEqualTo(3);
    }

    @Test
    void aFailedProbeIsNotUnknown() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        time.passMillis(1_400);
        remote.fails();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().toReconcile()).isEqualTo(1);
        assertThat(limiter.state().unknown()).isZero();
    }

    @Test
    void anEmptyReplyIsAFailure() {
        RateLimiter limiter = limiter(LIMIT);
        remote.completesEmpty();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().problem().orElseThrow()).contains("completed without a decision");
    }

    @Test
    void aLostReplyIsUnknownAtOnce() {
        RateLimiter limiter = limiter(LIMIT);
        remote.losesReplies(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        now(limiter.tryAcquire(Charge.of("a", 3)));
        assertThat(limiter.state().unknown()).isEqualTo(3);
        remote.isAvailable();
        now(limiter.peek("a"));
        time.pass(Duration.ofSeconds(3));
        // At least the granted permits; this is the only case in which more may be charged.
        assertThat(used("a")).isEqualTo(6);
    }
}
