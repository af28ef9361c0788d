package io.github.spillgate.internal.waiting;

import io.github.spillgate.count.LimitKind;
import io.github.spillgate.spi.Claim;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The waiters of a {@link WaitQueue} in FIFO order, and the sums of their permits. Guarded by the queue's monitor. */
final class WaiterList {

    /** The most permits that a waiter adds to a sum, so that no sum overflows. A lower bound of a wait stays one. */
    private static final long MOST_SUMMED = 1L << 42;

    private @Nullable Waiter first;
    private @Nullable Waiter last;
    private int size;

    /** The sum of the waiters' permits for each claim. */
    private long[] permits = {};

    /** Whether any two neighbours since the list was last empty have different limits. */
    private boolean hasMixedLimits;

    /** A lower bound: the earliest deadline of all waiters since the list was last empty. */
    private long earliestDeadline;

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
            hasMixedLimits = false;
            earliestDeadline = Long.MAX_VALUE;
        } else {
            last.next = waiter;
            hasMixedLimits |= !waiter.hasSameLimitsAs(last);
        }
        waiter.previous = last;
        waiter.next = null;
        waiter.isListed = true;
        last = waiter;
        earliestDeadline = Math.min(earliestDeadline, waiter.deadline);
        size++;
        add(waiter, 1);
    }

    void remove(Waiter waiter) {
        if (waiter.previous == null) {
            first = waiter.next;
        } else {
            waiter.previous.next = waiter.next;
        }
        if (waiter.next == null) {
            last = waiter.previous;
        } else {
            waiter.next.previous = waiter.previous;
        }
        unlink(waiter);
        size--;
        add(waiter, -1);
    }

    /** Removes all waiters, and returns them in their order. */
    List<Waiter> clear() {
        List<Waiter> all = new ArrayList<>(size);
        Waiter next;
        for (Waiter one = first; one != null; one = next) {
            next = one.next;
            unlink(one);
            all.add(one);
        }
        first = null;
        last = null;
        size = 0;
        return all;
    }

    /** Clears the links, so that a reference to a removed waiter does not keep others in memory. */
    private static void unlink(Waiter waiter) {
        waiter.previous = null;
        waiter.next = null;
        waiter.isListed = false;
    }

    /** Returns the earliest deadline of the waiters. */
    long earliestDeadline() {
        long earliest = Long.MAX_VALUE;
        for (Waiter one = first; one != null; one = one.next) {
            earliest = Math.min(earliest, one.deadline);
        }
        return earliest;
    }

    /**
     * Returns whether no waiter's lower bound exceeds its longest wait if the head is served at that time. False may
     * also mean that this is not known.
     */
    boolean canAllWait(long headServedAt) {
        long lastServedAt = headServedAt + (last == null ? 0 : delay(last, false));
        return headServedAt <= lastServedAt && lastServedAt <= earliestDeadline;
    }

    /**
     * Returns a lower bound of the time from the service of the head to that of this waiter if it is appended. A limit
     * of N permits grants at most N in a window, and a bucket at most its burst and what returns. If the waiters have
     * different limits, the bound is 0.
     *
     * @return nanoseconds
     */
    long delayBehindHead(Waiter waiter) {
        return last == null || !waiter.hasSameLimitsAs(last) ? 0 : delay(waiter, true);
    }

    private long delay(Waiter waiter, boolean addsItsOwn) {
        long longest = 0;
        for (int i = 0; i < permits.length && !hasMixedLimits; i++) {
            Claim claim = waiter.claims.get(i);
            long total = permits[i] + (addsItsOwn ? summand(claim) : 0);
            longest = Math.max(longest, LimitKind.leastTimeToGrant(claim.limit(), total));
        }
        return TimeUnit.MILLISECONDS.toNanos(longest);
    }

    private void add(Waiter waiter, int sign) {
        for (int i = 0; i < permits.length; i++) {
            permits[i] += sign * summand(waiter.claims.get(i));
        }
    }

    private static long summand(Claim claim) {
        return Math.min(MOST_SUMMED, claim.permits());
    }
}
