package io.github.spillgate.failover;

import io.github.spillgate.spi.LimitStore;
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
 * @param deadlines the deadlines of calls
 * @param lateReplies the times until which a late reply is accepted
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
        Deadlines deadlines,
        Deadlines lateReplies,
        LongAdder fallbacks,
        LongAdder missedDeadlines) {

    /** Returns how long a caller still waits, less the time that it has already spent waiting for something else. */
    long timeLeft(ContextView context) {
        Object since = context.getOrDefault(LimitStore.WAITING_SINCE, null);
        return since instanceof Long nanos ? deadlineNanos - Math.max(0, Deadlines.now() - nanos) : deadlineNanos;
    }
}
