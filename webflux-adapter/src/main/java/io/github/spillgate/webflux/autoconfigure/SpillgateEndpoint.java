package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Decision.Usage;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.annotation.DeleteOperation;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;
import org.springframework.boot.actuate.endpoint.annotation.Selector;
import reactor.core.publisher.Mono;

/**
 * The Actuator's endpoint {@code spillgate}: which rules hold and who decides; how far a key has used up a rule's limits; and that
 * it may begin anew.
 */
@Endpoint(id = "spillgate")
public final class SpillgateEndpoint {

    private final boolean enabled;
    private final RateLimiter limiter;
    private final Rules rules;

    SpillgateEndpoint(boolean enabled, RateLimiter limiter, Rules rules) {
        this.enabled = enabled;
        this.limiter = limiter;
        this.rules = rules;
    }

    /**
     * Tells which rules hold, and who decides.
     *
     * @return both
     */
    @ReadOperation
    public Overview overview() {
        StoreState state = limiter.state();
        return new Overview(
                enabled,
                state.decides().name(),
                state.breaker().name(),
                state.problem().orElse(null),
                rules.list().stream().map(RuleInForce::of).toList());
    }

    /**
     * Tells how far a key has used up the limits of a rule, and charges nothing.
     *
     * @param rule the name of the rule
     * @param key the key, as the rule's key source finds it
     * @return a usage for each limit; empty if there is no such rule
     */
    @ReadOperation
    public Mono<List<LimitUsed>> usage(@Selector String rule, String key) {
        return rules.peek(rule, key)
                .map(decision -> decision.limits().stream().map(LimitUsed::of).toList());
    }

    /**
     * Lets a key begin anew with the limits of a rule.
     *
     * @param rule the name of the rule
     * @param key the key, as the rule's key source finds it
     * @return completes when it is done
     */
    @DeleteOperation
    public Mono<Void> reset(@Selector String rule, String key) {
        return rules.reset(rule, key);
    }

    /**
     * What holds.
     *
     * @param enabled whether requests are limited; false with {@code spillgate.enabled=false}
     * @param decides who decides
     * @param breaker the state of the circuit breaker
     * @param problem what is wrong, if something is
     * @param rules the rules
     */
    public record Overview(
            boolean enabled,
            String decides,
            String breaker,
            @Nullable String problem,
            List<RuleInForce> rules) {}

    /**
     * A rule.
     *
     * @param name what it is called
     * @param phase when it is decided
     * @param paths which paths are meant; none means all
     * @param methods which methods are meant; none means all
     * @param limits its own limits
     * @param shadow whether it is only tried out
     */
    public record RuleInForce(
            String name, String phase, List<String> paths, List<String> methods, List<String> limits, boolean shadow) {

        static RuleInForce of(Rule rule) {
            return new RuleInForce(
                    rule.name(),
                    rule.phase().name(),
                    rule.paths(),
                    List.copyOf(rule.methods()),
                    rule.limits().stream().map(Object::toString).toList(),
                    rule.isShadow());
        }
    }

    /**
     * How far a limit is used up.
     *
     * @param limit the limit
     * @param used how many permits are used
     * @param remaining how many are left
     * @param wholeAt when nothing is used any more
     */
    public record LimitUsed(String limit, long used, long remaining, Instant wholeAt) {

        static LimitUsed of(Usage usage) {
            return new LimitUsed(usage.limit().toString(), usage.used(), usage.remaining(), usage.wholeAt());
        }
    }
}
