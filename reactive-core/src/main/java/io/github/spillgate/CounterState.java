package io.github.spillgate;

/**
 * What a {@linkplain Algorithm#COUNTER counter} remembers of one key: the arithmetic of the counter, for stores.
 *
 * <p>The estimate of what is used is {@code previous × (1 − elapsed/window) + current}: as if the hits of the window before
 * had come evenly. A cost fits where estimate and cost together are at most the permits.
 *
 * @param start when the current window started, in milliseconds of the store's clock
 * @param previous what was taken in the window before
 * @param current what was taken in the current window
 */
public record CounterState(long start, long previous, long current) {
    // Design notes.
    //
    // The estimate is compared without ever being divided: with h = permits − current − cost, the cost fits when
    // previous × (window − elapsed) ≤ h × window. All four factors are integers below 2^53, so each is exact as a
    // double, and so is each product below 2^53. Others are rounded, 2^53 + 1 to 2^53 itself; rounding never changes an
    // order, it can only make two different products equal. So "less" is always true, and the only doubt is "equal"
    // from 2^53 on, which counts as "no". The script that decides in Redis makes the same two multiplications and
    // the same comparison, so both always agree.

    /** What is less than this, as a double, has not been rounded. */
    private static final double EXACT = 9_007_199_254_740_992.0;

    /**
     * Checks that nothing is negative.
     *
     * @param start when the current window started, in milliseconds of the store's clock
     * @param previous what was taken in the window before
     * @param current what was taken in the current window
     * @throws IllegalArgumentException if anything is
     */
    public CounterState {
        if (start < 0 || previous < 0 || current < 0) {
            throw new IllegalArgumentException("start " + start + ", previous " + previous + ", current " + current
                    + " are no state of a counter: expected none to be negative, for example 1790000000000, 7, 3");
        }
    }

    /**
     * The state of a key that is not known yet, or not any more.
     *
     * @param limit the limit that counts
     * @param now milliseconds of the store's clock
     * @return a window that starts now, or on the clock, with nothing in it
     */
    public static CounterState empty(Limit limit, long now) {
        return new CounterState(windowStart(limit, now), 0, 0);
    }

    /**
     * This state as it looks at another time: windows that have passed since have been passed on. If the clock stepped back
     * to before this state's window, everything counts as taken now, and as no more than the permits, so that nobody is locked
     * out for longer than by a full window, and nothing more is admitted.
     *
     * @param limit the limit that counts
     * @param now milliseconds of the store's clock
     * @return the state of the window that holds now
     */
    public CounterState at(Limit limit, long now) {
        long window = limit.windowMillis();
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

    /**
     * Tells whether this state's window lies in the future, which happens where the clock stepped back.
     *
     * @param limit the limit that counts
     * @param now milliseconds of the store's clock
     * @return whether the window starts after the one that holds now
     */
    public boolean isAheadOf(Limit limit, long now) {
        return start > windowStart(limit, now);
    }

    /**
     * Tells whether nothing is remembered.
     *
     * @return true if both counts are 0
     */
    public boolean isEmpty() {
        return previous == 0 && current == 0;
    }

    /**
     * The estimate of what is used, rounded up; a cost fits where the two together are at most the permits.
     *
     * @param limit the limit that counts
     * @param now milliseconds of the store's clock, within this state's window
     * @return how many permits are used
     */
    public long used(Limit limit, long now) {
        if (previous == 0) {
            return current;
        }
        long window = limit.windowMillis();
        long left = window - (now - start);
        long faded = Math.min(previous, (long) Math.ceil((double) previous * left / window));
        // It is never too much, for rounding changes no order; but what is equal only by rounding takes one more.
        while (faded < previous && !covers(faded, left, window)) {
            faded++;
        }
        return current + faded;
    }

    /**
     * Tells when so many permits fit, if nothing more is taken until then.
     *
     * @param limit the limit that counts
     * @param cost at most the limit's permits
     * @param now milliseconds of the store's clock, within this state's window
     * @return the first millisecond at which the cost fits; now, if it fits now
     * @throws IllegalArgumentException if the cost is more than the permits
     */
    public long fitsAt(Limit limit, long cost, long now) {
        if (cost > limit.permits()) {
            throw new IllegalArgumentException("cost " + cost + " never fits under " + limit
                    + ": expected at most its permits, for example " + limit.permits());
        }
        if (used(limit, now) + cost <= limit.permits()) {
            return now;
        }
        // The solution in reals comes within rounding of the tick that is sought; what remains is looked up tick by
        // tick.
        long window = limit.windowMillis();
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

    /**
     * Tells when nothing is used any more, if nothing more is taken until then.
     *
     * @param limit the limit that counts
     * @param now milliseconds of the store's clock, within this state's window
     * @return the millisecond at which both counts have faded; now, if nothing is remembered
     */
    public long wholeAt(Limit limit, long now) {
        if (isEmpty()) {
            return now;
        }
        return start + (current > 0 ? 2 : 1) * limit.windowMillis();
    }

    /**
     * This state after so many more permits were taken.
     *
     * @param cost how many
     * @return the state with them in the current window
     */
    public CounterState plus(long cost) {
        return new CounterState(start, previous, current + cost);
    }

    /**
     * This state after a denied request for so many permits was recorded: the current window never passes the permits because
     * of it.
     *
     * @param limit the limit that counts
     * @param cost how many
     * @return the state with as much of them as keeps the client out
     */
    public CounterState plusDenied(Limit limit, long cost) {
        return new CounterState(start, previous, Math.max(current, Math.min(current + cost, limit.permits())));
    }

    /**
     * This state after so many permits were given back that had been taken at a given time. What has left is not given back.
     *
     * @param limit the limit that counts
     * @param takenAt when they were taken, in milliseconds of the store's clock
     * @param permits how many
     * @return the state without them
     */
    public CounterState minus(Limit limit, long takenAt, long permits) {
        if (takenAt >= start) {
            return new CounterState(start, previous, Math.max(0, current - permits));
        }
        if (takenAt >= start - limit.windowMillis()) {
            return new CounterState(start, Math.max(0, previous - permits), current);
        }
        return this;
    }

    /**
     * This state after so many permits were given back, the oldest first.
     *
     * @param permits how many
     * @return the state without them
     */
    public CounterState minusOldest(long permits) {
        long older = Math.min(previous, permits);
        return new CounterState(start, previous - older, Math.max(0, current - (permits - older)));
    }

    private boolean covers(long faded, long left, long window) {
        double taken = (double) previous * left;
        double held = (double) faded * window;
        return taken < held || (taken == held && taken < EXACT);
    }

    private boolean fitsAfter(Limit limit, long cost, long now) {
        CounterState then = at(limit, now);
        return then.used(limit, now) + cost <= limit.permits();
    }

    private static long windowStart(Limit limit, long now) {
        return limit.isAlignedToClock() ? now - now % limit.windowMillis() : now;
    }
}
