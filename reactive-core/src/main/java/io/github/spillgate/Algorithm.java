package io.github.spillgate;

/**
 * The algorithm with which a {@link Limit} counts. None has a boundary at which all permits are available again at
 * once.
 */
public enum Algorithm {
    /**
     * A log of all hits with their times. Exact: no window ever contains more than the limit's permits, wherever it
     * begins. Needs about 10 bytes of memory per hit.
     */
    LOG,

    /**
     * A counter for the current window and one for the window before it; the older count fades out linearly. The sum is
     * an estimate of the usage, and decisions follow it exactly. Needs the same few bytes for every limit.
     */
    COUNTER,

    /**
     * A token bucket: permits return at an even rate, and up to the {@linkplain Limit#burst() burst} of them may be
     * taken at once. Exact: in any time, no more than the burst plus the permits that return in that time are granted.
     * Needs the same few bytes for every limit.
     */
    BUCKET,

    /**
     * A set of holders: each takes permits, and returns them when its work ends. Exact: at any time, the holders have
     * no more than the limit's permits. A holder that does not return its permits loses them after the {@linkplain
     * Limit#hold(java.time.Duration) hold time}. Needs 28 bytes of memory per holder.
     */
    CONCURRENT
}
