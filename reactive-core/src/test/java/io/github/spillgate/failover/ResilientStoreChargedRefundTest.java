package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.FailoverHistory.Instance;
import io.github.spillgate.failover.FailoverHistory.Rate;
import io.github.spillgate.failover.FaultyLink.Mode;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The refund of a local grant that the store has charged, or may have, removes no permits of other requests. */
class ResilientStoreChargedRefundTest {

    private static final Limit ALIGNED = Limit.perDay(10).counter().alignedToClock();

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private FailoverHistory history;
    private Instance first;
    private Instance second;

    private void begin(Limit log, Rate rate) {
        begin(rate.like(log));
    }

    private void begin(Limit limit) {
        history = new FailoverHistory(time, limit, 2);
        first = history.instance(0);
        second = history.instance(1);
    }

    // What takes effect between the refund and its execution.

    @ParameterizedTest
    @CsvSource({"LOG, 0", "LOG, 1", "COUNTER, 0", "COUNTER, 1", "BUCKET, 0", "BUCKET, 1"})
    void aResetThatOvertakesTheRefund(Rate rate, int resetting) {
        begin(Limit.perHour(2), rate);
        first.acquireReconciled(2);
        first.connection(Mode.STALLED);
        first.refundFirst();
        first.connection(Mode.UP);
        history.instance(resetting).reset();
        second.acquireAll();
        assertThat(second.granted()).isEqualTo(2);
        first.reconnect();
        second.acquireAll();
        assertThat(second.granted()).isEqualTo(2);
        assertThat(history.used()).isEqualTo(2);
    }

    @Test
    void theEndOfTheWindowBeforeTheRefundIsExecuted() {
        begin(Limit.of(2, Duration.ofSeconds(10)));
        first.acquireReconciled(2);
        first.connection(Mode.STALLED);
        first.refundFirst();
        time.passMillis(10_000);
        second.acquireAll();
        first.reconnect();
        second.acquireAll();
        assertThat(second.granted()).isEqualTo(2);
        assertThat(history.used()).isEqualTo(2);
    }

    @Test
    void aSinglePermitIsRefunded() {
        begin(Limit.perHour(2));
        first.acquireReconciled(1);
        first.refundFirst();
        time.passMillis(100);
        assertThat(history.used()).isZero();
    }

    /** The repeated reconciliation is answered after the reset, and was charged before it. */
    @Test
    void aResetBetweenALostReplyAndItsRepetition() {
        begin(Limit.perHour(2));
        first.connection(Mode.DOWN);
        first.acquire(2);
        first.connection(Mode.LOSES_REPLIES);
        time.passMillis(1_500);
        assertThat(history.used()).isEqualTo(2);
        second.reset();
        second.acquireAll();
        first.connection(Mode.UP);
        time.passMillis(5_000);
        first.refundFirst();
        second.acquireAll();
        assertThat(second.granted()).isEqualTo(2);
    }

    /** Redis moves to a server with another clock, and grants seem to expire sooner. */
    @Test
    void aClockOfTheStoreThatStepsForward() {
        begin(Limit.perMinute(2));
        first.acquireReconciled(1);
        history.setRemoteAhead(Duration.ofSeconds(30));
        first.acquireReconciled(1);
        time.passMillis(26_000);
        assertThat(history.used()).isEqualTo(1);
        second.acquireAll();
        first.refundFirst();
        second.acquireAll();
        assertThat(history.granted()).isEqualTo(2);
    }

    // Which of several grants is refunded. All of one clock window look alike in a counter.

    /** Sent with the stamp of the second charge, the refund would be from after the reset. */
    @Test
    void aLaterGrantInFlightAfterAReset() {
        passToStartOf(ALIGNED);
        begin(ALIGNED);
        first.acquireReconciled(4);
        second.reset();
        int before = history.requests();
        first.connection(Mode.DOWN);
        first.acquire(4);
        // It is handed over.
        time.passMillis(1_100);
        first.refundFirst();
        first.connection(Mode.UP);
        time.passMillis(5_000);
        second.acquireAll();
        assertThat(history.grantedSince(before)).isEqualTo(10);
    }

    @Test
    void aLaterGrantThatIsNotHandedOver() {
        passToStartOf(ALIGNED);
        begin(ALIGNED);
        first.acquireReconciled(4);
        second.reset();
        int before = history.requests();
        first.connection(Mode.DOWN);
        first.acquire(4);
        first.refundFirst();
        first.connection(Mode.UP);
        time.passMillis(5_000);
        second.acquireAll();
        assertThat(history.grantedSince(before)).isEqualTo(10);
    }

    /** It has no part in the charges around it, and its refund would remove permits of others. */
    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void aLaterChargeAfterAChargeThatWasRejected(int chargedBefore) {
        passToStartOf(ALIGNED);
        begin(ALIGNED);
        first.acquireReconciled(chargedBefore);
        history.rejectsAReconciliation();
        first.acquireReconciled(4);
        assertThat(first.lost()).isEqualTo(4);
        int before = history.requests();
        first.acquireReconciled(4);
        assertThat(history.used()).isEqualTo(chargedBefore + 4);
        first.refund(1);
        second.acquireAll();
        assertThat(history.grantedSince(before)).isEqualTo(10 - chargedBefore);
    }

    // Refunds during a second outage.

    /** Of the ten that are refunded, half have faded. The rest of the usage is that of later grants. */
    @ParameterizedTest
    @EnumSource(
            value = Mode.class,
            names = {"UP", "DOWN"})
    void permitsThatHaveFadedInACounter(Mode secondGrants) {
        Limit limit = Limit.perMinute(10).counter().alignedToClock();
        passToStartOf(limit);
        time.passMillis(40_000);
        begin(limit);
        first.acquireReconciled(10);
        time.passMillis(47_000);
        int before = history.requests();
        first.peek();
        first.connection(secondGrants);
        first.acquireAll();
        long granted = history.grantedSince(before);
        assertThat(granted).isBetween(4L, 6L);
        first.connection(Mode.DOWN);
        first.refundFirst();
        first.acquireAll();
        assertThat(history.grantedSince(before)).isEqualTo(granted);
    }

    @ParameterizedTest
    @EnumSource
    void aResetThatAReplyHasShown(Rate rate) {
        begin(Limit.perHour(4), rate);
        first.acquireReconciled(4);
        history.instance(1).reset();
        int before = history.requests();
        first.peek();
        first.connection(Mode.DOWN);
        first.acquire(4);
        first.refundFirst();
        first.acquireAll();
        assertThat(history.grantedSince(before)).isEqualTo(4);
    }

    private void passToStartOf(Limit aligned) {
        long window = aligned.window().toMillis();
        time.passMillis(window - time.millis() % window + 1_000);
    }
}
