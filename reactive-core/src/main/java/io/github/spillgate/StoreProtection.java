package io.github.spillgate;

import java.time.Duration;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * A service that protects a store that may stall or fail, by wrapping it in a store that answers within a deadline. The
 * limiter loads the service with a {@link java.util.ServiceLoader}, because it uses types that the limiter does not
 * know. The failover package provides the implementation.
 */
public interface StoreProtection {

    /**
     * Wraps a store in one that answers within a deadline.
     *
     * @param store the store that decides while it can
     * @param fallback the store that decides otherwise; empty for the default
     * @param deadline the longest time for an answer; empty for the default
     * @param cacheDenials the longest time for which a denial is cached; empty for the default
     * @return a store that answers within the deadline
     */
    ProtectedStore protect(
            LimitStore store,
            Optional<LimitStore> fallback,
            Optional<Duration> deadline,
            Optional<Duration> cacheDenials);

    /** A store that answers within a deadline, and that must be closed when it is no longer needed. */
    interface ProtectedStore extends LimitStore {

        /**
         * Makes a last attempt to reconcile, for at most 1 second, and stops the background work. Closes neither of the
         * two stores. Starts when it is called, with or without a subscriber, and runs once.
         *
         * @return completes when that is done; never an error
         */
        Mono<Void> closeLater();
    }
}
