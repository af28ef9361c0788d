package io.github.spillgate.vertx;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.vertx.core.Handler;
import io.vertx.core.Promise;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.healthchecks.Status;
import java.util.Objects;

/**
 * Tells the health checks of Vert.x which store decides, how the breaker is, and what is wrong.
 *
 * <pre>{@code
 * HealthChecks.create(vertx).register("limiter", RateLimitHealth.of(limiter));
 * }</pre>
 *
 * It is well also while the fallback decides, because the service goes on; or not, as you choose.
 */
public final class RateLimitHealth implements Handler<Promise<Status>> {

    private final RateLimiter limiter;
    private final boolean failsWhenFallenBack;

    private RateLimitHealth(RateLimiter limiter, boolean failsWhenFallenBack) {
        this.limiter = limiter;
        this.failsWhenFallenBack = failsWhenFallenBack;
    }

    /**
     * The health of a limiter, which is well while the fallback decides.
     *
     * @param limiter the limiter
     * @return its health
     */
    public static RateLimitHealth of(RateLimiter limiter) {
        return new RateLimitHealth(Objects.requireNonNull(limiter, "limiter is null: expected one"), false);
    }

    /**
     * The same, well or not while the fallback decides.
     *
     * @param fails whether it is not
     * @return the health
     */
    public RateLimitHealth failsWhenFallenBack(boolean fails) {
        return new RateLimitHealth(limiter, fails);
    }

    @Override
    public void handle(Promise<Status> promise) {
        StoreState state = limiter.state();
        JsonObject details = new JsonObject()
                .put("source", state.source().name())
                .put("breaker", state.breaker().name())
                .put("fallbacks", state.fallbacks())
                .put("toReconcile", state.toReconcile())
                .put("lost", state.lost());
        state.problem().ifPresent(problem -> details.put("problem", problem));
        promise.complete(failsWhenFallenBack && state.isFallbackActive() ? Status.KO(details) : Status.OK(details));
    }
}
