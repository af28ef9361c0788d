package io.github.spillgate;

/** How a {@link Limit} counts. Both slide: neither has an instant at which everything is allowed again at once. */
public enum Algorithm {
    /**
     * Every hit is remembered with its time. Exact: no window, wherever it is laid, ever holds more than the permits.
     * Costs about ten bytes of memory a hit.
     */
    LOG,

    /**
     * Two counts are remembered, of the current window and of the one before it, and the older one fades out linearly.
     * Exact to that estimate. Costs the same few bytes whatever the limit.
     */
    COUNTER
}
