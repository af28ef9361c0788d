package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreRefusedException;
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
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;
import reactor.core.publisher.Mono;

/** The endpoint {@code spillgate} if a store fails. */
class SpillgateEndpointTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    @Test
    void withoutAStoreThatDecidesUsageAndResetAnswer503() {
        RedisStore nowhere = RedisStore.create(RedisStore.uri("redis://localhost:1"));
        try (RateLimiter limiter = limiter(nowhere, Fallback.error())) {
            SpillgateEndpoint endpoint = endpoint(limiter);
            assertUnavailable(endpoint.usage("login", "all"), "Redis");
            assertUnavailable(endpoint.reset("login", "all"), "Redis");
        }
        nowhere.closeLater().block(LONG);
    }

    @Test
    void aResetThatTheStoreRefusesAnswers503() {
        LimitStore refusing = new WithoutDeadline(LocalStore.bounded(16)) {
            @Override
            public Mono<Void> reset(List<Claim> claims) {
                return Mono.error(new LimitStoreRefusedException("expected the right +del", null));
            }
        };
        try (RateLimiter limiter = limiter(refusing, Fallback.local(16))) {
            SpillgateEndpoint endpoint = endpoint(limiter);
            assertUnavailable(endpoint.reset("login", "all"), "expected the right +del");
            assertThat(endpoint.usage("login", "all").block(LONG).getStatus()).isEqualTo(200);
        }
    }

    private static RateLimiter limiter(LimitStore store, LimitStore fallback) {
        return RateLimiter.builder("endpoint")
                .store(store)
                .fallback(fallback)
                .limit(Limit.perMinute(5))
                .build();
    }

    private static SpillgateEndpoint endpoint(RateLimiter limiter) {
        Rule login = Rule.named("login")
                .key(KeySource.constant("all"))
                .limit(Limit.perMinute(5))
                .build();
        Rules rules = Rules.of(limiter, PathPatterns.ofSpring(), List.of(login));
        return new SpillgateEndpoint(true, limiter, rules, List::of);
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
