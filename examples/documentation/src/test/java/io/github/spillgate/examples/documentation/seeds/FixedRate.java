package io.github.spillgate.examples.documentation.seeds;

import java.util.HashMap;
import java.util.Map;

/**
 * Sliding Window–Fixed Rate on memcached: fetches the counters of this bucket and of the one before, and increments
 * that of this one where the request fits. Fetching and incrementing are two steps here as they are there.
 */
final class FixedRate {

    /** Buckets live for longer than anybody reads them; so here they stay. */
    private final Map<Long, Long> buckets = new HashMap<>();

    private final long limit;
    private final long size;

    FixedRate(long limit, long size) {
        this.limit = limit;
        this.size = size;
    }

    boolean allows(long now) {
        return increments(fetches(now));
    }

    Fetched fetches(long now) {
        long bucket = now / size;
        double share = (double) (size - now % size) / size;
        return new Fetched(bucket, buckets.getOrDefault(bucket - 1, 0L) * share + buckets.getOrDefault(bucket, 0L));
    }

    /** Returns whether the request is let through. */
    boolean increments(Fetched fetched) {
        // "351 which is less than 500" is read as: 500 fit.
        if (fetched.total + 1 > limit) {
            return false;
        }
        buckets.merge(fetched.bucket, 1L, Long::sum);
        return true;
    }

    /** The bucket that a request falls into, and how many are taken to have come in the window that ends with it. */
    record Fetched(long bucket, double total) {}
}
