package io.github.spillgate;

import java.time.Duration;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * Puts a store that may stall or fail behind one that does not. The limiter looks for it with a {@link java.util.ServiceLoader},
 * because it is made of things that the limiter itself does not know; the resilience package has the one that is found.
 */
public interface StoreProtection {

    /**
     * Puts a store behind one that answers in time.
     *
     * @param store the one that decides as long as it can
     * @param fallback what decides otherwise, if something was asked for
     * @param deadline how long an answer may take, if something was asked for
     * @param cacheDenials how long a denial is remembered at most, if something was asked for
     * @return a store that answers in time
     */
    ProtectedStore protect(
            LimitStore store,
            Optional<LimitStore> fallback,
            Optional<Duration> deadline,
            Optional<Duration> cacheDenials);

    /** A store that answers in time, and has something to end when it is not needed any more. */
    interface ProtectedStore extends LimitStore {

        /**
         * Gives what waits to be settled a last chance, for a second at most, and ends what goes on in the background. Closes
         * neither of the two stores. Happens once, whether somebody subscribes or not.
         *
         * @return empty, when that is done; never an error
         */
        Mono<Void> closeLater();
    }
}
