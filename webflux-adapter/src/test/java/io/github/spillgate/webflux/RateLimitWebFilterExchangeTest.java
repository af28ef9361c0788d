package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.SingleThreadEventExecutor;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.core.Ordered;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.server.WebFilter;
import org.springframework.web.server.WebFilterChain;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.netty.NettyInbound;

/** What becomes of an exchange besides being allowed or denied: where it goes on, and what a second attempt gets. */
class RateLimitWebFilterExchangeTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final Limiters redis = Limiters.onRedis();
    private final RateLimiter local = Limiters.local();
    private final AtomicInteger handled = new AtomicInteger();
    private Service service;

    @AfterEach
    void close() {
        if (service != null) {
            service.close();
        }
        local.close();
        redis.close();
    }

    // Thread of the handler.

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aHandlerStaysOnTheSchedulerOfAnEarlierFilter(boolean isOnRedis) {
        start(
                Limiters.rules(isOnRedis ? redis.limiter() : local, Limiters.address("address", 100)),
                (exchange, chain) -> chain.filter(exchange).subscribeOn(Schedulers.boundedElastic()));
        assertThat(service.get("/thread").body()).startsWith("boundedElastic");
    }

    @Test
    void noSchedulerIsMadeForEachRequest() {
        AtomicInteger made = new AtomicInteger();
        start(redis.rules(Limiters.address("address", 1000)), (exchange, chain) -> chain.filter(exchange));
        service.get("/thread");
        Schedulers.addExecutorServiceDecorator("counting", (scheduler, executor) -> {
            made.incrementAndGet();
            return executor;
        });
        try {
            for (int i = 0; i < 50; i++) {
                assertThat(service.get("/thread").statusCode()).isEqualTo(200);
            }
        } finally {
            Schedulers.removeExecutorServiceDecorator("counting");
        }
        assertThat(made).hasValueLessThan(10);
    }

    @Test
    void aRetryAfterACancelledDenialIsDenied() {
        AtomicBoolean armed = new AtomicBoolean();
        AtomicInteger decided = new AtomicInteger();
        // Decides on another thread. A connection to Redis might be on the loop that is busy.
        RateLimiter limiter = RateLimiter.builder("elsewhere")
                .store(new ForwardingLimitStore(LocalStore.bounded(100)) {
                    @Override
                    public Mono<StoreDecision> take(StoreRequest request) {
                        return super.take(request).publishOn(Schedulers.parallel());
                    }
                })
                .build();
        Rules rules = Rules.of(
                limiter,
                PathPatterns.ofSpring(),
                List.of(Limiters.address("address", 1).build()),
                RuleInstrumentation.none().listener((match, outcome, decision, took) -> decided.incrementAndGet()));
        start(rules, (exchange, chain) -> {
            if (!armed.get()) {
                return chain.filter(exchange);
            }
            SingleThreadEventExecutor loop = (SingleThreadEventExecutor) loop(exchange);
            int before = decided.get();
            // What a timeout and a retry do on an event loop that is busy in the meantime.
            Disposable first = chain.filter(exchange).subscribe();
            long end = System.nanoTime() + LONG.toNanos();
            while ((decided.get() == before || loop.pendingTasks() == 0) && System.nanoTime() < end) {
                // The loop is busy; and a thread of it may not even wait.
            }
            first.dispose();
            return chain.filter(exchange);
        });
        assertThat(service.get("/thread").statusCode()).isEqualTo(200);
        armed.set(true);
        assertThat(service.get("/thread").statusCode()).isEqualTo(429);
        assertThat(handled).hasValue(1);
    }

    @Test
    void aRetryAfterAFailedDenialResponseIsDenied() {
        RateLimitResponses failing = RateLimitResponses.standard()
                .denials((exchange, problem) -> Mono.error(new IllegalStateException("the page is not there")));
        start(
                redis.rules(Limiters.address("address", 1)),
                failing,
                (exchange, chain) -> chain.filter(exchange).retry(1));
        assertThat(service.get("/thread").statusCode()).isEqualTo(200);
        assertThat(service.get("/thread").statusCode()).isNotEqualTo(200);
        assertThat(handled).hasValue(1);
    }

    @Test
    void aDeniedRequestIsNotHandledIfTheWriterOfDenialsReturnsNull() {
        start(
                redis.rules(Limiters.address("address", 1)),
                RateLimitResponses.standard().denials((exchange, problem) -> null),
                (exchange, chain) -> chain.filter(exchange));
        assertThat(service.get("/thread").statusCode()).isEqualTo(200);
        assertThat(service.get("/thread").statusCode()).isEqualTo(500);
        assertThat(handled).hasValue(1);
    }

    @Test
    void aShadowRuleIsEvaluatedIfTheFirstAttemptTimedOut() {
        List<String> heard = new CopyOnWriteArrayList<>();
        Sinks.Empty<Void> isAsked = Sinks.empty();
        Rules rules = Rules.of(
                local,
                PathPatterns.ofSpring(),
                List.of(
                        Rule.named("slow")
                                .key(match -> isAsked.tryEmitEmpty().isSuccess() ? Mono.never() : Mono.just("x"))
                                .timeout(LONG)
                                .limit(Limit.perMinute(10))
                                .build(),
                        Limiters.address("shadow", 10).shadow(true).build()),
                RuleInstrumentation.none()
                        .listener((match, outcome, decision, took) ->
                                heard.add(match.rule().name())));
        AtomicInteger attempts = new AtomicInteger();
        start(
                rules,
                (exchange, chain) -> chain.filter(exchange)
                        .timeout(Mono.defer(() -> attempts.incrementAndGet() == 1
                                ? isAsked.asMono().publishOn(Schedulers.parallel())
                                : Mono.never()))
                        .retry(1));
        assertThat(service.get("/thread").statusCode()).isEqualTo(200);
        assertThat(heard).containsExactlyInAnyOrder("slow", "shadow");
    }

    // Checks that held.

    @Test
    void mutatedAndDecoratedRequestsGoOnOnTheEventLoop() {
        start(
                redis.rules(Limiters.address("address", 100)),
                (exchange, chain) -> chain.filter(exchange.mutate()
                        .request(
                                new ServerHttpRequestDecorator(exchange.getRequest()
                                        .mutate()
                                        .header("x", "y")
                                        .build()) {})
                        .build()));
        assertThat(service.get("/thread").body()).startsWith("reactor-http");
    }

    @Test
    void theContextReachesTheHandler() {
        start(
                redis.rules(Limiters.address("address", 100)),
                (exchange, chain) -> chain.filter(exchange).contextWrite(context -> context.put("mdc", "kept")));
        assertThat(service.get("/context").body()).isEqualTo("kept");
    }

    @Test
    void http2RequestsContinueOnTheEventLoop() throws Exception {
        service = Service.startWithHttp2(context -> {
            Service.filter(context, redis.rules(Limiters.address("address", 100)));
            context.registerBean(Handlers.class, () -> new Handlers(handled));
        });
        HttpResponse<String> response = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_2)
                .build()
                .send(HttpRequest.newBuilder(service.uri("/thread")).build(), BodyHandlers.ofString());
        assertThat(response.version()).isEqualTo(HttpClient.Version.HTTP_2);
        assertThat(response.body()).startsWith("reactor-http");
        assertThat(response.headers().firstValue("RateLimit")).isPresent();
    }

    // Fixtures.

    private static EventLoop loop(ServerWebExchange exchange) {
        EventLoop[] found = new EventLoop[1];
        NettyInbound inbound = ServerHttpRequestDecorator.getNativeRequest(exchange.getRequest());
        inbound.withConnection(connection -> found[0] = connection.channel().eventLoop());
        return found[0];
    }

    private void start(Rules rules, WebFilter outer) {
        start(rules, RateLimitResponses.standard(), outer);
    }

    private void start(Rules rules, RateLimitResponses responses, WebFilter outer) {
        service = Service.start(context -> {
            context.registerBean(Outer.class, () -> new Outer(outer));
            Service.filter(context, responses, rules);
            context.registerBean(Handlers.class, () -> new Handlers(handled));
        });
    }

    record Outer(WebFilter filter) implements WebFilter, Ordered {

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, WebFilterChain chain) {
            return filter.filter(exchange, chain);
        }

        @Override
        public int getOrder() {
            return -200;
        }
    }

    @RestController
    static class Handlers {

        private final AtomicInteger handled;

        Handlers(AtomicInteger handled) {
            this.handled = handled;
        }

        @GetMapping("/thread")
        Mono<String> thread() {
            handled.incrementAndGet();
            return Mono.just(Thread.currentThread().getName());
        }

        @GetMapping("/context")
        Mono<String> context() {
            return Mono.deferContextual(context -> Mono.just(context.getOrDefault("mdc", "lost")));
        }
    }
}
