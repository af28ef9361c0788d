package io.github.spillgate.failover;

import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAccumulator;

/** A histogram of durations, with sixteen buckets for each power of two and an exact maximum. */
final class LatencyHistogram {

    private static final int PARTS = 16;

    private final AtomicLongArray buckets = new AtomicLongArray(64 * PARTS);
    private final LongAccumulator longest = new LongAccumulator(Math::max, 0);

    void add(long nanos) {
        buckets.incrementAndGet(bucket(nanos));
        longest.accumulate(nanos);
    }

    long size() {
        long size = 0;
        for (int i = 0; i < buckets.length(); i++) {
            size += buckets.get(i);
        }
        return size;
    }

    Duration longest() {
        return Duration.ofNanos(longest.get());
    }

    /** Returns the duration that this percentage of all durations does not exceed. */
    Duration percentile(double percent) {
        long wanted = (long) Math.ceil(size() * percent / 100);
        long seen = 0;
        for (int i = 0; i < buckets.length(); i++) {
            seen += buckets.get(i);
            if (seen >= wanted && seen > 0) {
                return Duration.ofNanos(Math.min(longest.get(), highest(i)));
            }
        }
        return Duration.ZERO;
    }

    private static int bucket(long nanos) {
        return nanos <= 1 ? 0 : (int) (PARTS * Math.log((double) nanos) / Math.log(2));
    }

    private static long highest(int bucket) {
        return (long) Math.pow(2, (bucket + 1.0) / PARTS);
    }

    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "%,d: p50 %s, p99 %s, max %s ms",
                size(),
                millis(percentile(50)),
                millis(percentile(99)),
                millis(longest()));
    }

    private static String millis(Duration duration) {
        return String.format(Locale.ROOT, "%.3f", duration.toNanos() / 1e6);
    }
}
