package io.github.spillgate;

/**
 * The algorithm with which a {@link Limit} counts. Both use a sliding window, without a boundary at which all permits
 * are available again at once.
 */
public enum Algorithm {
    /**
     * A log of all hits with their times. Exact: no window ever contains more than the limit's permits. Needs about 10
     * bytes of memory per hit.
     */
    LOG,

    /**
     * A counter for the current window and one for the window before it; the older count fades out linearly. The sum is
     * an estimate of the usage, and decisions follow it exactly. Needs the same few bytes for every limit.
     */
    COUNTER
}
