package io.github.spillgate.failover;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.failover.lease.Leases;
import io.github.spillgate.internal.Time;
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
 * @param fallbacks how many calls fell back, and why
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
        FallbackCounts fallbacks) {

    /** Returns how long a caller still waits, less the time that it has already spent waiting for something else. */
    long timeLeft(ContextView context) {
        Object since = context.getOrDefault(LimitStore.WAITING_SINCE, null);
        return since instanceof Long nanos ? deadlineNanos - Math.max(0, Time.nanos() - nanos) : deadlineNanos;
    }

    /** Returns the error of a call to which the primary store has not replied by the deadline. */
    LimitStoreException unanswered() {
        return new LimitStoreException(
                Kind.UNANSWERED,
                primary + " did not reply within " + deadlineNanos / 1_000_000 + " ms, the deadline of the limiter");
    }

    /** How many calls the fallback has answered since the start, and how many of them for a certain reason. */
    static final class FallbackCounts {

        private final LongAdder all = new LongAdder();
        private final LongAdder missedDeadlines = new LongAdder();

        /** Counts a call, for any reason. */
        void count() {
            all.increment();
        }

        /** Counts a missed deadline while the breaker is closed. It is one of all, which {@link #count} counts. */
        void countMissedDeadline() {
            missedDeadlines.increment();
        }

        long all() {
            return all.sum();
        }

        long missedDeadlines() {
            return missedDeadlines.sum();
        }
    }
}
