package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Refunds and settlements of grants that a late reply has cancelled, because the store has charged them: they change
 * that charge, and no other grant of the fallback, which would expire later.
 */
class ResilientStoreMovedGrantTest extends ResilientStoreFixture {

    private static final Limit DAILY = Limit.of(20, Duration.ofDays(1));

    static List<Limit> kinds() {
        return List.of(LIMIT, LIMIT.leased(), LIMIT.counter(), LIMIT.counter().alignedToClock(), LIMIT.burst(10));
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aRefundChangesTheCharge(Limit limit) {
        RateLimiter limiter = limiter(limit);
        Decision moved = movedBesideAGrantOfFour(limiter);
        assertThat(used("a", limit)).isEqualTo(3);
        limiter.refund(moved).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a", limit)).isZero();
        limiter.refund(moved).subscribe();
        limiter.settle(moved, 0).subscribe();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(4);
        assertThat(used("a", limit)).isEqualTo(4);
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aSettlementToLessChangesTheCharge(Limit limit) {
        RateLimiter limiter = limiter(limit);
        limiter.settle(movedBesideAGrantOfFour(limiter), 1).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a", limit)).isEqualTo(1);
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aSettlementToMoreChangesTheCharge(Limit limit) {
        RateLimiter limiter = limiter(limit);
        limiter.settle(movedBesideAGrantOfFour(limiter), 5).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a", limit)).isEqualTo(5);
    }

    /** The additional cost is a grant of the fallback, and the rest is not. */
    @Test
    void duringAnOutageASettlementToMoreIsReconciled() {
        RateLimiter limiter = limiter(LIMIT);
        Decision moved = movedBesideAGrantOfFour(limiter);
        open(limiter);
        limiter.settle(moved, 5).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + 2);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(used("a", LIMIT)).isEqualTo(4 + 5);
    }

    /** The refund cannot be sent. It must not be made in the fallback, which does not hold the permits. */
    @Test
    void duringAnOutageARefundChangesNoOtherGrant() {
        RateLimiter limiter = limiter(LIMIT);
        Decision moved = movedBesideAGrantOfFour(limiter);
        open(limiter);
        limiter.refund(moved).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(used("a", LIMIT)).isBetween(4L, 4L + 3);
    }

    @Test
    void aResetRemovesTheCharge() {
        RateLimiter limiter = limiter(LIMIT);
        Decision moved = movedBesideAGrantOfFour(limiter);
        limiter.reset("a").subscribe();
        limiter.tryAcquire(Charge.of("a", 5)).subscribe();
        limiter.refund(moved).subscribe();
        assertThat(used("a", LIMIT)).isEqualTo(5);
        assertThat(limiter.state().toReconcile()).isZero();
    }

    /** Under one limit before the late reply, in the fallback, and under the other one afterwards, in the store. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void eachLimitIsRefundedWhereItsPermitsAre(boolean dailyFirst) {
        RateLimiter limiter = limiter(LIMIT, DAILY);
        Decision decision = grantsOfTheSameTime(limiter).get(0);
        limiter.refund(decision, usage -> usage.limit().equals(DAILY) == dailyFirst)
                .subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(7 + 4);
        remote.replyToAll();
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + 4);
        assertThat(used("a", LIMIT)).isEqualTo(dailyFirst ? 3 : 0);
        assertThat(used("a", DAILY)).isEqualTo(dailyFirst ? 0 : 3);
        limiter.refund(decision).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + 4);
        assertThat(used("a", LIMIT)).isZero();
        assertThat(used("a", DAILY)).isZero();
    }

    @Test
    void theLimitsOfAChargeAreRefundedOneByOne() {
        RateLimiter limiter = limiter(LIMIT, DAILY);
        Decision moved = movedBesideAGrantOfFour(limiter);
        limiter.refund(moved, usage -> usage.limit().equals(DAILY)).subscribe();
        assertThat(used("a", LIMIT)).isEqualTo(3);
        assertThat(used("a", DAILY)).isZero();
        limiter.settle(moved, 2).subscribe();
        assertThat(used("a", LIMIT)).isEqualTo(2);
        assertThat(used("a", DAILY)).isZero();
        assertThat(limiter.state().toReconcile()).isEqualTo(4 + 4);
    }

    /** The store may have charged it or not. */
    @Test
    void aGrantWithoutALateReplyIsRefundedInTheFallback() {
        RateLimiter limiter = limiter(LIMIT);
        Decision kept = grantsOfTheSameTime(limiter).get(0);
        remote.failAllHeld(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        limiter.refund(kept).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a", LIMIT)).isEqualTo(3);
    }

    /** The other store notes on the decision that its fallback has made it. */
    @Test
    void aRefundChangesTheChargeIfTheStoreIsAFallback() {
        RateLimiter limiter = limiterWithAResilientFallback();
        Decision moved = movedBesideAGrantOfFour(limiter);
        limiter.refund(moved).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a", LIMIT)).isZero();
    }

    @Test
    void aRefundBeforeTheLateReplyIsMadeOnceIfTheStoreIsAFallback() {
        RateLimiter limiter = limiterWithAResilientFallback();
        Decision refunded = grantsOfTheSameTime(limiter).get(0);
        limiter.refund(refunded).subscribe();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        remote.replyToAll();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        assertThat(used("a", LIMIT)).isZero();
    }

    private RateLimiter limiterWithAResilientFallback() {
        ControlledStore other = new ControlledStore(time);
        other.isUnreachable();
        return limiterOn(other, ResilientStore.builder(remote).fallback(local).build());
    }

    /**
     * Returns a grant of 3 permits that a late reply has cancelled. A grant of 4 permits of the same time is to be
     * reconciled.
     */
    private Decision movedBesideAGrantOfFour(RateLimiter limiter) {
        Decision moved = grantsOfTheSameTime(limiter).get(0);
        remote.replyToAll();
        return moved;
    }
}
