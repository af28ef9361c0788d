package io.github.spillgate.count;

/** Looks into token buckets, for tests in other packages. */
public final class BucketLevels {

    private BucketLevels() {}

    /** Returns the level at the present time. */
    public static long of(Count bucket) {
        return ((BucketCount) bucket).state().level();
    }
}
