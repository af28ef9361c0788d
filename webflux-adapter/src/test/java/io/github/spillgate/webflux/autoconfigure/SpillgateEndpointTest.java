package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.webflux.PathPatterns;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;
import reactor.core.publisher.Mono;

/** The endpoint {@code spillgate} without a store that decides. */
class SpillgateEndpointTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    @Test
    void withoutAStoreThatDecidesUsageAndResetAnswer503() {
        RedisStore nowhere = RedisStore.create(RedisStore.uri("redis://localhost:1"));
        RateLimiter limiter = RateLimiter.builder("endpoint")
                .store(nowhere)
                .fallback(Fallback.error())
                .limit(Limit.perMinute(5))
                .build();
        Rule login = Rule.named("login")
                .key(KeySource.constant("all"))
                .limit(Limit.perMinute(5))
                .build();
        SpillgateEndpoint endpoint = new SpillgateEndpoint(
                true, limiter, Rules.of(limiter, PathPatterns.ofSpring(), List.of(login)), List::of);
        for (Mono<WebEndpointResponse<?>> attempt :
                List.of(endpoint.usage("login", "all"), endpoint.reset("login", "all"))) {
            WebEndpointResponse<?> response = attempt.block(LONG);
            assertThat(response.getStatus()).isEqualTo(503);
            assertThat(response.getBody())
                    .isInstanceOfSatisfying(
                            SpillgateEndpoint.Wrong.class,
                            wrong -> assertThat(wrong.message()).contains("Redis"));
        }
        limiter.closeLater().then(nowhere.closeLater()).block(LONG);
    }
}
