package io.github.spillgate.local;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;

/**
 * A count of a rate limit, in memory: permits return as time passes, and a refund returns them earlier. No API.
 */
public abstract class RateCount extends Count {

    /** Creates an empty count. */
    protected RateCount() {}

    /**
     * Returns an empty count for a limit.
     *
     * @param limit a rate limit
     * @return a count of its algorithm
     */
    public static RateCount of(Limit limit) {
        return switch (limit.algorithm()) {
            case LOG -> new LogCount();
            case COUNTER -> new CounterCount();
            case BUCKET -> new BucketCount();
            case CONCURRENT ->
                throw new IllegalArgumentException(
                        "limit " + limit + " is not a rate limit: expected one, for example Limit.perMinute(100)");
        };
    }

    /**
     * Returns what is recorded, with the times at which it was taken.
     *
     * @return the grants, the oldest first
     */
    public abstract List<Grants> grants();

    @Override
    public abstract void recordDenied(Limit limit, long cost);

    /**
     * Refunds permits that were taken at a time, as far as they still count.
     *
     * @param limit the limit
     * @param takenAt the time, in milliseconds
     * @param permits the number of permits
     */
    public abstract void refund(Limit limit, long takenAt, long permits);

    /**
     * Refunds the oldest permits, as many as there are.
     *
     * @param permits the number of permits
     */
    public abstract void refundOldest(long permits);
}
