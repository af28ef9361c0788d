package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleMatch;
import io.github.spillgate.http.RuleTracer;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.WrongSettingException;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.SingleThreadEventExecutor;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.cloud.gateway.event.RefreshRoutesEvent;
import org.springframework.cloud.gateway.event.RefreshRoutesResultEvent;
import org.springframework.cloud.gateway.filter.FilterDefinition;
import org.springframework.cloud.gateway.filter.GatewayFilterChain;
import org.springframework.cloud.gateway.filter.GlobalFilter;
import org.springframework.cloud.gateway.handler.predicate.PredicateDefinition;
import org.springframework.cloud.gateway.route.RouteDefinition;
import org.springframework.cloud.gateway.route.RouteDefinitionRepository;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.event.EventListener;
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
import reactor.netty.DisposableServer;
import reactor.netty.NettyInbound;
import reactor.netty.http.server.HttpServer;
import reactor.util.context.Context;

/**
 * What becomes of an exchange besides being allowed or denied: where it goes on, what a second try hears, what is told
 * of wrong settings, and of routes that change.
 */
class RateLimitWebFilterExchangeTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final Limiters redis = Limiters.onRedis();
    private final RateLimiter local =
            RateLimiter.builder("local").store(LocalStore.bounded(100)).build();
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

    @Test
    void aHandlerStaysOnTheSchedulerOfAnEarlierFilter() {
        start(
                Rules.of(
                        local,
                        PathPatterns.ofSpring(),
                        List.of(Limiters.address("address", 100).build())),
                (exchange, chain) -> chain.filter(exchange).subscribeOn(Schedulers.boundedElastic()));
        assertThat(service.get("/thread").body()).startsWith("boundedElastic");
    }

    @Test
    void aHandlerStaysOnTheSchedulerOfAnEarlierFilterWithRedis() {
        start(
                redis.rules(Limiters.address("address", 100)),
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
        Rules rules = Rules.of(
                redis.limiter(),
                PathPatterns.ofSpring(),
                List.of(Limiters.address("address", 1).build()),
                (match, outcome, decision, took) -> decided.incrementAndGet());
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
                (match, outcome, decision, took) -> heard.add(match.rule().name()));
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
            context.registerBean(
                    RateLimitWebFilter.class,
                    () -> RateLimitWebFilter.of(
                            redis.rules(Limiters.address("address", 100)),
                            Phase.BEFORE_AUTHENTICATION,
                            RateLimitResponses.standard()));
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

    @Test
    void aListenerThatThrowsEverywhereChangesNothing() {
        RuleListener listener = (match, outcome, decision, took) -> {
            throw new IllegalStateException("decided");
        };
        RuleTracer tracer = (matches, context) -> new ThrowingSpan();
        RuleInstrumentation throwing = RuleInstrumentation.none()
                .listener(listener)
                .listener(listener)
                .tracer(tracer)
                .tracer(tracer);
        start(
                Rules.of(
                        redis.limiter(),
                        PathPatterns.ofSpring(),
                        List.of(Limiters.address("address", 1).build()),
                        throwing),
                (exchange, chain) -> chain.filter(exchange));
        assertThat(service.get("/thread").statusCode()).isEqualTo(200);
        assertThat(service.get("/thread").statusCode()).isEqualTo(429);
    }

    // Rules.peek.

    @Test
    void theUsageOfManyRulesIsAvailable() {
        Rule.Builder[] many = Stream.iterate(0, i -> i + 1)
                .limit(17)
                .map(i -> Limiters.address("endpoint-" + i, 10).paths("/endpoint/" + i))
                .toArray(Rule.Builder[]::new);
        Rules rules = redis.rules(many);
        service = Service.start(context -> context.registerBean(Usage.class, () -> new Usage(rules)));
        HttpResponse<String> usage = service.get("/usage");
        assertThat(usage.statusCode()).isEqualTo(200);
        assertThat(usage.body()).isEqualTo("17");
    }

    // Settings.

    @ParameterizedTest
    @ValueSource(
            strings = {
                "redis://:pa55^word@localhost:6379",
                "redis://:pa%zz55word@localhost:6379",
                "redis://:first@pa55word@localhost:x",
                "redis:///:pa55word@localhost^",
                "redis:user:pa55word@localhost"
            })
    void startupErrorsHideThePasswordOfRedis(String uri) {
        runner().withPropertyValues("spillgate.redis.uri=" + uri).run(context -> {
            Throwable failure = context.getStartupFailure();
            assertThat(failure).isNotNull();
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            for (Throwable e = failure; e != null; e = e.getCause()) {
                if (e instanceof WrongSettingException wrong) {
                    assertThat(wrong.value() + " " + wrong.why()).doesNotContain("55word");
                }
            }
            assertThat(trace.toString()).contains("redis").doesNotContain("55word");
        });
    }

    @Test
    void aMissingLimitIsReportedForARuleWithAPhase() {
        runner().withPropertyValues(
                        "spillgate.store=local",
                        "spillgate.rules[0].name=login",
                        "spillgate.rules[0].phase=after-authentication")
                .run(context -> assertThat(wrong(context.getStartupFailure()).setting())
                        .isEqualTo("spillgate.rules[0].limits"));
    }

    @Test
    void aTooShortSecretIsReportedByItsSetting() {
        runner().withPropertyValues("spillgate.store=local", "spillgate.secret=short")
                .run(context ->
                        assertThat(wrong(context.getStartupFailure()).setting()).isEqualTo("spillgate.secret"));
    }

    @Test
    void clashingLimitNamesAreReportedByTheirSetting() {
        runner().withPropertyValues(
                        "spillgate.store=local",
                        "spillgate.rules[0].name=a",
                        "spillgate.rules[0].limits=1/1m name=b-1m",
                        "spillgate.rules[1].name=a-b",
                        "spillgate.rules[1].limits=1/1m")
                .run(context ->
                        assertThat(wrong(context.getStartupFailure()).setting()).startsWith("spillgate.rules"));
    }

    private static WrongSettingException wrong(Throwable failure) {
        assertThat(failure).isNotNull();
        Throwable e = failure;
        while (e != null && !(e instanceof WrongSettingException)) {
            e = e.getCause();
        }
        assertThat(e).as("%s", failure).isNotNull();
        return (WrongSettingException) e;
    }

    private static ReactiveWebApplicationContextRunner runner() {
        return new ReactiveWebApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        HttpHandlerAutoConfiguration.class,
                        WebFluxAutoConfiguration.class,
                        SpillgateAutoConfiguration.class));
    }

    // The gateway.

    @Test
    void aRouteKeepsItsLimitWhenARefreshFails() {
        try (Gateway gateway = Gateway.start()) {
            gateway.put("10/1h");
            assertThat(gateway.get("/changing").statusCode()).isEqualTo(200);
            gateway.put("10 per hour");
            HttpResponse<String> afterwards = gateway.get("/changing");
            assertThat(afterwards.statusCode()).isEqualTo(200);
            assertThat(afterwards.headers().firstValue("RateLimit-Policy")).isPresent();
        }
    }

    @Test
    void invalidGatewayPropertiesPreventTheStart() {
        assertThatThrownBy(() -> Gateway.start("spring.cloud.gateway.server.webflux.redis-rate-limiter.config"
                                + ".unconfigured.burst-capacity=5")
                        .close())
                .hasStackTraceContaining("replenishRate is 0");
    }

    record Gateway(ConfigurableApplicationContext context, DisposableServer downstream, HttpClient client)
            implements AutoCloseable {

        static Gateway start(String... more) {
            DisposableServer downstream = HttpServer.create()
                    .host("127.0.0.1")
                    .port(0)
                    .handle((request, response) -> response.sendString(Mono.just("served")))
                    .bindNow();
            List<String> properties = new ArrayList<>(List.of(
                    "--downstream=http://127.0.0.1:" + downstream.port(),
                    "--spring.config.name=gateway-service",
                    "--server.port=0",
                    "--server.address=127.0.0.1",
                    "--spillgate.deadline=20s",
                    "--spring.data.redis.url=" + RedisForTests.first().uri().toURI(),
                    "--spillgate.name=gateway-" + UUID.randomUUID().toString().substring(0, 8)));
            Stream.of(more).map(one -> "--" + one).forEach(properties::add);
            return new Gateway(
                    new SpringApplicationBuilder(GatewayRateLimiterTest.Application.class, Recording.class)
                            .run(properties.toArray(String[]::new)),
                    downstream,
                    HttpClient.newHttpClient());
        }

        /** Puts a route in place of the one before, and waits for the gateway to have looked at it. */
        void put(String limits) {
            FilterDefinition filter = new FilterDefinition();
            filter.setName("RequestRateLimiter");
            filter.setArgs(Map.of("rate-limiter", "#{@spillgateRateLimiter}", "spillgate-rate-limiter.limits", limits));
            RouteDefinition route = new RouteDefinition();
            route.setId("changing");
            route.setUri(URI.create("http://127.0.0.1:" + downstream.port()));
            route.setPredicates(List.of(new PredicateDefinition("Path=/changing")));
            route.setFilters(List.of(filter));
            context.getBean(RouteDefinitionRepository.class)
                    .save(Mono.just(route))
                    .block(LONG);
            int before = Recording.REFRESHED.get();
            context.publishEvent(new RefreshRoutesEvent(this));
            await().until(() -> Recording.REFRESHED.get() > before);
        }

        HttpResponse<String> get(String path) {
            URI uri =
                    URI.create("http://127.0.0.1:" + context.getEnvironment().getProperty("local.server.port") + path);
            try {
                return client.send(
                        HttpRequest.newBuilder(uri)
                                .timeout(LONG)
                                .header("X-User", "u")
                                .build(),
                        BodyHandlers.ofString());
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void close() {
            context.close();
            downstream.disposeNow(LONG);
        }
    }

    static class Recording implements GlobalFilter, Ordered {

        static final List<String> THREADS = new CopyOnWriteArrayList<>();
        static final AtomicInteger REFRESHED = new AtomicInteger();

        @Override
        public Mono<Void> filter(ServerWebExchange exchange, GatewayFilterChain chain) {
            THREADS.add(Thread.currentThread().getName());
            return chain.filter(exchange);
        }

        @Override
        public int getOrder() {
            return 100;
        }

        @EventListener
        void refreshed(RefreshRoutesResultEvent event) {
            REFRESHED.incrementAndGet();
        }
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
            context.registerBean(
                    RateLimitWebFilter.class,
                    () -> RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, responses));
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

    @RestController
    static class Usage {

        private final Rules rules;

        Usage(Rules rules) {
            this.rules = rules;
        }

        @GetMapping("/usage")
        Mono<String> usage(ServerWebExchange exchange) {
            return rules.peek(ExchangeRequest.of(exchange))
                    .map(decision -> Integer.toString(decision.limits().size()));
        }
    }

    private static final class ThrowingSpan implements RuleTracer.Span {

        @Override
        public void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took) {
            throw new AssertionError("decided");
        }

        @Override
        public Context context(Context context) {
            throw new IllegalStateException("context");
        }

        @Override
        public void ended() {
            throw new IllegalStateException("ended");
        }

        @Override
        public void cancelled() {
            throw new IllegalStateException("cancelled");
        }
    }
}
