package io.github.spillgate.metrics;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleLookupException;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.internal.Checks;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Meters of the decisions of rules:
 *
 * <table> <caption>Meters</caption>
 * <tr><th>meter</th><th>value</th></tr>
 * <tr><td>{@code spillgate.decisions}, by {@code rule}, {@code outcome} and {@code source}</td><td>decisions, and the
 * time they took; the outcome is {@code allowed}, {@code denied} or {@code denied_by_others}</td></tr>
 * <tr><td>{@code spillgate.lookup.failures}, by {@code rule} and {@code lookup}</td><td>lookups that failed or timed
 * out; the lookup is {@code limits-from} or {@code cost-from}</td></tr>
 * <tr><td>{@code spillgate.undecided}, by {@code rule}</td><td>requests that could not be decided</td></tr>
 * <tr><td>{@code spillgate.refused}, by {@code rule}</td><td>requests that were denied because they have no
 * key, or several</td></tr>
 * <tr><td>{@code spillgate.near}, by {@code rule}</td><td>requests that were allowed and left less than a tenth of a
 * limit or, if it has a {@linkplain Limit#near(int) mark}, were at or above that</td></tr>
 * <tr><td>{@code spillgate.bans}, by {@code rule}</td><td>denied requests that began a {@linkplain Limit.Ban
 * ban}</td></tr>
 * <tr><td>{@code spillgate.expired}, by {@code rule}</td><td>responses that lost the permits of a concurrency limit
 * before their end</td></tr>
 * </table>
 *
 * The meters of a shadow rule have the tag {@code shadow=true}. Neither a key nor anything else of a request becomes a
 * tag, so there are only a few meters for each rule.
 */
public final class RuleMetrics implements RuleListener {

    private static final int TENTH = 10;

    private final MeterRegistry registry;
    private final Map<DecisionTags, Timer> decisions = new ConcurrentHashMap<>();

    private RuleMetrics(MeterRegistry registry) {
        this.registry = registry;
    }

    /**
     * Returns a listener that records the meters in a registry.
     *
     * @param registry the registry
     * @return the listener
     */
    public static RuleMetrics of(MeterRegistry registry) {
        return new RuleMetrics(Checks.present(registry, "registry", "Metrics.globalRegistry"));
    }

    @Override
    public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
        Rule rule = match.rule();
        DecisionTags kind = new DecisionTags(rule.name(), rule.isShadow(), outcome, decision.source());
        timer(kind).record(took);
        if (outcome == Outcome.ALLOWED && isNear(rule, decision)) {
            counter("spillgate.near", "Requests that were allowed and near a limit", rule)
                    .increment();
        } else if (outcome == Outcome.DENIED && beginsBan(rule, decision)) {
            counter("spillgate.bans", "Denied requests that began a ban", rule).increment();
        }
    }

    @Override
    public void refused(RuleMatch match) {
        counter("spillgate.refused", "Requests that were denied because they have no key, or several", match.rule())
                .increment();
    }

    @Override
    public void lookupFailed(RuleMatch match, RuleLookupException why) {
        counter("spillgate.lookup.failures", "Lookups that failed or timed out", match.rule(), "lookup", why.setting())
                .increment();
    }

    @Override
    public void undecided(RuleMatch match, Throwable why) {
        counter("spillgate.undecided", "Requests that could not be decided", match.rule())
                .increment();
    }

    @Override
    public void expired(RuleMatch match, HoldExpiredException why) {
        counter("spillgate.expired", "Responses that lost permits of a concurrency limit", match.rule())
                .increment();
    }

    private static boolean beginsBan(Rule rule, Decision decision) {
        for (Decision.Usage usage : decision.limits()) {
            boolean isBegun = !usage.limit().takesPermits() && usage.used() > 0 && !usage.isViolated();
            if (isBegun && rule.isLimitedBy(usage.limit())) {
                return true;
            }
        }
        return false;
    }

    private static boolean isNear(Rule rule, Decision decision) {
        for (Decision.Usage usage : decision.limits()) {
            if (isNear(usage) && rule.isLimitedBy(usage.limit())) {
                return true;
            }
        }
        return false;
    }

    private static boolean isNear(Decision.Usage usage) {
        Limit limit = usage.limit();
        return limit.nearMark() == Long.MAX_VALUE
                ? usage.remaining() < limit.capacity() / TENTH
                : usage.used() >= limit.nearMark();
    }

    private Timer timer(DecisionTags kind) {
        Timer known = decisions.get(kind);
        return known == null ? decisions.computeIfAbsent(kind, this::newTimer) : known;
    }

    private Timer newTimer(DecisionTags kind) {
        return decisions(registry, kind.rule, kind.shadow, kind.outcome, kind.source);
    }

    /** Returns the timer of decisions, also for {@link DecisionMetrics}: all meters of a name need the same tags. */
    static Timer decisions(MeterRegistry registry, String rule, boolean isShadow, Outcome outcome, Source source) {
        return Timer.builder("spillgate.decisions")
                .description("Decisions of rules and limiters")
                .tags("rule", rule, "shadow", Boolean.toString(isShadow))
                .tags("outcome", text(outcome), "source", text(source))
                .register(registry);
    }

    private Counter counter(String name, String description, Rule rule, String... tags) {
        return Counter.builder(name)
                .description(description)
                .tags("rule", rule.name(), "shadow", Boolean.toString(rule.isShadow()))
                .tags(tags)
                .register(registry);
    }

    private static String text(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }

    private record DecisionTags(String rule, boolean shadow, Outcome outcome, Source source) {}
}
