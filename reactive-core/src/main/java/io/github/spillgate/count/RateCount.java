package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;

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

    /** Begins a life, if there was no value. */
    final int lifeAt(long micros) {
        life = life == 0 ? ((int) (micros % MOST_LIVES) + 1) * StoreUsage.RESETS : life;
        return life;
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
}
