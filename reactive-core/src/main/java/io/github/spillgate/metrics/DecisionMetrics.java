package io.github.spillgate.metrics;

import io.github.spillgate.Decision;
import io.github.spillgate.DecisionListener;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.http.RuleListener.Outcome;
import io.github.spillgate.internal.Checks;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The meter of the decisions of limiters in code, for {@link RateLimiterBuilder#listener(DecisionListener)}: {@code
 * spillgate.decisions}, the number of decisions and the time they took.
 *
 * <pre>{@code
 * RateLimiter limiter = RateLimiter.builder("partner")
 *         .store(RedisStore.create(redisClient))
 *         .limit(Limit.perSecond(5))
 *         .listener(DecisionMetrics.of(registry))
 *         .build();
 * }</pre>
 *
 * <p>It has the tags of {@link RuleMetrics}, because Prometheus requires the same tags in all meters of a name. The tag
 * {@code rule} is {@code limiter:} with the name of the limiter, which no rule can be called. {@code outcome} is {@code
 * allowed} or {@code denied}, and {@code shadow} is {@code false}. Neither a key nor anything else of a request becomes
 * a tag.
 *
 * <p>Decisions that a limiter makes for rules are included, so beside {@link RuleMetrics} they are counted twice, under
 * different values of {@code rule}.
 */
public final class DecisionMetrics implements DecisionListener {

    private final MeterRegistry registry;
    private final Map<LimiterTags, Timer> decisions = new ConcurrentHashMap<>();

    private DecisionMetrics(MeterRegistry registry) {
        this.registry = registry;
    }

    /**
     * Returns a listener that records the meter in a registry.
     *
     * @param registry the registry
     * @return the listener, for any number of limiters
     */
    public static DecisionMetrics of(MeterRegistry registry) {
        return new DecisionMetrics(Checks.present(registry, "registry", "Metrics.globalRegistry"));
    }

    @Override
    public void decided(String limiter, Decision decision, Duration took) {
        LimiterTags kind = new LimiterTags(limiter, decision.isAllowed(), decision.source());
        Timer known = decisions.get(kind);
        (known == null ? decisions.computeIfAbsent(kind, this::newTimer) : known).record(took);
    }

    private Timer newTimer(LimiterTags kind) {
        Outcome outcome = kind.allowed ? Outcome.ALLOWED : Outcome.DENIED;
        return RuleMetrics.decisions(registry, "limiter:" + kind.limiter, false, outcome, kind.source);
    }

    private record LimiterTags(String limiter, boolean allowed, Source source) {}
}
