package io.github.spillgate.examples.documentation.seeds;

import java.util.HashMap;
import java.util.Map;

/**
 * Sliding Window–Fixed Rate on memcached: fetches the counters of this bucket and the previous one, and increments that
 * of this one if the request fits. Fetching and incrementing are separate steps, as in the original.
 */
final class FixedRate {

    /** Never expires: in the original, buckets expire after their last read. */
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

    /** Returns whether the request is admitted. */
    boolean increments(Fetched fetched) {
        // "351 which is less than 500" is taken to mean that 500 fit.
        if (fetched.total + 1 > limit) {
            return false;
        }
        buckets.merge(fetched.bucket, 1L, Long::sum);
        return true;
    }

    /** The bucket of a request, and the estimate for the window that ends with it. */
    record Fetched(long bucket, double total) {}
}
