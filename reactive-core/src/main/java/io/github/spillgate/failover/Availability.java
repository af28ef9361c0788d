package io.github.spillgate.failover;

import io.github.spillgate.internal.Time;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Whether the store decides or the fallback.
 *
 * <p>The breaker alone cannot decide this: with few keys it gets too few reports, because once the fallback has granted
 * permits of a key, it decides on that key until they are reconciled.
 */
final class Availability {
    // Design notes.
    //
    //   DECIDES ──> SUSPECTED ──> FALLEN_BACK
    //
    //   DECIDES      to SUSPECTED when the fallback decides, for any reason.
    //   SUSPECTED    to FALLEN_BACK when it still does half a second later; to DECIDES when the store decides.
    //   FALLEN_BACK  is an outage. To DECIDES when the store decides and its breaker is closed.
    //
    // If the breaker opens, the next state is FALLEN_BACK at once.

    /** If only the fallback has decided for this time, the store counts as unavailable, whatever the breaker says. */
    private static final long LONGEST_SUSPICION = TimeUnit.MILLISECONDS.toNanos(500);

    private final OutageLog log;
    private final Runnable onAvailable;
    private final AtomicReference<OutageState> state = new AtomicReference<>(OutageState.DECIDES);

    /** When the fallback first decided since the store last did; not used in other states than SUSPECTED. */
    private volatile long suspectedAt;

    /** When the last outage ended. */
    private volatile long availableSince = Time.nanos() - TimeUnit.DAYS.toNanos(1);

    private enum OutageState {
        DECIDES,
        SUSPECTED,
        FALLEN_BACK
    }

    /**
     * Creates the state of a store that is available.
     *
     * @param log the log of outages
     * @param onAvailable called at the end of each outage
     */
    Availability(OutageLog log, Runnable onAvailable) {
        this.log = log;
        this.onAvailable = onAvailable;
    }

    boolean isAvailable() {
        return state.get() != OutageState.FALLEN_BACK;
    }

    /** Returns whether there is an outage, or one has ended within a time. */
    boolean isAfterOutage(long nanos) {
        return !isAvailable() || Time.nanos() - availableSince < nanos;
    }

    /**
     * Records that the store made a decision by the deadline.
     *
     * @param isClosed whether its breaker is closed
     */
    void recordDecision(boolean isClosed) {
        endSuspicion();
        if (isClosed) {
            log.forgetProblem();
            if (isAvailable()) {
                return;
            }
            // Before the state, so that it is after an outage at once.
            availableSince = Time.nanos();
            if (state.compareAndSet(OutageState.FALLEN_BACK, OutageState.DECIDES)) {
                log.outageEnded();
                onAvailable.run();
            }
        }
    }

    /** Records that the store replies, so that it is no outage if the fallback decides. */
    void endSuspicion() {
        if (state.get() == OutageState.SUSPECTED) {
            state.compareAndSet(OutageState.SUSPECTED, OutageState.DECIDES);
        }
    }

    /**
     * Records that the fallback decides, for any reason.
     *
     * @param whyNotAsked why the store was not asked; empty if it was
     */
    void recordFallback(String whyNotAsked) {
        if (state.get() == OutageState.DECIDES) {
            suspectedAt = Time.nanos();
            state.compareAndSet(OutageState.DECIDES, OutageState.SUSPECTED);
        } else if (isSuspectedForLong()) {
            startOutage(whyNotAsked);
        }
    }

    /** Records a missed deadline, which is logged only if there is no outage. */
    void recordMissedDeadline(boolean stalled) {
        if (isAvailable()) {
            log.missedDeadline(stalled);
        }
    }

    /**
     * Records why a request failed.
     *
     * @param isOpen whether that has opened the breaker
     */
    void recordFailure(Throwable error, boolean isOpen) {
        log.failed(error);
        if (isOpen || isSuspectedForLong()) {
            recordOpen();
        }
    }

    /** Records that the breaker is open, or that the store fails after a long suspicion. */
    void recordOpen() {
        startOutage("");
    }

    private void startOutage(String whyNotAsked) {
        if (isAvailable() && state.getAndSet(OutageState.FALLEN_BACK) != OutageState.FALLEN_BACK) {
            log.outageBegan(whyNotAsked);
        }
    }

    private boolean isSuspectedForLong() {
        return state.get() == OutageState.SUSPECTED && Time.nanos() - suspectedAt >= LONGEST_SUSPICION;
    }
}
