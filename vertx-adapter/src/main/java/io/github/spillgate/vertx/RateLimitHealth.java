package io.github.spillgate.vertx;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Checks;
import io.vertx.core.Handler;
import io.vertx.core.Promise;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.healthchecks.Status;

/**
 * A Vert.x health check that reports which store decides, the state of the circuit breaker, and the current problem.
 *
 * <pre>{@code
 * HealthChecks.create(vertx).register("limiter", RateLimitHealth.of(limiter));
 * }</pre>
 *
 * <p>By default it also succeeds while the fallback decides, because the service continues; see {@link
 * #failsDuringFallback(boolean)}. Vert.x has no status between up and down, so the detail {@code degraded} is true
 * then.
 */
public final class RateLimitHealth implements Handler<Promise<Status>> {

    private final RateLimiter limiter;
    private final boolean failsDuringFallback;

    private RateLimitHealth(RateLimiter limiter, boolean failsDuringFallback) {
        this.limiter = limiter;
        this.failsDuringFallback = failsDuringFallback;
    }

    /**
     * Returns a health check that succeeds while the fallback decides.
     *
     * @param limiter the limiter
     * @return the health check
     */
    public static RateLimitHealth of(RateLimiter limiter) {
        return new RateLimitHealth(Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\")...build()"), false);
    }

    /**
     * Returns a copy of this health check that fails, or succeeds, while the fallback decides.
     *
     * @param fails whether it fails while the fallback decides
     * @return the health check
     */
    public RateLimitHealth failsDuringFallback(boolean fails) {
        return new RateLimitHealth(limiter, fails);
    }

    @Override
    public void handle(Promise<Status> promise) {
        StoreState state = limiter.state();
        JsonObject details = new JsonObject()
                .put("degraded", state.isFallbackActive())
                .put("source", state.source().name())
                .put("breaker", state.breaker().name())
                .put("fallbacks", state.fallbacks())
                .put("toReconcile", state.toReconcile())
                .put("lost", state.lost());
        state.problem().ifPresent(problem -> details.put("problem", problem));
        promise.complete(failsDuringFallback && state.isFallbackActive() ? Status.KO(details) : Status.OK(details));
    }
}
