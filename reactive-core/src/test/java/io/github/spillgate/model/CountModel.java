package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * One count as the design defines it. {@code now} is in milliseconds; {@code limit} may change its permits between
 * calls.
 */
public abstract class CountModel {

    static CountModel of(Limit limit) {
        if (limit.holdsPermits()) {
            return new HoldModel();
        } else if (limit instanceof Limit.Bucket) {
            return new BucketModel();
        }
        if (limit instanceof Limit.Quota) {
            return new QuotaModel();
        } else if (limit instanceof Limit.Ban) {
            return new BanModel();
        }
        return limit instanceof Limit.Counter ? new CounterModel() : new LogModel();
    }

    /** Selects the hold that the next steps are about. */
    void select(@Nullable UUID id) {}

    /** Returns the present period of a quota, with what the last step did; null for others. */
    StoreUsage.@Nullable Windows period() {
        return null;
    }

    /** Where the clock stepped back: pulls what lies ahead to now. Drops what has left, if that is very much. */
    abstract void pull(Limit limit, long now);

    /** Permits that count as used. */
    abstract long used(Limit limit, long now);

    /** Whether used and cost together are within the permits, exactly. */
    abstract boolean fits(Limit limit, long cost, long now);

    abstract void take(Limit limit, long cost, long now);

    /** Takes as much of a cost as keeps the count at this number of used permits, or below. */
    void takeBeyond(Limit limit, long cost, long most, long now) {
        for (long i = 0; i < cost && used(limit, now) < most; i++) {
            take(limit, 1, now);
        }
    }

    /** Takes permits ahead of time; returns how many. */
    long lease(Limit limit, long most, int parts, long now) {
        throw new UnsupportedOperationException();
    }

    abstract void recordDenied(Limit limit, long cost, long now);

    abstract void refund(Limit limit, long takenAt, long permits, long now);

    abstract void refundOldest(Limit limit, long permits, long now);

    /** Refunds permits of a reconciliation, all of which have left by a time. */
    void refundCharged(Limit limit, long permits, long gone, long now) {
        refundOldest(limit, permits, now);
    }

    /** Records grants as if each had been made as late as possible; returns whether any of them still counts. */
    abstract boolean reconcile(Limit limit, List<Grants> times, long now);

    abstract void reset();

    /**
     * Restores permits of a lost life, as far as they were not restored before.
     *
     * @param earlier the mark of an earlier restoration of that life; null if there was none
     * @return the mark of both; null if nothing is missing
     */
    @Nullable
    Restored restore(Limit limit, List<Grants> ages, @Nullable Restored earlier, long now) {
        throw new UnsupportedOperationException();
    }

    /**
     * What was restored of a lost life.
     *
     * @param at when, or the start of the window of a counter
     * @param permits the number of restored permits, of a counter in this window
     * @param newest for a log the slot of the latest of them
     * @param others for a log those in that slot, for a counter those in the window before
     */
    record Restored(long at, long permits, long newest, long others) {}

    /** The first millisecond at which the cost fits, found by trying one after another. */
    long fitsAt(Limit limit, long cost, long now) {
        long tick = now;
        while (!fits(limit, cost, tick)) {
            tick++;
        }
        return tick;
    }

    /** The first millisecond at which nothing is used any more, found by trying one after another. */
    long wholeAt(Limit limit, long now) {
        long tick = now;
        while (!isWhole(limit, tick)) {
            tick++;
        }
        return tick;
    }

    abstract boolean isWhole(Limit limit, long now);
}
