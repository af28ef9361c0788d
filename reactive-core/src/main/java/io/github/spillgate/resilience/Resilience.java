package io.github.spillgate.resilience;

import io.github.spillgate.LimitStore;
import io.github.spillgate.StoreProtection;
import java.time.Duration;
import java.util.Optional;

/** What a limiter finds when it looks for somebody to protect its store. */
public final class Resilience implements StoreProtection {

    /** For the service loader. */
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
