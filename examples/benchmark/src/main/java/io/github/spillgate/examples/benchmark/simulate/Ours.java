package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;

/**
 * Our own limiter on our own local store, as anybody uses them. The store says what the scripts in Redis say, to the
 * last field: the tests of the core hold them to it.
 */
final class Ours {

    private final VirtualClock clock;
    private final RateLimiter limiter;

    Ours(Limit limit, int clients) {
        clock = new VirtualClock();
        limiter = RateLimiter.builder("simulation")
                .store(LocalStore.bounded(Math.max(16, clients), clock))
                .limit(limit)
                .build();
    }

    /** The client's own view of the limiter, in which time is what it is asked at. */
    Admission of(String client) {
        return now -> {
            clock.set(now);
            return limiter.tryAcquire(client).blockOptional().orElseThrow().isAllowed();
        };
    }
}
