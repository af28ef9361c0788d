package io.github.spillgate.failover;

import io.github.spillgate.spi.LimitStore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import reactor.util.context.ContextView;

/**
 * What all calls of a {@link ResilientStore} share.
 *
 * @param primary the store that decides while it can
 * @param fallback the store that decides otherwise
 * @param deadlineNanos the longest time for a result
 * @param gates the circuit breakers
 * @param grants what the fallback has granted
 * @param denials the cached denials
 * @param leases the leased permits
 * @param timers the deadlines of calls
 * @param fallbacks how many calls fell back
 * @param missedDeadlines how many of them fell back at the deadline although the breaker was closed
 */
record Failover(
        LimitStore primary,
        LimitStore fallback,
        long deadlineNanos,
        CircuitGates gates,
        LocalGrants grants,
        DenialCache denials,
        Leases leases,
        Timers timers,
        LongAdder fallbacks,
        LongAdder missedDeadlines) {

    /** Returns how long a caller still waits, less the time that it has already spent waiting for something else. */
    long timeLeft(ContextView context) {
        Object since = context.getOrDefault(LimitStore.WAITING_SINCE, null);
        return since instanceof Long nanos ? deadlineNanos - Math.max(0, Deadlines.now() - nanos) : deadlineNanos;
    }

    /**
     * Deadlines that all calls share.
     *
     * @param deadline the deadline of a call
     * @param grace as much time again, if this process stood still
     * @param late the time for which late replies are accepted
     */
    record Timers(Deadlines deadline, Deadlines grace, Deadlines late) {

        private static final long LATEST_REPLY = TimeUnit.MINUTES.toNanos(1);

        static Timers of(long deadlineNanos) {
            return new Timers(new Deadlines(deadlineNanos), new Deadlines(deadlineNanos), new Deadlines(LATEST_REPLY));
        }
    }
}
