package io.github.spillgate.webflux.autoconfigure.actuator;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.WithoutDeadline;
import io.github.spillgate.webflux.PathPatterns;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;
import reactor.core.publisher.Mono;

/** The endpoint {@code spillgate} if a store or a lookup fails, and what it reports of plans. */
class SpillgateEndpointTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    @Test
    void withoutAStoreThatDecidesUsageAndResetAnswer503() {
        RedisStore nowhere = RedisStore.create(RedisStore.uri("redis://localhost:1"));
        try (RateLimiter limiter = limiter(nowhere, Fallback.error())) {
            SpillgateEndpoint endpoint = endpoint(limiter);
            assertUnavailable(endpoint.usage("login", "all"), "Redis");
            assertUnavailable(endpoint.reset("login", "all", null), "Redis");
        }
        nowhere.closeLater().block(LONG);
    }

    @Test
    void aResetThatTheStoreRefusesAnswers503() {
        LimitStore refusing = new WithoutDeadline(LocalStore.bounded(16)) {
            @Override
            public Mono<Void> reset(List<Claim> claims, long deadline) {
                return Mono.error(new LimitStoreException(Kind.REFUSED, "expected the right +del"));
            }
        };
        try (RateLimiter limiter = limiter(refusing, Fallback.local(16))) {
            SpillgateEndpoint endpoint = endpoint(limiter);
            assertUnavailable(endpoint.reset("login", "all", null), "expected the right +del");
            assertThat(endpoint.usage("login", "all").block(LONG).getStatus()).isEqualTo(200);
        }
    }

    @Test
    void theUsageOfAKeyWithAPlanIsThatOfItsPlan() {
        Limit plan = Limit.perMinute(10_000);
        try (RateLimiter limiter = limiter(LocalStore.bounded(16))) {
            SpillgateEndpoint endpoint = endpoint(
                    limiter,
                    (match, key) -> key.equals("ann")
                            ? Mono.delay(Duration.ofMillis(1)).thenReturn(List.of(plan))
                            : Mono.error(new IllegalStateException("no \"database\"")));
            limiter.tryAcquire(Charge.of("ann", plan.named("login-1m")).permits(20))
                    .block(LONG);
            assertThat(usage(endpoint, "ann")).containsExactly("10000/1m name=login-1m 20 9980");
            assertThat(endpoint.reset("login", "ann", null).block(LONG).getStatus())
                    .isEqualTo(204);
            assertThat(usage(endpoint, "ann")).containsExactly("10000/1m name=login-1m 0 10000");
            for (Mono<WebEndpointResponse<?>> failed :
                    List.of(endpoint.usage("login", "bob"), endpoint.reset("login", "bob", null))) {
                assertUnavailable(
                        failed,
                        "rule login: limits-from failed: \"java.lang.IllegalStateException: no \\\"database\\\"\"");
            }
        }
    }

    @Test
    void theOverviewHasKeyLimitsAndCostOfARule() {
        try (RateLimiter limiter = limiter(LocalStore.bounded(16))) {
            assertThat(endpoint(limiter, (match, key) -> Mono.empty())
                            .overview()
                            .rules())
                    .extracting(
                            SpillgateEndpoint.RuleInForce::key,
                            SpillgateEndpoint.RuleInForce::limits,
                            SpillgateEndpoint.RuleInForce::limitsFrom,
                            SpillgateEndpoint.RuleInForce::cost,
                            SpillgateEndpoint.RuleInForce::costFrom)
                    .containsExactly(tuple("constant:all", List.of("5/1m name=login-1m"), "function", 2L, null));
        }
    }

    private static List<String> usage(SpillgateEndpoint endpoint, String key) {
        List<?> limits = (List<?>) endpoint.usage("login", key).block(LONG).getBody();
        return limits.stream()
                .map(SpillgateEndpoint.LimitUsed.class::cast)
                .map(limit -> limit.limit() + " " + limit.used() + " " + limit.remaining())
                .toList();
    }

    private static RateLimiter limiter(LimitStore store) {
        return RateLimiter.builder("endpoint").store(store).build();
    }

    private static RateLimiter limiter(LimitStore store, LimitStore fallback) {
        return RateLimiter.builder("endpoint")
                .store(store)
                .fallback(fallback)
                .limit(Limit.perMinute(5))
                .build();
    }

    private static SpillgateEndpoint endpoint(RateLimiter limiter) {
        return endpoint(limiter, null);
    }

    private static SpillgateEndpoint endpoint(RateLimiter limiter, Rule.LimitSource plans) {
        Rule login = Rule.named("login")
                .key(KeySource.constant("all"))
                .limit(Limit.perMinute(5))
                .limits(plans)
                .cost(2)
                .timeout(LONG)
                .build();
        Rules rules = Rules.of(limiter, PathPatterns.ofSpring(), List.of(login));
        return new SpillgateEndpoint(true, limiter, Map.of(), rules, List::of);
    }

    private static void assertUnavailable(Mono<WebEndpointResponse<?>> attempt, String why) {
        WebEndpointResponse<?> response = attempt.block(LONG);
        assertThat(response.getStatus()).isEqualTo(503);
        assertThat(response.getBody())
                .isInstanceOfSatisfying(
                        SpillgateEndpoint.Wrong.class,
                        wrong -> assertThat(wrong.message()).contains(why));
    }
}
