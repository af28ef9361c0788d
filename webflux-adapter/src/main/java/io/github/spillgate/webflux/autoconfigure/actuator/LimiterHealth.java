package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.FallbackStatus;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.ReactiveHealthIndicator;
import org.springframework.boot.health.contributor.Status;
import reactor.core.publisher.Mono;

/** The health indicator of a limiter. By default it is never down, because the fallback decides if the store fails. */
final class LimiterHealth implements ReactiveHealthIndicator {

    private static final Status DEGRADED = new Status("DEGRADED", "the fallback decides");

    private final RateLimiter limiter;
    private final boolean enabled;
    private final Status fallenBack;

    LimiterHealth(RateLimiter limiter, boolean enabled, FallbackStatus fallenBack) {
        this.limiter = limiter;
        this.enabled = enabled;
        this.fallenBack = switch (fallenBack) {
            case UP -> Status.UP;
            case DEGRADED -> DEGRADED;
            case DOWN -> Status.DOWN;
        };
    }

    @Override
    public Mono<Health> health() {
        return Mono.fromSupplier(() -> {
            StoreState state = limiter.state();
            Health.Builder health = Health.status(state.isFallbackActive() ? fallenBack : Status.UP)
                    .withDetail("enabled", enabled)
                    .withDetail("source", state.source())
                    .withDetail("breaker", state.breaker())
                    .withDetail("fallbacks", state.fallbacks())
                    .withDetail("toReconcile", state.toReconcile())
                    .withDetail("lost", state.lost());
            state.problem().ifPresent(problem -> health.withDetail("problem", problem));
            return health.build();
        });
    }
}
