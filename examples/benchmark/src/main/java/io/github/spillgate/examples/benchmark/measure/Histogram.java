package io.github.spillgate.examples.benchmark.measure;

/** Counts of times in nanoseconds, in buckets with a relative width of at most 1/32. Not thread-safe. */
final class Histogram {
    // Each number below 32 has its own bucket; above that, each power of two has 32 buckets.

    private static final int BITS = 5;
    private static final int EACH = 1 << BITS;
    private static final long LONGEST = (1L << 40) - 1;

    private final long[] counts = new long[bucket(LONGEST) + 1];

    void record(long nanos) {
        counts[bucket(Math.min(Math.max(nanos, 0), LONGEST))]++;
    }

    void add(Histogram other) {
        for (int i = 0; i < counts.length; i++) {
            counts[i] += other.counts[i];
        }
    }

    /** Returns the middle of the bucket at this quantile, or 0 if there are no times. */
    double nanosAt(double share) {
        long all = 0;
        for (long count : counts) {
            all += count;
        }
        long left = Math.max(1, (long) Math.ceil(all * share));
        for (int i = 0; i < counts.length; i++) {
            left -= counts[i];
            if (left <= 0) {
                return (lowest(i) + lowest(i + 1)) / 2.0;
            }
        }
        return 0;
    }

    private static int bucket(long nanos) {
        if (nanos < EACH) {
            return (int) nanos;
        }
        int shift = Long.SIZE - 1 - Long.numberOfLeadingZeros(nanos) - BITS;
        return (shift << BITS) + (int) (nanos >>> shift);
    }

    private static long lowest(int bucket) {
        if (bucket < 2 * EACH) {
            return bucket;
        }
        int shift = (bucket >>> BITS) - 1;
        return (long) (bucket - (shift << BITS)) << shift;
    }
}
