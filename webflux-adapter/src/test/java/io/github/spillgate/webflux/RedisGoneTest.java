package io.github.spillgate.webflux;

import static io.github.spillgate.webflux.Limiters.address;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Source;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.testkit.RedisForTests;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** Redis is killed and comes back while requests do not pause: no client sees an error, or waits for long. */
class RedisGoneTest {

    private static final int CLIENTS = 16;
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    /** Many times the limiter's deadline of half a second: a machine may have something else to do. */
    private static final Duration LONGEST = Duration.ofSeconds(10);

    private final AtomicBoolean stopping = new AtomicBoolean();
    private final AtomicInteger open = new AtomicInteger();
    private final AtomicLong longest = new AtomicLong();
    private final Map<String, AtomicInteger> answers = new ConcurrentHashMap<>();
    private final Queue<Object> wrong = new ConcurrentLinkedQueue<>();

    @Test
    void noClientNotices() {
        try (RedisForTests redis = RedisForTests.startOwn();
                Limiters limiters = Limiters.on(redis);
                Service service = Service.start(context -> {
                    context.registerBean(
                            RateLimitWebFilter.class,
                            () -> RateLimitWebFilter.of(
                                    limiters.rules(address("address", 1_000_000)),
                                    Phase.BEFORE_AUTHENTICATION,
                                    RateLimitResponses.standard()));
                    context.registerBean(Handler.class);
                })) {
            for (int i = 0; i < CLIENTS; i++) {
                open.incrementAndGet();
                next(service);
            }
            awaitMore("REDIS", 300);
            redis.kill();
            awaitMore("LOCAL", 300);
            redis.restart();
            awaitMore("REDIS", 300);
            stopping.set(true);
            await().atMost(PATIENCE).until(() -> open.get() == 0);
        }
        assertThat(wrong).isEmpty();
        assertThat(Duration.ofNanos(longest.get())).isLessThan(LONGEST);
    }

    private void next(Service service) {
        if (stopping.get()) {
            open.decrementAndGet();
            return;
        }
        long asked = System.nanoTime();
        Object unused = service.sendLater(service.request("/source").GET()).whenComplete((response, error) -> {
            longest.accumulateAndGet(System.nanoTime() - asked, Math::max);
            note(response, error);
            next(service);
        });
    }

    private void note(HttpResponse<String> response, Throwable error) {
        if (error != null) {
            wrong.add(error);
        } else if (response.statusCode() != 200 && response.statusCode() != 429) {
            wrong.add(response);
        } else {
            String source = response.headers().firstValue("X-Source").orElse("?");
            answers.computeIfAbsent(source, key -> new AtomicInteger()).incrementAndGet();
        }
    }

    private void awaitMore(String source, int requests) {
        AtomicInteger seen = answers.computeIfAbsent(source, key -> new AtomicInteger());
        int before = seen.get();
        await().atMost(PATIENCE).pollInterval(Duration.ofMillis(10)).until(() -> seen.get() >= before + requests);
    }

    @RestController
    static class Handler {

        @GetMapping("/source")
        Mono<String> source(ServerWebExchange exchange) {
            Source source = RateLimitResponses.decisions(exchange).get(0).source();
            exchange.getResponse().getHeaders().set("X-Source", source.name());
            return Mono.just("hello");
        }
    }
}
