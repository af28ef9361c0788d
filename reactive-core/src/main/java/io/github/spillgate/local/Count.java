package io.github.spillgate.local;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;

/**
 * What is remembered under one identity. Not safe for threads by itself: whoever uses a count holds its monitor, for the few
 * nanoseconds that a step takes.
 *
 * <p>A step starts with {@link #look(Limit, long)}; what the other methods say or do is of the time that it was given. Looking
 * drops nothing that has left, unless it is much; only changing does: so a denied request leaves no trace, and the scripts in
 * Redis, which write only when something changes, answer the same.
 */
abstract sealed class Count permits LogCount, CounterCount {

    private volatile boolean retired;

    static Count of(Limit limit) {
        return limit.algorithm() == Algorithm.LOG ? new LogCount() : new CounterCount();
    }

    /** Says that the store has forgotten this count; who still holds it must ask the store for its successor. */
    final void retire() {
        retired = true;
    }

    final boolean isRetired() {
        return retired;
    }

    /** Looks at this count at a time, in milliseconds. Where the clock has stepped back, what lies ahead is pulled to now. */
    abstract void look(Limit limit, long now);

    abstract boolean fits(Limit limit, long cost);

    /** Takes a cost, at least 1, that fits. */
    abstract void take(long cost);

    /** Records as much of a denied cost, at least 1, as keeps the client out. */
    abstract void recordDenied(Limit limit, long cost);

    /** Gives back so many of the permits that were taken at a time, if they have not left. */
    abstract void refund(Limit limit, long takenAt, long permits);

    /** Gives back so many of the oldest permits. */
    abstract void refundOldest(long permits);

    abstract void clear();

    /** The usage as it is now; when the claim fits is looked up only if the verdict is a denial. */
    abstract Usage usage(Claim claim, boolean violated, boolean denied);
}
