package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The permits of one count that the primary store has granted to this instance, by the time of the grant on the store's
 * clock. Guarded by the monitor of its {@link RateLedger}.
 */
final class OwnUsage {
    // Design notes.
    //
    // A reply of the primary store says how many permits are in use, and not when they expire. Of its own permits an
    // instance knows when: it keeps them in slots of a 16th of the window. Both uses of this need a lower bound:
    //
    //   released()     A slot counts as expired only when its last permit is, and only permits that were certainly in
    //                  use at the reply are subtracted from it. All others count until the reply's last permit expires.
    //   inUse()        The part of the use that is certainly of this instance. If a reply has less than that, the store
    //                  has lost data, or the count was reset. Of a log it also gives the share of the instance.
    //
    // So it may only hold permits that the store still holds. A refund of a decision is subtracted from its slot. Any
    // other refund removes the oldest permits of any instance, so as many are subtracted from the oldest slots. After a
    // reset, replies from before it may still arrive; their permits are not recorded. Not covered: refunds and resets
    // by other instances, of which this one does not learn.
    //
    // Of a bucket, what is in use is the level that the own permits alone would have: those of others can only make it
    // higher. The level of a busy bucket is due to permits that were taken long ago, so the level before the oldest
    // slot is kept too. A refund may return less than was taken, and a refund without a decision is as if the newest
    // permits had not been taken. The slots depend on the rate and the burst; if these change, nothing is known.
    //
    // The slots of a log do not depend on whether it is leased, because that may change. Permits that were leased count
    // for a lease time longer, so once a log was leased, all permits here expire as late as that.

    /** The slots in a window. Two more hold what is in use while the first and the last slot are only partly within. */
    static final int STEPS = 16;

    private static final int SLOTS = STEPS + 2;

    private final int[] permits = new int[SLOTS];

    /** The number of the newest slot: its start, divided by the length of a slot. */
    private long newest;

    private long lengthOfSlots;

    /** The longest time for which a permit counts, in milliseconds. Never lowered, unless all are forgotten. */
    private long reach;

    /** Of a bucket, the level at the start of the oldest slot, in units. */
    private long levelBefore;

    /** Of a bucket, how many permits return in a window. */
    private long rate;

    /** Forgets all permits if the slots of this limit have another length, or its permits return at another rate. */
    void adjustTo(Limit limit) {
        long length = length(limit);
        long newRate = isBucket(limit) ? limit.permits() : 0;
        if (lengthOfSlots != length || rate != newRate) {
            clear();
            reach = 0;
            lengthOfSlots = length;
            rate = newRate;
        }
        reach = reach(limit);
    }

    private long reach(Limit limit) {
        return Math.max(reach, limit.reach().toMillis());
    }

    private static boolean isBucket(Limit limit) {
        return limit.algorithm() == Algorithm.BUCKET;
    }

    /** Records permits, which must be in use in the primary store. */
    void add(Limit limit, long takenAt, long cost) {
        long slot = takenAt / length(limit);
        if (slot > newest) {
            if (slot - newest >= SLOTS) {
                clear();
            } else {
                for (long passed = newest + 1; passed <= slot; passed++) {
                    int oldest = index(passed);
                    if (isBucket(limit)) {
                        long level = levelBefore + BucketState.units(limit, permits[oldest]);
                        levelBefore = BucketState.levelAfter(limit, level, length(limit));
                    }
                    permits[oldest] = 0;
                }
            }
            newest = slot;
        } else if (newest - slot >= SLOTS) {
            if (isBucket(limit)) {
                long passed = (newest - SLOTS + 1) * length(limit) - takenAt;
                levelBefore += BucketState.levelAfter(limit, BucketState.units(limit, cost), passed);
            }
            return; // expired, or the clock was set back: it counts as of another instance
        }
        int i = index(slot);
        permits[i] = (int) Math.min(Integer.MAX_VALUE, permits[i] + cost);
    }

    /** Records the permits of another usage of the same count. */
    void addAll(Limit limit, OwnUsage other) {
        long first = Math.max(0, other.newest - SLOTS + 1);
        if (isBucket(limit)) {
            add(limit, first * length(limit), other.levelBefore / limit.window().toMillis());
        }
        for (long slot = first; slot <= other.newest; slot++) {
            int some = other.permits[index(slot)];
            if (some > 0) {
                add(limit, slot * length(limit), some);
            }
        }
    }

    /** Subtracts permits that were taken at a time of the store's clock, and returns how many of them are not here. */
    long refund(Limit limit, long takenAt, long refunded) {
        long slot = takenAt / length(limit);
        if (slot > newest) {
            return refunded;
        } else if (newest - slot < SLOTS) {
            return refunded - subtract(slot, refunded);
        }
        return isBucket(limit) ? subtractBefore(limit, refunded) : refunded;
    }

    /**
     * Subtracts the oldest permits that are certainly in use at a time of the store's clock; of a bucket, the last.
     *
     * @return how many of them are not here
     */
    long refundOldest(Limit limit, long time, long refunded) {
        if (isBucket(limit)) {
            return refundNewest(limit, refunded);
        }
        long left = refunded;
        for (long slot = firstInUse(limit, time); slot <= newest && left > 0; slot++) {
            left -= subtract(slot, left);
        }
        return left;
    }

    /** Subtracts the newest permits, and returns how many of them are not here. */
    long refundNewest(Limit limit, long refunded) {
        long left = refunded;
        for (long slot = newest; slot > newest - SLOTS && left > 0; slot--) {
            left -= subtract(slot, left);
        }
        return isBucket(limit) ? subtractBefore(limit, left) : left;
    }

    /** Moves the oldest permits that are certainly in use at a time of the store's clock; not of a bucket. */
    void moveOldest(Limit limit, long time, long most, OwnUsage to) {
        long left = most;
        for (long slot = firstInUse(limit, time); slot <= newest && left > 0; slot++) {
            long some = subtract(slot, left);
            if (some > 0) {
                to.add(limit, slot * length(limit), some);
                left -= some;
            }
        }
    }

    /** Subtracts permits of a bucket that are in no slot, and returns how many are not there. */
    private long subtractBefore(Limit limit, long refunded) {
        long less = Math.min(refunded, new BucketState(levelBefore, 0).used(limit));
        levelBefore = Math.max(0, levelBefore - BucketState.units(limit, less));
        return refunded - less;
    }

    private long subtract(long slot, long most) {
        int i = index(slot);
        int less = (int) Math.min(most, permits[i]);
        permits[i] -= less;
        return less;
    }

    void clear() {
        Arrays.fill(permits, 0);
        newest = 0;
        levelBefore = 0;
    }

    /** Returns how many permits are certainly in use at a time of the store's clock. Those of a counter fade. */
    double inUse(Limit limit, long time) {
        long first = firstInUse(limit, time);
        if (limit.algorithm() == Algorithm.LOG) {
            return sum(first, newest);
        } else if (isBucket(limit)) {
            return levelAt(limit, time);
        }
        double window = limit.window().toMillis();
        double inUse = 0;
        for (long slot = first; slot <= newest; slot++) {
            // It fades from the end of its window, which may be right after it was taken, for as long as a window.
            double left = 1 - (time - slot * length(limit)) / window;
            inUse += permits[index(slot)] * Math.min(1, left);
        }
        return inUse;
    }

    /**
     * Returns about how many permits of a counter are in use, by its formula. For a share only: as a lower bound, it
     * would be half as high.
     */
    double inUse(Limit limit, CounterState counter, long time) {
        long length = length(limit);
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

    /** Returns the level of a bucket, as if the permits were taken at the start of their slots. */
    private double levelAt(Limit limit, long time) {
        long length = length(limit);
        long level = levelBefore;
        for (long slot = newest - SLOTS + 1; slot <= newest; slot++) {
            level += BucketState.units(limit, permits[index(slot)]);
            long end = slot == newest ? time : (slot + 1) * length;
            level = BucketState.levelAfter(limit, level, end - slot * length);
        }
        return (double) level / limit.window().toMillis();
    }

    /**
     * Returns how many of the permits that were certainly in use at a reply have certainly expired since.
     *
     * @param repliedAt the time of the reply, on the store's clock
     * @param time the present time, on the store's clock
     */
    long released(Limit limit, long repliedAt, long time) {
        long lastExpired = Math.floorDiv(time - reach(limit), length(limit)) - 1;
        return sum(firstInUse(limit, repliedAt), Math.min(lastExpired, newest));
    }

    /**
     * Returns the permits in use at a time of the store's clock, with their ages: the latest time of each slot counts.
     *
     * @param repliedAt the time of the reply with which they were certainly in use
     */
    List<Grants> ages(Limit limit, long repliedAt, long time) {
        List<Grants> ages = new ArrayList<>();
        long length = length(limit);
        for (long slot = firstInUse(limit, repliedAt); slot <= newest; slot++) {
            long age = time - Math.min(repliedAt, (slot + 1) * length);
            int some = permits[index(slot)];
            if (some > 0 && age < reach(limit)) {
                ages.add(new Grants(age, age, some));
            }
        }
        return ages;
    }

    /** Returns the next time after this one at which more permits may have expired; it may be without effect. */
    long nextRelease(Limit limit, long time) {
        long length = length(limit);
        return (Math.floorDiv(time - reach(limit), length) + 1) * length + reach(limit);
    }

    private long firstInUse(Limit limit, long time) {
        long first = Math.floorDiv(time - windowOf(limit), length(limit)) + 1;
        return Math.max(first, newest - SLOTS + 1);
    }

    private long sum(long first, long last) {
        long sum = 0;
        for (long slot = first; slot <= last; slot++) {
            sum += permits[index(slot)];
        }
        return sum;
    }

    /** Returns for how many milliseconds a permit certainly counts, at least in part. */
    static long windowOf(Limit limit) {
        return isBucket(limit) ? limit.reach().toMillis() : limit.window().toMillis();
    }

    private static int index(long slot) {
        return (int) Math.floorMod(slot, (long) SLOTS);
    }

    /**
     * Returns the length of a slot in milliseconds, so that all slots cover more than a permit counts, also if it was
     * leased.
     */
    private static long length(Limit limit) {
        long reach = limit.algorithm() == Algorithm.LOG
                ? limit.window().toMillis() + limit.resolution().toMillis()
                : limit.reach().toMillis();
        return (reach + STEPS - 1) / STEPS;
    }
}
