package io.github.spillgate;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * The answer to a {@link Charge}: whether it is allowed, the usage of its limits, and the time to wait before a retry.
 *
 * <p>All times are times of the clock of the store that decided.
 */
public interface Decision {

    /**
     * Returns whether the permits were granted; after a peek, whether they would be granted.
     *
     * @return true if all limits allow it
     */
    boolean isAllowed();

    /**
     * Returns whether this decision took permits, which can be refunded.
     *
     * @return true if it is allowed, costs at least one permit and is not a peek
     */
    boolean isCharged();

    /**
     * Returns the time until the same charge fits if no other request takes permits. An earlier retry is denied.
     *
     * @return the wait; empty if the charge is allowed or no wait helps, because the cost is above a limit or the
     *     limits could not be looked up
     */
    Optional<Duration> retryAfter();

    /**
     * Returns the number of further permits that all limits would grant now.
     *
     * @return the smallest remaining number of all usages; without usages, 0 after a denial and {@link Long#MAX_VALUE}
     *     otherwise
     */
    long remaining();

    /**
     * Returns the usage of the limits after the decision.
     *
     * @return a usage for each limit of each key, in the order of the charges; a {@linkplain Source#CACHED_DENIAL
     *     cached denial} may omit some; empty if the decision is not based on a store's reply
     */
    List<Usage> limits();

    /**
     * Returns the limits that denied.
     *
     * @return the violated limits; empty if the decision is allowed
     */
    List<Limit> violated();

    /**
     * Returns the usages that have reached the {@linkplain Limit#near(int) mark} of their limit, in the one allowed
     * decision that reports it.
     *
     * <p>A quota is reported by at most one decision of all instances in a period, unless the store loses its data. It
     * is not reported if the reply to that decision is lost or its caller cancels; permits of a {@linkplain
     * RateLimiter#settle settled} cost or of a denied request are reported by the next decision that takes permits. For
     * other limits, and during an outage, each limiter reports a key once, and again after its usage was below half of
     * the mark, or after a window without use.
     *
     * @return the usages, mostly none
     */
    List<Usage> near();

    /**
     * Returns the time of the decision.
     *
     * @return the time, by the clock of the store that decided
     */
    Instant at();

    /**
     * Returns the place where the decision was made.
     *
     * @return the source
     */
    Source source();

    /** The usage of one limit by one key, as of a {@link Decision}. */
    interface Usage {

        /**
         * Returns the key that is charged.
         *
         * @return the key as the caller passed it, not encoded; if it has more than 128 characters, {@code #} and its
         *     SHA-256 digest in Base64, as it is stored
         */
        String key();

        /**
         * Returns the limit.
         *
         * @return the limit
         */
        Limit limit();

        /**
         * Returns the cost that was asked of this limit. If the decision {@linkplain Decision#isCharged() was charged},
         * these permits were taken.
         *
         * @return the number of permits
         */
        long cost();

        /**
         * Returns the number of used permits.
         *
         * @return the permits; more than the limit's permits, for example, if those were lowered
         */
        long used();

        /**
         * Returns the number of further permits that the limit would grant now.
         *
         * @return the permits, never negative
         */
        long remaining();

        /**
         * Returns whether this limit denied.
         *
         * @return true if the claim did not fit
         */
        boolean isViolated();

        /**
         * Returns the time at which the claim fits this limit if no other request takes permits.
         *
         * @return the time, after a denial; otherwise the time of the decision
         */
        Instant fitsAt();

        /**
         * Returns the time at which all permits are available again if no request takes permits.
         *
         * @return the time from which no permit counts as used
         */
        Instant wholeAt();
    }
}
