package io.github.spillgate.failover;

import io.github.spillgate.LimitStore;
import io.github.spillgate.StoreProtection;
import java.time.Duration;
import java.util.Optional;

/**
 * The {@link StoreProtection} that a limiter finds with the service loader; it protects a store with a {@link
 * ResilientStore}.
 */
public final class Resilience implements StoreProtection {

    /** Creates an instance, for the service loader. */
    public Resilience() {}

    @Override
    public ProtectedStore protect(
            LimitStore store,
            Optional<LimitStore> fallback,
            Optional<Duration> deadline,
            Optional<Duration> cacheDenials) {
        ResilientStore.Builder builder = ResilientStore.builder(store);
        fallback.ifPresent(builder::fallback);
        deadline.ifPresent(builder::deadline);
        cacheDenials.ifPresent(builder::cacheDenials);
        return builder.build();
    }
}
