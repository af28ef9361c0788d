package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;

/**
 * Our limiter on the local store, through the public API. The tests of the core show that this store returns the same
 * decisions as the scripts in Redis, to the last field.
 */
final class LocalLimiter {

    private final VirtualClock clock;
    private final RateLimiter limiter;

    LocalLimiter(Limit limit, int clients) {
        clock = new VirtualClock();
        limiter = RateLimiter.builder("simulation")
                .store(LocalStore.bounded(Math.max(16, clients), clock))
                .limit(limit)
                .build();
    }

    /** Returns the admission of one client, at the time of each request. */
    Admission of(String client) {
        return now -> at(now).tryAcquire(client).blockOptional().orElseThrow().isAllowed();
    }

    /** Sets the clock, in milliseconds, and returns the limiter. */
    RateLimiter at(long now) {
        clock.set(now);
        return limiter;
    }
}
