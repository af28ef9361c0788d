package io.github.spillgate.examples.documentation.seeds;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.ManualClock;

/**
 * Our limiter on the local store, at the instants of a test. The contract tests of stores show that Redis decides the
 * same.
 */
final class Ours {

    private final ManualClock clock = new ManualClock();
    private final RateLimiter limiter;

    Ours(Limit... limits) {
        RateLimiter.Builder builder = RateLimiter.builder("seeds").store(LocalStore.bounded(1_000, clock));
        for (Limit limit : limits) {
            builder.limit(limit);
        }
        limiter = builder.build();
    }

    boolean allows(String key, long now) {
        return ask(now, Charge.of(key)).isAllowed();
    }

    Decision ask(long now, Charge... charges) {
        clock.set(now);
        return limiter.tryAcquire(charges).block();
    }

    Decision look(long now, Charge... charges) {
        clock.set(now);
        return limiter.peek(charges).block();
    }
}
