package io.github.spillgate.metrics;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.internal.Checks;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Locale;
import java.util.function.ToDoubleFunction;

/**
 * Meters of the state of a limiter's store, as returned by {@link RateLimiter#state()}:
 *
 * <table> <caption>Meters</caption>
 * <tr><th>meter</th><th>value</th></tr>
 * <tr><td>{@code spillgate.breaker}, by {@code state}</td><td>1 for the current state of the circuit breaker, {@code
 * closed}, {@code open}, {@code half_open}, or {@code none} for a store without one, and 0 for the others</td></tr>
 * <tr><td>{@code spillgate.fallbacks}</td><td>requests that the fallback has answered</td></tr>
 * <tr><td>{@code spillgate.deadlines.missed}</td><td>of these, missed deadlines while the breaker was closed</td></tr>
 * <tr><td>{@code spillgate.reconciliation.pending}</td><td>permits that wait to be charged in the store</td></tr>
 * <tr><td>{@code spillgate.reconciliation.charged}</td><td>permits that have been charged</td></tr>
 * <tr><td>{@code spillgate.reconciliation.lost}</td><td>permits that will never be charged</td></tr>
 * <tr><td>{@code spillgate.reconciliation.unknown}</td><td>permits that may have been charged twice</td></tr>
 * <tr><td>{@code spillgate.leases.decisions}</td><td>requests that were granted from leased permits</td></tr>
 * <tr><td>{@code spillgate.leases.permits}</td><td>permits that were leased</td></tr>
 * <tr><td>{@code spillgate.leases.refunded}</td><td>leased permits that were not spent</td></tr>
 * <tr><td>{@code spillgate.leases.denied}</td><td>permits that the store denied while permits were leased</td></tr>
 * <tr><td>{@code spillgate.settlements.lost}</td><td>settled costs that could not be delivered</td></tr>
 * <tr><td>{@code spillgate.holders}</td><td>work of this limiter that holds permits of a concurrency limit</td></tr>
 * </table>
 *
 * Each meter has the tag {@code limiter} with the limiter's name.
 */
public final class LimiterMetrics implements MeterBinder {

    private final RateLimiter limiter;
    private final Tags tags;

    private LimiterMetrics(RateLimiter limiter, String name) {
        this.limiter = limiter;
        this.tags = Tags.of("limiter", name);
    }

    /**
     * Returns the meters of a limiter.
     *
     * @param limiter the limiter
     * @param name the value of the tag {@code limiter}
     * @return the meters, to be bound to a registry
     */
    public static LimiterMetrics of(RateLimiter limiter, String name) {
        return new LimiterMetrics(
                Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\")...build()"),
                Checks.present(name, "name", "\"api\""));
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        for (Breaker state : Breaker.values()) {
            Gauge.builder("spillgate.breaker", limiter, bound -> bound.state().breaker() == state ? 1 : 0)
                    .description("1 for the current state of the circuit breaker, 0 for the others")
                    .tags(tags.and("state", state.name().toLowerCase(Locale.ROOT)))
                    .register(registry);
        }
        Gauge.builder("spillgate.reconciliation.pending", limiter, ofState(StoreState::toReconcile))
                .description("Permits that the fallback has granted and that wait to be charged in the store")
                .tags(tags)
                .register(registry);
        Gauge.builder("spillgate.holders", limiter, RateLimiter::holders)
                .description("Work of this limiter that holds permits of a concurrency limit")
                .tags(tags)
                .register(registry);
        counter(registry, "spillgate.fallbacks", "Requests that the fallback has answered", StoreState::fallbacks);
        counter(
                registry,
                "spillgate.deadlines.missed",
                "Requests that the fallback has answered at their deadline, with a closed breaker",
                StoreState::missedDeadlines);
        counter(
                registry,
                "spillgate.reconciliation.charged",
                "Permits of the fallback that have been charged in the store",
                StoreState::reconciled);
        counter(
                registry,
                "spillgate.reconciliation.lost",
                "Permits of the fallback that will never be charged in the store",
                StoreState::lost);
        counter(
                registry,
                "spillgate.reconciliation.unknown",
                "Permits that may have been charged twice",
                StoreState::unknown);
        counter(
                registry,
                "spillgate.leases.decisions",
                "Requests that were granted from leased permits",
                state -> state.leases().decisions());
        counter(
                registry,
                "spillgate.leases.permits",
                "Permits that were leased",
                state -> state.leases().permits());
        counter(
                registry,
                "spillgate.leases.refunded",
                "Leased permits that were not spent",
                state -> state.leases().refunded());
        counter(
                registry,
                "spillgate.leases.denied",
                "Permits that the store denied while permits were leased",
                state -> state.leases().denied());
        counter(
                registry,
                "spillgate.settlements.lost",
                "Settled costs that could not be delivered to the store",
                StoreState::lostSettlements);
    }

    private void counter(MeterRegistry registry, String meter, String description, ToDoubleFunction<StoreState> value) {
        FunctionCounter.builder(meter, limiter, ofState(value))
                .description(description)
                .tags(tags)
                .register(registry);
    }

    private static ToDoubleFunction<RateLimiter> ofState(ToDoubleFunction<StoreState> value) {
        return limiter -> value.applyAsDouble(limiter.state());
    }
}
