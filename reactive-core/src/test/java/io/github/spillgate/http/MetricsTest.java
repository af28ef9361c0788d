package io.github.spillgate.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.metrics.DecisionMetrics;
import io.github.spillgate.metrics.LimiterMetrics;
import io.github.spillgate.metrics.RuleMetrics;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

class MetricsTest extends RulesFixture {

    private final SimpleMeterRegistry registry = new SimpleMeterRegistry();

    @Test
    void decisionsAreCountedByRuleOutcomeAndSource() {
        Rules rules = rules(rule("all", 20), rule("some", 2), rule("tried", 1).shadow(true));
        for (int i = 0; i < 3; i++) {
            decide(rules, "secret-key");
        }
        assertThat(count("all", "allowed", false)).isEqualTo(2);
        assertThat(count("all", "denied_by_others", false)).isEqualTo(1);
        assertThat(count("some", "allowed", false)).isEqualTo(2);
        assertThat(count("some", "denied", false)).isEqualTo(1);
        assertThat(count("tried", "allowed", true)).isEqualTo(1);
        assertThat(count("tried", "denied", true)).isEqualTo(1);
    }

    @Test
    void noKeyIsEverInATag() {
        Rules rules = rules(
                rule("all", 5),
                Rule.named("fails")
                        .key(match -> Mono.error(new IllegalStateException("secret-key")))
                        .limit(Limit.perMinute(1)));
        for (int i = 0; i < 10; i++) {
            decide(rules, "secret-key-" + i);
        }
        assertThat(registry.getMeters()).isNotEmpty();
        for (Meter meter : registry.getMeters()) {
            assertThat(meter.getId().getTags()).extracting(Tag::getValue).noneMatch(value -> value.contains("secret"));
        }
        assertThat(registry.getMeters()).hasSize(2);
    }

    @Test
    void decisionsOfALimiterInCodeAreCounted() {
        try (RateLimiter partner = RateLimiter.builder("partner")
                .store(LocalStore.bounded(1_000))
                .limit(Limit.perMinute(2))
                .listener(DecisionMetrics.of(registry))
                .build()) {
            for (int i = 0; i < 5; i++) {
                partner.tryAcquire("secret-key").block(LONG);
            }
            partner.tryAcquire("secret-other").block(LONG);
        }
        assertThat(count("limiter:partner", "allowed", false)).isEqualTo(3);
        assertThat(count("limiter:partner", "denied", false)).isEqualTo(3);
        assertThat(registry.getMeters()).hasSize(2);
        for (Meter meter : registry.getMeters()) {
            assertThat(meter.getId().getTags()).extracting(Tag::getValue).noneMatch(value -> value.contains("secret"));
        }
    }

    @Test
    void requestsNearALimitAreCounted() {
        Rules rules = rules(rule("all", 20));
        for (int i = 0; i < 18; i++) {
            decide(rules, "k");
        }
        assertThat(registry.find("spillgate.near").counter()).isNull();
        for (int i = 0; i < 5; i++) {
            decide(rules, "k");
        }
        assertThat(registry.get("spillgate.near").tag("rule", "all").counter().count())
                .isEqualTo(2);
    }

    /** Rules that match a request are decided together, and the name of one may start with that of another. */
    @Test
    void requestsNearALimitAreCountedForItsRule() {
        Rules rules = rules(rule("all", 1_000), rule("all-small", 20), rule("some", 1_000));
        for (int i = 0; i < 20; i++) {
            decide(rules, "k");
        }
        assertThat(registry.get("spillgate.near")
                        .tag("rule", "all-small")
                        .counter()
                        .count())
                .isEqualTo(2);
        assertThat(registry.find("spillgate.near").counters()).hasSize(1);
    }

    @Test
    void requestsNearALookedUpLimitAreCounted() {
        Rules rules = rules(
                rule("all", 1_000).limits((match, key) -> Mono.just(List.of(Limit.perHour(20)))), rule("some", 1_000));
        for (int i = 0; i < 20; i++) {
            decide(rules, "k");
        }
        assertThat(registry.get("spillgate.near").tag("rule", "all").counter().count())
                .isEqualTo(2);
        assertThat(registry.find("spillgate.near").counters()).hasSize(1);
    }

    @Test
    void bansAreCountedWhenTheyBegin() {
        Limit ban = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));
        Rules rules = rules(rule("all", 2).limit(ban), rule("some", 1_000).limit(ban));
        for (int i = 0; i < 9; i++) {
            decide(rules, "k");
        }
        assertThat(registry.get("spillgate.bans").tag("rule", "all").counter().count())
                .isEqualTo(1);
    }

    @Test
    void undecidedRequestsAreCounted() {
        Rules rules = rules(Rule.named("fails")
                .key(match -> Mono.error(new IllegalStateException("broken")))
                .limit(Limit.perMinute(1)));
        decide(rules, "k");
        assertThat(registry.get("spillgate.undecided")
                        .tag("rule", "fails")
                        .counter()
                        .count())
                .isEqualTo(1);
    }

    @Test
    void lookupsThatFailAreCountedThoughTheRuleDecides() {
        Rules rules = rules(rule("plan", 5)
                .limits((match, key) -> Mono.error(new IllegalStateException("broken")))
                .cost(match -> Mono.error(new IllegalStateException("broken"))));
        decide(rules, "k");
        decide(rules, "k");
        for (String lookup : List.of("limits-from", "cost-from")) {
            assertThat(registry.get("spillgate.lookup.failures")
                            .tags("rule", "plan", "lookup", lookup, "shadow", "false")
                            .counter()
                            .count())
                    .isEqualTo(2);
        }
        assertThat(registry.find("spillgate.undecided").counter()).isNull();
        assertThat(count("plan", "allowed", false)).isEqualTo(2);
    }

    @Test
    void requestsDeniedWithoutAKeyAreCounted() {
        Rules rules = rules(rule("all", 5).whenMissing(Rule.WhenMissing.DENY));
        decide(rules);
        assertThat(registry.get("spillgate.refused")
                        .tag("rule", "all")
                        .counter()
                        .count())
                .isEqualTo(1);
    }

    @Test
    void theStateOfTheStoreIsExported() {
        LimiterMetrics.of(limiter, "test").bindTo(registry);
        for (Breaker state : Breaker.values()) {
            assertThat(registry.get("spillgate.breaker")
                            .tag("state", state.name().toLowerCase(Locale.ROOT))
                            .gauge()
                            .value())
                    .isEqualTo(state == limiter.state().breaker() ? 1 : 0);
        }
        for (String counter :
                List.of("fallbacks", "reconciliation.charged", "reconciliation.lost", "reconciliation.unknown")) {
            assertThat(registry.get("spillgate." + counter)
                            .tag("limiter", "test")
                            .functionCounter()
                            .count())
                    .isZero();
        }
        assertThat(registry.get("spillgate.reconciliation.pending").gauge().value())
                .isZero();
    }

    private long count(String rule, String outcome, boolean shadow) {
        return registry.get("spillgate.decisions")
                .tags("rule", rule, "outcome", outcome, "source", "local", "shadow", Boolean.toString(shadow))
                .timer()
                .count();
    }

    @Override
    Rules rules(Rule.Builder... rules) {
        return rules(limiter, RuleInstrumentation.none().listener(RuleMetrics.of(registry)), rules);
    }

    private static Rule.Builder rule(String name, long permits) {
        return Rule.named(name).key(API_KEY).limit(Limit.perMinute(permits));
    }

    private static void decide(Rules rules, String key) {
        decide(rules, SentRequest.get("/").header("X-Api-Key", key));
    }
}
