package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.count.RestoredMark.Restored;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A count of a rate limit: permits return as time passes, and a refund returns them earlier. No API. */
public abstract class RateCount extends Count {

    private static final int MOST_LIVES = 8_191;

    private int life;

    /** Creates an empty count. */
    protected RateCount() {}

    /**
     * Returns an empty count for a limit.
     *
     * @param limit a rate limit
     * @return a count of its kind
     */
    public static RateCount of(Limit limit) {
        if (Count.of(limit) instanceof RateCount count) {
            return count;
        }
        throw new IllegalArgumentException(
                "limit " + limit + " is not a rate limit: expected one, for example Limit.perMinute(100)");
    }

    /**
     * Returns what is recorded, with the times at which it was taken.
     *
     * @return the grants, the oldest first
     */
    public abstract List<Grants> grants();

    /**
     * Returns the life of the value, which tells it from an earlier one that was lost.
     *
     * @return 1 to 65,535; 0 if there is no value
     */
    public final int life() {
        return life;
    }

    final void readLife(CountValue value) {
        life = value.nextLife();
    }

    /**
     * Returns the life of the value that is written after this step. Without a value, a life begins.
     *
     * @param micros the time of the step, in microseconds
     * @return the life
     */
    public final int lifeAt(long micros) {
        life = life == 0 ? ((int) (micros % MOST_LIVES) + 1) * StoreUsage.RESETS : life;
        return life;
    }

    @Override
    final int nextLife(long micros) {
        return isChanged() ? lifeAt(micros) : life;
    }

    @Override
    public abstract void recordDenied(long cost);

    /**
     * Refunds permits that were taken at a time, as far as they still count.
     *
     * @param takenAt the time, in milliseconds
     * @param permits the number of permits
     */
    public abstract void refund(long takenAt, long permits);

    /**
     * Refunds the oldest permits, as many as there are.
     *
     * @param permits the number of permits
     */
    public abstract void refundOldest(long permits);

    /**
     * Refunds permits that were {@linkplain #charge charged}, as far as they still count: by default the oldest. A
     * kind of which these may have returned earlier, and others be the oldest, subtracts only what is left of them.
     *
     * @param permits the number of permits
     * @param gone when all permits of the charge have returned, in milliseconds
     */
    public void refundCharged(long permits, long gone) {
        refundOldest(permits);
    }

    // What other counts have granted, for the value of a store. It may exceed the limit.

    /**
     * Charges permits that another store granted, at their times.
     *
     * @param ages the grants, with ages as of this step in place of times, the oldest first
     * @return for how many milliseconds the permits may count, and the store has to remember this charge, so that it
     *     makes it once; 0 if none of them counts any more: then nothing has changed
     */
    public long charge(List<Grants> ages) {
        throw withoutValue();
    }

    /**
     * Restores permits of a life that the store has lost, unless another instance has restored them. They count in
     * addition to those that were taken since.
     *
     * @param lostLife the life with these permits; nothing is restored if it is not lost
     * @param ages the permits, with ages as of this step in place of times, the oldest first
     * @param mark the mark of what was restored before
     * @param micros the time of this step, in microseconds
     * @return the mark to be written; the same one if nothing has changed
     */
    public final RestoredMark restore(int lostLife, List<Grants> ages, RestoredMark mark, long micros) {
        if (lostLife / StoreUsage.RESETS == life / StoreUsage.RESETS || ages.isEmpty()) {
            return mark;
        }
        Restored restored = restore(ages, mark.of(lostLife, life));
        return restored == null ? mark : mark.with(restored, lifeAt(micros));
    }

    /** Restores permits; returns the numbers of this and earlier restorations, or null if nothing was restored now. */
    @Nullable
    Restored restore(List<Grants> ages, Restored earlier) {
        throw withoutValue();
    }
}
