package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.FailoverHistory.Instance;
import io.github.spillgate.failover.FaultyLink.Mode;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Resets that overlap with decisions and reconciliations: one instance grants a limit before and a limit after. */
class ResilientStoreResetTest extends ResilientStoreFixture {

    private FailoverHistory history;
    private Instance instance;

    private void begin(String limit) {
        history = new FailoverHistory(time, Limit.parse(limit), 1);
        instance = history.instance(0);
    }

    /** The reply fits only once what is in flight is reconciled. The reset forgets what is in flight. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1d", "10/1d counter"})
    void aResetWhileAReplyWaitsForAReconciliation(String limit) {
        begin(limit);
        instance.connection(Mode.DOWN);
        instance.acquire(10);
        assertThat(history.granted()).isEqualTo(10);
        instance.connection(Mode.STALLED);
        time.passMillis(1_100);
        int before = history.requests();
        instance.connection(Mode.UP);
        instance.acquire(1);
        assertThat(history.grantedSince(before)).as("granted at once").isZero();
        time.pass(Duration.ofNanos(1));
        instance.reset();
        instance.acquireAll();
        assertThat(history.granted()).isLessThanOrEqualTo(20);
    }

    /** A grant that was made after the reset had begun is charged, and the reset must not remove the charge. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1d", "10/1d counter"})
    void aReconciliationDoesNotOvertakeAReset(String limit) {
        begin(limit);
        instance.acquire(10);
        time.passMillis(1);
        assertThat(history.granted()).isEqualTo(10);
        instance.connection(Mode.STALLED);
        instance.reset();
        instance.connection(Mode.DOWN);
        instance.acquire(10);
        instance.connection(Mode.UP);
        instance.acquire(1);
        time.passMillis(20);
        instance.reconnect();
        time.passMillis(1);
        instance.acquireAll();
        assertThat(history.granted()).isLessThanOrEqualTo(20);
    }

    /** Otherwise the refund would be subtracted from the usage since the reset. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1d", "10/1d counter"})
    void aGrantThatAResetRemovedIsNotRefunded(String limit) {
        begin(limit);
        instance.connection(Mode.STALLED);
        instance.reset();
        instance.connection(Mode.DOWN);
        instance.acquire(5);
        instance.connection(Mode.UP);
        instance.acquire(1);
        time.passMillis(20);
        instance.reconnect();
        time.passMillis(1);
        int before = history.requests();
        instance.acquireAll();
        instance.connection(Mode.DOWN);
        instance.refundFirst();
        instance.acquireAll();
        assertThat(history.grantedSince(before)).isLessThanOrEqualTo(10);
    }

    /**
     * The store charges a probe before the reset, and replies during it. Neither store would count the grant if the
     * reply took it out of the fallback, and its refund would then remove a grant that was made after the reset.
     */
    @ParameterizedTest
    @ValueSource(strings = {"10/1d", "10/1d resolution=1m", "10/1d counter", "10/1d counter aligned"})
    void aReplyDuringAResetCancelsNoGrant(String limit) {
        begin(limit);
        instance.connection(Mode.DOWN);
        for (int i = 0; i < 20; i++) {
            instance.peek();
        }
        time.passMillis(100);
        instance.connection(Mode.STALLED);
        instance.reset();
        instance.connection(Mode.UP);
        instance.acquire(1);
        assertThat(history.granted(Source.LOCAL)).as("granted by the fallback").isEqualTo(1);
        assertThat(history.used()).as("charged by the store, and refunded").isZero();
        instance.reconnect();
        assertThat(history.used()).as("charged after the reset").isZero();
        int before = history.requests();
        instance.connection(Mode.DOWN);
        instance.acquireAll();
        instance.refundFirst();
        instance.acquireAll();
        instance.connection(Mode.UP);
        time.passMillis(3_000);
        instance.acquireAll();
        assertThat(history.grantedSince(before)).isLessThanOrEqualTo(10);
    }

    /** Its caller was answered by then, and permits may have been taken since. */
    @Test
    void aResetIsNotExecutedAfterItsDeadline() {
        begin("10/1d");
        instance.acquire(10);
        time.passMillis(1);
        instance.connection(Mode.STALLED);
        instance.reset();
        time.passMillis(150);
        instance.reconnect();
        time.passMillis(1);
        assertThat(history.used()).isEqualTo(10);
    }

    /** Otherwise the fallback would forget grants that still count in the store. */
    @ParameterizedTest
    @ValueSource(strings = {"10/1d", "10/1d counter"})
    void aRefusedResetForgetsNoGrants(String limit) {
        begin(limit);
        instance.connection(Mode.DOWN);
        instance.acquire(10);
        assertThat(history.granted()).isEqualTo(10);
        instance.connection(Mode.REFUSES_RESETS);
        instance.reset();
        time.passMillis(3_000);
        instance.acquireAll();
        assertThat(history.granted()).isEqualTo(10);
    }

    /** The store may still execute it. */
    @Test
    void aResetOnAConnectionThatIsLostIsAnsweredAtTheDeadline() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.reset("a").thenReturn("reset"));
        time.passMillis(10);
        remote.failAllHeld(new LimitStoreException(Kind.UNANSWERED, "the connection is lost"));
        time.passMillis(80);
        assertThat(signals).isEmpty();
        time.passMillis(20);
        assertThat(signals).containsExactly("reset");
    }

    /** Executed after its caller was answered, it would remove permits that were taken since. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aResetThatProbesTheStoreIsNotAnsweredBeforeTheStoreOrTheDeadline(boolean isAnswered) {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        time.passMillis(1_400);
        remote.isAvailable();
        remote.holdsReplies();
        listen(limiter.reset("a").thenReturn("reset"));
        time.passMillis(99);
        assertThat(signals).isEmpty();
        if (isAnswered) {
            remote.replyToAll();
        } else {
            time.passMillis(1);
        }
        assertThat(signals).containsExactly("reset");
    }
}
