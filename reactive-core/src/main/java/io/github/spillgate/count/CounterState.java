package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import org.jspecify.annotations.Nullable;

/**
 * The state of a {@linkplain Limit.Counter counter} for one key, and its arithmetic.
 *
 * <p>The estimated usage is {@code previous × (1 − elapsed/window) + current}, as if the hits of the previous window
 * were evenly distributed. A cost fits if the estimate plus the cost is at most the limit's permits.
 *
 * @param start the start of the current window, in milliseconds of the store's clock
 * @param previous the permits taken in the previous window
 * @param current the permits taken in the current window
 */
public record CounterState(long start, long previous, long current) implements StoreUsage.Windows {
    // Design notes.
    //
    // The estimate is compared without a division: with h = permits − current − cost, the cost fits if
    // previous × (window − elapsed) ≤ h × window. All four factors are integers below 2^53, so each is exact as a
    // double, and so is each product below 2^53. Larger products are rounded, for example 2^53 + 1 to 2^53. Rounding
    // never changes an order; it can only make two different products equal. So "less" is always correct, and only
    // "equal" from 2^53 on is uncertain; it counts as "does not fit". The Redis script makes the same two
    // multiplications and the same comparison, so both always agree.

    /** An integer double below this bound was not rounded. */
    private static final double EXACT = 9_007_199_254_740_992.0;

    /** Creates a state, with times in milliseconds of the store's clock. */
    public CounterState {
        if (start < 0 || previous < 0 || current < 0) {
            throw new IllegalArgumentException("start " + start + ", previous " + previous + ", current " + current
                    + " are no state of a counter: expected none to be negative, for example 1790000000000, 7, 3");
        }
    }

    /** Returns the state that a store has reported; null if it has not. */
    public static @Nullable CounterState of(StoreUsage.@Nullable Windows windows) {
        return windows == null || windows instanceof CounterState
                ? (CounterState) windows
                : new CounterState(windows.start(), windows.previous(), windows.current());
    }

    /** Returns the usage after a decision that has left this state, at a time within its window. */
    public StoreUsage usage(Reply reply, Claim claim, boolean violated, boolean denied, int life) {
        Limit limit = claim.limit();
        long now = reply.at();
        long fitsAt = denied ? fitsAt(limit, claim.permits(), now) : now;
        return new StoreUsage(
                reply, claim, used(limit, now), violated, fitsAt, wholeAt(limit, now), life, this, false, null);
    }

    /** Returns the state of a key without hits: a window that starts now, or at its boundary on the clock. */
    public static CounterState empty(Limit limit, long now) {
        return new CounterState(windowStart(limit, now), 0, 0);
    }

    /**
     * Returns this state at another time, moved on by the windows that have ended since. If the clock stepped back to
     * before this state's window, all permits count as taken now, those of the previous window at most up to the
     * limit's permits. So a client is denied for no longer than after a full window, and the step allows no additional
     * request.
     */
    public CounterState at(Limit limit, long now) {
        if (isPresent(limit, now, start, previous, current)) {
            return this;
        }
        long window = limit.window().toMillis();
        long then = start;
        long before = previous;
        long within = current;
        if (isAheadOf(limit, now)) {
            before = 0;
            within = Math.max(current, Math.min(previous + current, limit.permits()));
            then = windowStart(limit, now);
        } else if (now - start >= window) {
            before = now - start >= 2 * window ? 0 : current;
            within = 0;
            then = start + window;
        }
        return new CounterState(before == 0 && within == 0 ? windowStart(limit, now) : then, before, within);
    }

    /** Returns whether a state with permits is {@linkplain #at the same} at another time. */
    static boolean isPresent(Limit limit, long now, long start, long previous, long current) {
        return previous + current > 0 && now - start < limit.window().toMillis() && start <= windowStart(limit, now);
    }

    /** Returns whether this state's window is in the future, which happens if the clock stepped back. */
    public boolean isAheadOf(Limit limit, long now) {
        return start > windowStart(limit, now);
    }

    /** Returns whether no permits are recorded. */
    public boolean isEmpty() {
        return previous == 0 && current == 0;
    }

    /**
     * Returns the estimated usage, rounded up. A cost fits if the usage plus the cost is at most the limit's permits.
     */
    public long used(Limit limit, long now) {
        return used(limit, now, start, previous, current);
    }

    static long used(Limit limit, long now, long start, long previous, long current) {
        if (previous == 0) {
            return current;
        }
        long window = limit.window().toMillis();
        long left = window - (now - start);
        long faded = Math.min(previous, (long) Math.ceil((double) previous * left / window));
        // Never too large, because rounding changes no order. If both products are equal only by rounding, add one.
        while (faded < previous && !covers(previous, faded, left, window)) {
            faded++;
        }
        return current + faded;
    }

    /** Returns the first millisecond at which a cost fits if no other permits are taken until then; now if it fits. */
    public long fitsAt(Limit limit, long cost, long now) {
        if (cost > limit.permits()) {
            throw new IllegalArgumentException("cost " + cost + " never fits under " + limit
                    + ": expected at most its permits, for example " + limit.permits());
        }
        if (used(limit, now) + cost <= limit.permits()) {
            return now;
        }
        // The solution in real numbers is exact except for rounding; search the right tick from there.
        long window = limit.window().toMillis();
        double free = limit.permits() - cost;
        double solution = current + cost <= limit.permits()
                ? start + window * (1 - (free - current) / previous)
                : start + window + window * (1 - free / current);
        long tick = Math.max(now + 1, (long) Math.ceil(solution));
        while (!fitsAfter(limit, cost, tick)) {
            tick++;
        }
        while (tick > now + 1 && fitsAfter(limit, cost, tick - 1)) {
            tick--;
        }
        return tick;
    }

    /** Returns when no permit is used any more if none is taken until then; now if none is used. */
    public long wholeAt(Limit limit, long now) {
        if (isEmpty()) {
            return now;
        }
        return start + (current > 0 ? 2 : 1) * limit.window().toMillis();
    }

    /** Returns this state with more permits taken. */
    public CounterState plus(long cost) {
        return new CounterState(start, previous, current + cost);
    }

    /**
     * Returns this state with a denied request recorded. That never raises the current window above the limit's
     * permits.
     */
    public CounterState plusDenied(Limit limit, long cost) {
        return new CounterState(start, previous, Math.max(current, Math.min(current + cost, limit.permits())));
    }

    /**
     * Returns this state with permits refunded that were taken at a given time. Permits that have left both windows are
     * not refunded.
     */
    public CounterState minus(Limit limit, long takenAt, long permits) {
        if (takenAt >= start) {
            return new CounterState(start, previous, Math.max(0, current - permits));
        }
        if (takenAt >= start - limit.window().toMillis()) {
            return new CounterState(start, Math.max(0, previous - permits), current);
        }
        return this;
    }

    /** Returns this state with permits refunded, the oldest first. */
    public CounterState minusOldest(long permits) {
        long older = Math.min(previous, permits);
        return new CounterState(start, previous - older, Math.max(0, current - (permits - older)));
    }

    private static boolean covers(long previous, long faded, long left, long window) {
        double taken = (double) previous * left;
        double held = (double) faded * window;
        return taken < held || (taken == held && taken < EXACT);
    }

    private boolean fitsAfter(Limit limit, long cost, long now) {
        CounterState then = at(limit, now);
        return then.used(limit, now) + cost <= limit.permits();
    }

    private static long windowStart(Limit limit, long now) {
        return limit.isAlignedToClock() ? now - now % limit.window().toMillis() : now;
    }
}
