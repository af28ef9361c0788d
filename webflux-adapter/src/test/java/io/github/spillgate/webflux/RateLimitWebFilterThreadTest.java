package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** The handler runs on the event loop of the connection, whichever thread emits the key or the decision. */
class RateLimitWebFilterThreadTest {

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final StatefulRedisConnection<String, String> connection = client.connect();
    private final RateLimiter limiter = Limiters.local();

    @AfterEach
    void close() {
        limiter.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** The last lookup fails, because that key has no text. */
    @ParameterizedTest
    @ValueSource(strings = {"a-tenant", "no-such-tenant", "a-list"})
    void theHandlerRunsOnTheEventLoopAfterAKeyLookupInRedis(String key) {
        connection.sync().set("a-tenant", "x");
        connection.sync().lpush("a-list", "x");
        assertThat(threadOfHandler(match -> connection.reactive().get(key))).startsWith("reactor-http");
    }

    @Test
    void theHandlerRunsOnTheEventLoopAfterADecisionOfRedis() {
        try (Limiters limiters = Limiters.onRedis()) {
            String thread = threadOfHandler(limiters.rules(Limiters.address("address", 100)));
            assertThat(thread).startsWith("reactor-http");
        }
    }

    /** The first decisions on an event loop may be made before its connection is open. */
    @Test
    void aDecisionOfRedisIsEmittedOnTheEventLoopThatRequestedIt() {
        try (Limiters limiters = Limiters.onRedis();
                Service service = Service.start(
                        context -> context.registerBean(Acquiring.class, () -> new Acquiring(limiters.limiter())))) {
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> service.get("/acquire").body().equals("true"));
        }
    }

    @RestController
    static class Acquiring {

        private final RateLimiter limiter;

        Acquiring(RateLimiter limiter) {
            this.limiter = limiter;
        }

        @GetMapping("/acquire")
        Mono<String> acquire() {
            Thread requested = Thread.currentThread();
            return limiter.tryAcquire(Charge.of("user:42", Limit.perMinute(100_000)))
                    .map(decision -> String.valueOf(Thread.currentThread() == requested));
        }
    }

    @Test
    void functionsOfAShadowRuleRunOnTheEventLoop() {
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        Rule.Builder tried = Rule.named("tried")
                .key(match -> {
                    threads.add(Thread.currentThread().getName());
                    return Mono.just("k");
                })
                .limit(Limit.perMinute(100))
                .shadow(true);
        try (Limiters limiters = Limiters.onRedis()) {
            threadOfHandler(limiters.rules(Limiters.address("address", 100), tried));
        }
        assertThat(threads).hasSize(1).allMatch(name -> name.startsWith("reactor-http"));
    }

    /** What such a handler sends from another thread may leave the next request on its connection unread. */
    @Test
    void aUsageQueryOfAHandlerCompletesOnTheEventLoop() {
        try (Limiters limiters = Limiters.onRedis()) {
            Rules rules = limiters.rules(Limiters.address("address", 100));
            assertThat(answerOfHandler(rules, "/told")).startsWith("reactor-http");
            Rules failing = Rules.of(
                    limiter,
                    PathPatterns.ofSpring(),
                    List.of(Rule.named("failing")
                            .paths("/elsewhere")
                            .key(match ->
                                    Mono.delay(Duration.ofMillis(1)).then(Mono.error(new IllegalStateException())))
                            .limit(Limit.perMinute(100))
                            .build()));
            assertThat(answerOfHandler(failing, "/told")).startsWith("reactor-http");
        }
    }

    /** A handler may take long, and the thread that reads from Redis has more replies to read. */
    @Test
    void onAServletContainerNoHandlerRunsOnTheThreadThatReadsFromRedis() {
        try (Limiters limiters = Limiters.onRedis()) {
            Rules rules = limiters.rules(Limiters.address("address", 1_000));
            try (Service service = Service.startOnTomcat(context -> {
                Service.filter(context, rules);
                context.registerBean(Handler.class, () -> new Handler(rules));
            })) {
                for (int i = 0; i < 20; i++) {
                    assertThat(service.get("/thread").body()).doesNotStartWith("lettuce-");
                    assertThat(service.get("/told").body()).doesNotStartWith("lettuce-");
                }
            }
        }
    }

    private String threadOfHandler(KeySource key) {
        Rule rule = Rule.named("tenant")
                .key(key)
                .limit(Limit.perMinute(100))
                .timeout(Duration.ofSeconds(5))
                .whenMissing(WhenMissing.SKIP)
                .build();
        return threadOfHandler(Rules.of(limiter, PathPatterns.ofSpring(), List.of(rule)));
    }

    private static String threadOfHandler(Rules rules) {
        return answerOfHandler(rules, "/thread");
    }

    private static String answerOfHandler(Rules rules, String path) {
        try (Service service = Service.start(context -> {
            Service.filter(context, rules);
            context.registerBean(Handler.class, () -> new Handler(rules));
        })) {
            return service.get(path).body();
        }
    }

    @RestController
    static class Handler {

        private final Rules rules;

        Handler(Rules rules) {
            this.rules = rules;
        }

        @GetMapping("/thread")
        Mono<String> thread() {
            return Mono.just(Thread.currentThread().getName());
        }

        @GetMapping("/told")
        Mono<String> told(ServerWebExchange exchange) {
            return rules.peek(ExchangeRequest.of(exchange))
                    .map(decision -> Thread.currentThread().getName())
                    .onErrorResume(error ->
                            Mono.fromSupplier(() -> Thread.currentThread().getName()));
        }
    }
}
