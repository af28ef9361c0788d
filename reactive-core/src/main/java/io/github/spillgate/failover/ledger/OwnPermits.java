package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The permits of a log or counter that the primary store has granted to this instance, by the time of the grant on the
 * store's clock. Of a token bucket nothing is recorded. Guarded by the monitor of its {@link RateLedger}.
 */
public final class OwnPermits {
    // Design notes.
    //
    // A reply of the primary store says how many permits are in use, and not when they expire. Of its own permits an
    // instance knows when: it keeps them in slots of a 16th of the window. They have two uses:
    //
    //   the share     The part of the use that is of this instance.
    //   released()    The permits of a log that have expired since a reply. This must be a lower bound, so a slot
    //                 counts as expired only when its last permit is, and only permits that were certainly in use
    //                 at the reply are subtracted from it. All others count until the reply's last permit expires.
    //
    // So it may only hold permits that the store still holds. A refund of a decision is subtracted from its slot. Any
    // other refund removes the oldest permits of any instance, so as many are subtracted from the oldest slots. When
    // the store executes it, others may be the oldest, and a later refund of a decision then finds nothing there. So if
    // more permits are known here than are in use, the youngest of them are in use. Not covered: refunds by other
    // instances, of which this one does not learn.
    //
    // The slots of a log do not depend on whether it is leased, because that may change. Permits that were leased count
    // for a lease time longer, so once a log was leased, all permits here expire as late as that.

    /** The slots in a window. Two more hold what is in use while the first and the last slot are only partly within. */
    public static final int STEPS = 16;

    private static final int SLOTS = STEPS + 2;

    private final int[] permits = new int[SLOTS];

    /** The number of the newest slot: its start, divided by the length of a slot. */
    private long newest;

    private long lengthOfSlots;

    /** The longest time for which a permit counts, in milliseconds. Never lowered, unless all are forgotten. */
    private long reach;

    /** Forgets all permits if the slots of this limit have another length. */
    void adjustTo(Limit limit) {
        long length = length(limit);
        if (lengthOfSlots != length) {
            clear();
            lengthOfSlots = length;
        }
        reach = Math.max(reach, LimitKind.reach(limit));
    }

    void clear() {
        Arrays.fill(permits, 0);
        newest = 0;
        reach = 0;
    }

    /** Records permits, which must be in use in the primary store. */
    void add(long takenAt, long cost) {
        long slot = takenAt / lengthOfSlots;
        if (slot - newest >= SLOTS) {
            Arrays.fill(permits, 0);
            newest = slot;
        }
        while (newest < slot) {
            newest++;
            permits[index(newest)] = 0;
        }
        if (newest - slot < SLOTS) {
            int i = index(slot);
            permits[i] = (int) Math.min(Integer.MAX_VALUE, permits[i] + cost);
        } // else expired, or the clock was set back: it counts as of another instance
    }

    /** Subtracts permits that were taken at a time of the store's clock, as far as they are here. */
    void refund(long takenAt, long refunded) {
        long slot = takenAt / lengthOfSlots;
        if (slot <= newest && newest - slot < SLOTS) {
            subtract(slot, refunded);
        }
    }

    /** Subtracts the oldest permits that are certainly in use at a time of the store's clock. */
    void refundOldest(Limit limit, long time, long refunded) {
        refundFrom(firstInUse(limit, time), refunded);
    }

    /** Subtracts permits that were taken at a time of the store's clock, or a little later. */
    void refundSince(long takenAt, long refunded) {
        refundFrom(Math.max(takenAt / lengthOfSlots, newest - SLOTS + 1), refunded);
    }

    private void refundFrom(long first, long refunded) {
        long left = refunded;
        for (long slot = first; slot <= newest && left > 0; slot++) {
            left -= subtract(slot, left);
        }
    }

    private long subtract(long slot, long most) {
        int i = index(slot);
        int less = (int) Math.min(most, permits[i]);
        permits[i] -= less;
        return less;
    }

    /** Returns how many permits of a log are certainly in use at a time of the store's clock. */
    long inUse(Limit limit, long time) {
        return sum(firstInUse(limit, time), newest);
    }

    /** Returns about how many permits of a counter are in use, by its formula. For a share only. */
    double inUse(Limit limit, CounterState counter, long time) {
        long length = lengthOfSlots;
        double window = limit.window().toMillis();
        double left = Math.max(0, 1 - (time - counter.start()) / window);
        double inUse = 0;
        for (long slot = newest - SLOTS + 1; slot <= newest; slot++) {
            // Of a slot in two windows, a part belongs to each.
            double current = Math.max(0, Math.min(1, ((slot + 1.0) * length - counter.start()) / length));
            double previous = Math.max(0, Math.min(1, ((slot + 1.0) * length - counter.start() + window) / length));
            inUse += permits[index(slot)] * (current + (previous - current) * left);
        }
        return inUse;
    }

    /**
     * Returns how many of the permits that were certainly in use at a reply have certainly expired since.
     *
     * @param repliedAt the time of the reply, on the store's clock
     * @param used the permits in use then. If these are fewer, refunds have removed the oldest
     * @param time the present time, on the store's clock
     */
    long released(Limit limit, long repliedAt, long used, long time) {
        long lastExpired = Math.floorDiv(time - reach, lengthOfSlots) - 1;
        long expired = sum(firstInUse(limit, repliedAt), Math.min(lastExpired, newest));
        return Math.max(0, expired - Math.max(0, inUse(limit, repliedAt) - used));
    }

    /**
     * Returns the permits in use at a time of the store's clock, with the latest times at which they may have been
     * taken, the oldest first.
     *
     * @param repliedAt the time of the reply with which they were certainly in use
     */
    List<Grants> grants(Limit limit, long repliedAt, long time) {
        List<Grants> grants = new ArrayList<>();
        for (long slot = firstInUse(limit, repliedAt); slot <= newest; slot++) {
            long takenAt = Math.min(repliedAt, (slot + 1) * lengthOfSlots);
            int some = permits[index(slot)];
            if (some > 0 && time - takenAt < reach) {
                grants.add(new Grants(takenAt, takenAt, some));
            }
        }
        return grants;
    }

    /** Returns the next time after this one at which more permits may have expired; it may be without effect. */
    long nextRelease(long time) {
        return (Math.floorDiv(time - reach, lengthOfSlots) + 1) * lengthOfSlots + reach;
    }

    private long firstInUse(Limit limit, long time) {
        long first = Math.floorDiv(time - limit.quotaWindow().toMillis(), lengthOfSlots) + 1;
        return Math.max(first, newest - SLOTS + 1);
    }

    private long sum(long first, long last) {
        long sum = 0;
        for (long slot = first; slot <= last; slot++) {
            sum += permits[index(slot)];
        }
        return sum;
    }

    private static int index(long slot) {
        return (int) Math.floorMod(slot, (long) SLOTS);
    }

    /**
     * Returns the length of a slot in milliseconds, so that all slots cover more than a permit counts, also if it was
     * leased.
     */
    private static long length(Limit limit) {
        long longest = limit instanceof Limit.Log
                ? limit.window().toMillis() + limit.resolution().toMillis()
                : LimitKind.reach(limit);
        return (longest + STEPS - 1) / STEPS;
    }
}
