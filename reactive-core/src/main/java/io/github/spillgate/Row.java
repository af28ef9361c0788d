package io.github.spillgate;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Those who stand in a {@link Line}, in their order, and how much they ask for together. Guarded by the line. */
final class Row {

    /** More permits than this count as so many: thus no sum over a line overflows, and a lower bound remains one. */
    private static final long MOST_SUMMED = 1L << 42;

    private @Nullable Waiter first;
    private @Nullable Waiter last;
    private int size;
    private long[] permits = {};
    private boolean mixed;
    private long earliest; // when the patience of one of them ends, who may have gone since

    @Nullable
    Waiter first() {
        return first;
    }

    int size() {
        return size;
    }

    boolean isEmpty() {
        return size == 0;
    }

    void append(Waiter waiter) {
        if (last == null) {
            first = waiter;
            permits = new long[waiter.claims.size()];
            mixed = false;
            earliest = Long.MAX_VALUE;
        } else {
            last.behind = waiter;
            mixed |= !waiter.hasTheLimitsOf(last);
        }
        waiter.ahead = last;
        waiter.behind = null;
        waiter.inRow = true;
        last = waiter;
        earliest = Math.min(earliest, waiter.until);
        size++;
        count(waiter, 1);
    }

    void remove(Waiter waiter) {
        if (waiter.ahead == null) {
            first = waiter.behind;
        } else {
            waiter.ahead.behind = waiter.behind;
        }
        if (waiter.behind == null) {
            last = waiter.ahead;
        } else {
            waiter.behind.ahead = waiter.ahead;
        }
        release(waiter);
        size--;
        count(waiter, -1);
    }

    /** Lets all go, and returns them in their order. */
    List<Waiter> clear() {
        List<Waiter> all = new ArrayList<>(size);
        Waiter next;
        for (Waiter one = first; one != null; one = next) {
            next = one.behind;
            release(one);
            all.add(one);
        }
        first = null;
        last = null;
        size = 0;
        return all;
    }

    /** Whoever keeps one who has gone keeps nobody else with him. */
    private static void release(Waiter waiter) {
        waiter.ahead = null;
        waiter.behind = null;
        waiter.inRow = false;
    }

    /** Returns whether all want to wait for so long as they would have to, at most, if the first is served then. */
    boolean isPatientUntil(long firstIsServed) {
        long lastIsServed = firstIsServed + (last == null ? 0 : windows(last, false));
        return firstIsServed <= lastIsServed && lastIsServed <= earliest;
    }

    /**
     * Returns how long it takes at least until he is served, as the last of the row, from when the first of it is. A
     * limit of N permits lets through no more than N in a window. Where the limits of those in the row differ, nothing
     * is known of that.
     *
     * @return nanoseconds
     */
    long windowsUntil(Waiter waiter) {
        return last == null || !waiter.hasTheLimitsOf(last) ? 0 : windows(waiter, true);
    }

    private long windows(Waiter waiter, boolean withHisOwn) {
        long longest = 0;
        for (int i = 0; i < permits.length && !mixed; i++) {
            Claim claim = waiter.claims.get(i);
            Limit limit = claim.limit();
            long together = permits[i] + (withHisOwn ? summed(claim) : 0);
            long windows = together == 0 ? 0 : (together - 1) / limit.permits();
            if (limit.algorithm() == Algorithm.COUNTER) {
                // Two windows of a counter touch: what is taken at the end of one and at the start of the next is
                // taken at once.
                windows = Math.max(0, windows - 1);
            }
            longest = Math.max(longest, windows * limit.window().toMillis());
        }
        return TimeUnit.MILLISECONDS.toNanos(longest);
    }

    private void count(Waiter waiter, int sign) {
        for (int i = 0; i < permits.length; i++) {
            permits[i] += sign * summed(waiter.claims.get(i));
        }
    }

    private static long summed(Claim claim) {
        return Math.min(MOST_SUMMED, claim.permits());
    }
}
