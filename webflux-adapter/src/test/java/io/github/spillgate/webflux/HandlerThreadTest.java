package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** A key that is looked up in Redis does not bring the handler to the thread that reads from it. */
class HandlerThreadTest {

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final StatefulRedisConnection<String, String> connection = client.connect();
    private final RateLimiter limiter =
            RateLimiter.builder("local").store(LocalStore.bounded(100)).build();

    @AfterEach
    void close() {
        limiter.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void aKeyThatIsThereDoesNot() {
        connection.sync().set("tenant-of-x", "x");
        assertThat(threadOfHandler(match -> connection.reactive().get("tenant-of-x")))
                .doesNotContain("lettuce");
    }

    @Test
    void aKeyThatIsMissingDoesNot() {
        assertThat(threadOfHandler(match -> connection.reactive().get("no-such-tenant")))
                .doesNotContain("lettuce");
    }

    @Test
    void aLookupThatFailsDoesNot() {
        connection.sync().lpush("a-list", "x");
        assertThat(threadOfHandler(match -> connection.reactive().get("a-list")))
                .doesNotContain("lettuce");
    }

    private String threadOfHandler(KeySource key) {
        Rule rule = Rule.named("tenant")
                .key(key)
                .limit(Limit.perMinute(100))
                .timeout(Duration.ofSeconds(5))
                .whenMissing(WhenMissing.SKIP)
                .build();
        Rules rules = Rules.of(limiter, PathPatterns.ofSpring(), List.of(rule));
        try (Service service = Service.start(context -> {
            context.registerBean(
                    RateLimitWebFilter.class,
                    () -> RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, RateLimitResponses.standard()));
            context.registerBean(Handler.class);
        })) {
            return service.get("/thread").body();
        }
    }

    @RestController
    static class Handler {

        @GetMapping("/thread")
        Mono<String> thread() {
            return Mono.just(Thread.currentThread().getName());
        }
    }
}
