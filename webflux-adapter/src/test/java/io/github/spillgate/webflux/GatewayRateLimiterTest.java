package io.github.spillgate.webflux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.gateway.event.RefreshRoutesEvent;
import org.springframework.cloud.gateway.event.RefreshRoutesResultEvent;
import org.springframework.cloud.gateway.filter.FilterDefinition;
import org.springframework.cloud.gateway.filter.factory.RequestRateLimiterGatewayFilterFactory;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.handler.predicate.PredicateDefinition;
import org.springframework.cloud.gateway.route.RouteDefinition;
import org.springframework.cloud.gateway.route.RouteDefinitionRepository;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.cloud.gateway.route.builder.RouteLocatorBuilder;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.event.ContextRefreshedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.core.env.Environment;
import org.springframework.data.redis.connection.ReactiveRedisConnectionFactory;
import org.springframework.data.redis.core.script.RedisScript;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** Spring Cloud Gateway before a real service, on a real Redis: its own limiter, and ours in its place. */
class GatewayRateLimiterTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final String ROUTES = "spring.cloud.gateway.server.webflux.routes[0].";
    private static final AtomicInteger SERVED = new AtomicInteger();

    private static DisposableServer downstream;
    private static App app;

    private final String user = UUID.randomUUID().toString();

    @BeforeAll
    static void start() {
        downstream = HttpServer.create()
                .host("127.0.0.1")
                .port(0)
                .handle((request, response) -> {
                    SERVED.incrementAndGet();
                    return response.sendString(Mono.just("served"));
                })
                .bindNow();
        app = App.start();
        app.awaitRedis();
    }

    @AfterAll
    static void stop() {
        app.close();
        downstream.disposeNow(LONG);
    }

    @Test
    void theFirstBurstEqualsThatOfTheGatewayLimiter() {
        List<HttpResponse<String>> theirs =
                Stream.generate(() -> app.get("/theirs", user)).limit(5).toList();
        List<HttpResponse<String>> ours =
                Stream.generate(() -> app.get("/ours", user)).limit(5).toList();
        assertThat(theirs).extracting(HttpResponse::statusCode).containsExactly(200, 200, 200, 429, 429);
        assertThat(ours).extracting(HttpResponse::statusCode).containsExactly(200, 200, 200, 429, 429);
        for (String field :
                List.of("X-RateLimit-Replenish-Rate", "X-RateLimit-Burst-Capacity", "X-RateLimit-Requested-Tokens")) {
            assertThat(ours.get(0).headers().allValues(field))
                    .hasSize(1)
                    .isEqualTo(theirs.get(0).headers().allValues(field));
        }
        // A token returns each second.
        for (int i = 0; i < ours.size(); i++) {
            assertThat(ours.get(i)
                            .headers()
                            .firstValueAsLong("X-RateLimit-Remaining")
                            .orElseThrow())
                    .isBetween(Math.max(600, 2_600 - 1_000L * i), Math.max(600, 2_600 - 1_000L * i) + 60);
        }
    }

    @Test
    void aDenialHasARetryAfterAndDoesNotReachTheService() {
        app.get("/limits", user);
        HttpResponse<String> allowed = app.get("/limits", user);
        assertThat(allowed.body()).isEqualTo("served");
        assertThat(allowed.headers().allValues("RateLimit-Policy"))
                .containsExactly("\"gateway-limits-1h\";q=2;w=3600, \"gateway-limits-24h\";q=30;w=86400");
        assertThat(allowed.headers().firstValue("RateLimit").orElseThrow())
                .contains("\"gateway-limits-1h\";r=0;")
                .contains("\"gateway-limits-24h\";r=28;");
        assertThat(allowed.headers().allValues("X-RateLimit-Limit")).containsExactly("2");
        assertThat(allowed.headers().firstValue("Retry-After")).isEmpty();
        // There is no rate that could be told.
        assertThat(allowed.headers().firstValue("X-RateLimit-Replenish-Rate")).isEmpty();

        int served = SERVED.get();
        HttpResponse<String> denied = app.get("/limits", user);
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValueAsLong("Retry-After").orElseThrow())
                .isBetween(3500L, 3601L);
        assertThat(denied.headers().allValues("Cache-Control")).contains("no-store");
        assertThat(SERVED).hasValue(served);
    }

    @Test
    void ratesBelowOnePerSecondUseTokensPerRequest() {
        HttpResponse<String> first = app.get("/minute", user);
        assertThat(first.statusCode()).isEqualTo(200);
        assertThat(first.headers().allValues("RateLimit-Policy"))
                .containsExactly("\"gateway-one_a_minute-1s\";q=60;w=60");
        HttpResponse<String> second = app.get("/minute", user);
        assertThat(second.statusCode()).isEqualTo(429);
        assertThat(second.headers().firstValueAsLong("Retry-After").orElseThrow())
                .isBetween(1L, 61L);
    }

    @Test
    void routesAndKeysHaveSeparateCounts() {
        assertThat(app.get("/a", ":" + user).statusCode()).isEqualTo(200);
        assertThat(app.get("/a-colon", user).statusCode()).isEqualTo(200);
        assertThat(app.get("/a-underscore", user).statusCode()).isEqualTo(200);
        assertThat(app.get("/a-colon", ":" + user).statusCode()).isEqualTo(200);
        assertThat(app.get("/a-underscore", ":" + user).statusCode()).isEqualTo(200);
        assertThat(app.get("/a", user).statusCode()).isEqualTo(200);
        assertThat(app.get("/a", user).statusCode()).isEqualTo(429);
        assertThat(app.get("/a", "").statusCode()).isEqualTo(200);
        assertThat(app.get("/a", "").statusCode()).isEqualTo(429);
    }

    @Test
    void anEmptyBucketDeniesAll() {
        assertThat(app.get("/closed", user).statusCode()).isEqualTo(429);
    }

    @Test
    void aRouteWithoutTheFilterIsNotLimited() {
        HttpResponse<String> open = app.get("/open", user);
        assertThat(open.statusCode()).isEqualTo(200);
        assertThat(open.headers().firstValue("RateLimit")).isEmpty();
    }

    @Test
    void routesWrittenInJavaAreLimited() {
        assertThat(app.get("/java", user).statusCode()).isEqualTo(200);
        assertThat(app.get("/java", user).statusCode()).isEqualTo(429);
    }

    @Test
    void aRouteWithoutConfigurationIsAnError() {
        assertThat(app.get("/unconfigured", user).statusCode()).isEqualTo(500);
        Mono<?> decision = app.context.getBean(GatewayRateLimiter.class).isAllowed("unconfigured", user);
        assertThatThrownBy(() -> decision.block(LONG))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("rate limiter of route unconfigured")
                .hasMessageContaining("spillgate-rate-limiter.limits: 10/s, 3000/10m");
    }

    @Test
    void theGatewayLimiterStaysTheDefaultIfPresent() {
        assertThat(defaultOf(app)).isInstanceOf(RedisRateLimiter.class);
        try (App alone = App.start(
                "spring.config.name=none",
                "spring.cloud.gateway.server.webflux.redis.enabled=false",
                ROUTES + "id=alone",
                ROUTES + "uri=" + App.downstream(),
                ROUTES + "predicates=Path=/alone",
                ROUTES + "filters[0].name=RequestRateLimiter",
                ROUTES + "filters[0].args.redis-rate-limiter.replenishRate=1")) {
            assertThat(defaultOf(alone)).isInstanceOf(GatewayRateLimiter.class);
            assertThat(alone.get("/alone", user).headers().allValues("RateLimit-Policy"))
                    .containsExactly("\"gateway-alone-1s\";q=1;w=1");
        }
    }

    private static Object defaultOf(App app) {
        return app.context.getBean(RequestRateLimiterGatewayFilterFactory.class).getDefaultRateLimiter();
    }

    @Test
    void thePropertiesOfTheGatewaysLimiterHold() {
        String properties = "spring.cloud.gateway.server.webflux.redis-rate-limiter.";
        try (App renamed = App.start(
                properties + "remaining-header=Tokens-Left",
                properties + "config.defaultFilters.replenish-rate=1",
                properties + "config.defaultFilters.burst-capacity=3600")) {
            HttpResponse<String> response = renamed.get("/unconfigured", user);
            assertThat(response.headers().allValues("Tokens-Left")).containsExactly("3599");
            assertThat(response.headers().allValues("RateLimit-Policy"))
                    .containsExactly("\"gateway-unconfigured-1s\";q=3600;w=3600");
        }
        try (App silent = App.start(properties + "include-headers=false", "spillgate.headers.x-rate-limit=false")) {
            HttpResponse<String> response = silent.get("/ours", user);
            assertThat(response.statusCode()).isEqualTo(200);
            assertThat(response.headers().map().keySet()).noneMatch(name -> name.startsWith("X-RateLimit"));
            assertThat(response.headers().firstValue("RateLimit")).isPresent();
        }
    }

    @Test
    void theSettingAppliesToUndecidedRequests() {
        String unreachable = "spring.data.redis.url=redis://127.0.0.1:1";
        try (App undecided = App.start(unreachable, "spillgate.fallback=error")) {
            for (int i = 0; i < 3; i++) {
                HttpResponse<String> response = undecided.get("/limits", user);
                assertThat(response.statusCode()).isEqualTo(200);
                assertThat(response.headers().allValues("X-RateLimit-Remaining"))
                        .containsExactly("-1");
            }
            assertThat(undecided.get("/strict", user).statusCode()).isEqualTo(429);
        }
        try (App denying = App.start(unreachable, "spillgate.fallback=deny")) {
            HttpResponse<String> response = denying.get("/limits", user);
            assertThat(response.statusCode()).isEqualTo(429);
            assertThat(response.headers().firstValue("Retry-After")).hasValue("1");
        }
    }

    @Test
    void theCauseOfUndecidedRequestsIsLoggedOnceAMinuteForEachRoute() {
        LimitStore broken = new Unprotected(LocalStore.bounded(100)) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                return Mono.error(new IllegalStateException("a\r\nWARN b\u001b[2K\u2028" + "x".repeat(1_000)));
            }
        };
        try (VirtualTime time = new VirtualTime();
                LogForTests log = LogForTests.listen();
                RateLimiter limiter =
                        RateLimiter.builder("gateway").store(broken).build()) {
            GatewayRateLimiter gateway = GatewayRateLimiter.of(
                    limiter,
                    RateLimitResponses.standard(),
                    GatewayRateLimiter.Fields.standard(),
                    new ConfigurationService(null, () -> null, () -> null));
            gateway.configure(Map.of(
                    "open", gateway.newConfig().setLimits("10/s"),
                    "a\nb", gateway.newConfig().setLimits("10/s").setWhenUndecided(WhenUndecided.DENY)));
            for (int i = 0; i < 3; i++) {
                assertThat(gateway.isAllowed("open", user).block(LONG).isAllowed())
                        .isTrue();
                assertThat(gateway.isAllowed("a\nb", user).block(LONG).isAllowed())
                        .isFalse();
            }
            assertThat(log.lines("could not be decided"))
                    .hasSize(2)
                    .allSatisfy(line -> assertThat(line)
                            .contains("IllegalStateException: a\\u000d\\u000aWARN b\\u001b[2K\\u2028xxx")
                            .hasSizeLessThan(400));
            assertThat(log.lines("route open could").get(0))
                    .endsWith("; it lets such requests through (when-undecided: allow)");
            assertThat(log.lines("route a\\u000ab could").get(0))
                    .endsWith("; such requests are denied (when-undecided: deny)");
            time.pass(Duration.ofMinutes(1));
            gateway.isAllowed("open", user).block(LONG);
            assertThat(log.lines("could not be decided")).hasSize(3);
            assertThat(log.lines("x".repeat(300))).isEmpty();
        }
    }

    @Test
    void aDisabledLimiterAllowsEveryRequest() {
        try (App off = App.start("spillgate.enabled=false")) {
            for (int i = 0; i < 3; i++) {
                assertThat(off.get("/minute", user).statusCode()).isEqualTo(200);
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "spillgate-rate-limiter.limits=often | limit \"often\" cannot be read",
                "spillgate-rate-limiter.limits=10/s, 20/s | would share its count",
                "spillgate-rate-limiter.when-undecided=perhaps | spillgate-rate-limiter.when-undecided cannot be read",
                "redis-rate-limiter.replenishRate=0 | replenishRate is 0: expected at least 1",
                "redis-rate-limiter.replenishRate=many | redis-rate-limiter.replenish-rate cannot be read as int, but "
                        + "was \"many\""
            })
    void invalidArgumentsPreventTheStart(String argument, String told) {
        String args = ROUTES + "filters[0].args.";
        assertThatThrownBy(() -> App.start(
                                "spring.config.name=none",
                                "spring.cloud.gateway.server.webflux.redis.enabled=false",
                                ROUTES + "id=wrong",
                                ROUTES + "uri=" + App.downstream(),
                                ROUTES + "predicates=Path=/wrong",
                                ROUTES + "filters[0].name=RequestRateLimiter",
                                args + argument)
                        .close())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("rate limiter of route wrong: ")
                .hasMessageContaining(told)
                .hasMessageContaining("for example");
    }

    @Test
    void aRouteKeepsItsLimitWhenARefreshFails() {
        try (App changing = App.start("spillgate.deadline=20s")) {
            changing.put("10/1h");
            assertThat(changing.get("/changing", user).statusCode()).isEqualTo(200);
            changing.put("10 per hour");
            HttpResponse<String> afterwards = changing.get("/changing", user);
            assertThat(afterwards.statusCode()).isEqualTo(200);
            assertThat(afterwards.headers().firstValue("RateLimit-Policy")).isPresent();
        }
    }

    @Test
    void invalidPropertiesPreventTheStart() {
        assertThatThrownBy(() -> App.start("spring.cloud.gateway.server.webflux.redis-rate-limiter.config"
                                + ".unconfigured.burst-capacity=5")
                        .close())
                .hasStackTraceContaining("replenishRate is 0");
    }

    /** A gateway that runs, and a client of it. */
    private record App(ConfigurableApplicationContext context, ClientForTests client) implements AutoCloseable {

        static App start(String... properties) {
            SpringApplicationBuilder application = new SpringApplicationBuilder(Application.class)
                    .properties(
                            "spring.config.name=gateway-service",
                            "server.port=0",
                            "server.address=127.0.0.1",
                            "downstream=" + downstream(),
                            "spring.data.redis.url="
                                    + RedisForTests.first().uri().toURI(),
                            "spillgate.name=gateway-"
                                    + UUID.randomUUID().toString().substring(0, 8));
            ConfigurableApplicationContext context = application.run(
                    Stream.of(properties).map(property -> "--" + property).toArray(String[]::new));
            return new App(context, BootForTests.client(context));
        }

        static String downstream() {
            return "http://127.0.0.1:" + downstream.port();
        }

        /**
         * The gateway's limiter blocks where it has to read its script.
         */
        void awaitRedis() {
            RedisScript<?> script = context.getBean(RedisRateLimiter.REDIS_SCRIPT_NAME, RedisScript.class);
            script.getSha1();
            context.getBean(ReactiveRedisConnectionFactory.class)
                    .getReactiveConnection()
                    .scriptingCommands()
                    .scriptLoad(StandardCharsets.UTF_8.encode(script.getScriptAsString()))
                    .block(LONG);
            LimiterForTests.awaitReady(context.getBean(RateLimiter.class));
        }

        /** Replaces a route, and waits until the gateway has read it. */
        void put(String limits) {
            FilterDefinition filter = new FilterDefinition();
            filter.setName("RequestRateLimiter");
            filter.setArgs(Map.of("rate-limiter", "#{@spillgateRateLimiter}", "spillgate-rate-limiter.limits", limits));
            RouteDefinition route = new RouteDefinition();
            route.setId("changing");
            route.setUri(URI.create(downstream()));
            route.setPredicates(List.of(new PredicateDefinition("Path=/changing")));
            route.setFilters(List.of(filter));
            context.getBean(RouteDefinitionRepository.class)
                    .save(Mono.just(route))
                    .block(LONG);
            int before = Application.REFRESHES.get();
            context.publishEvent(new RefreshRoutesEvent(this));
            await().until(() -> Application.REFRESHES.get() > before);
        }

        HttpResponse<String> get(String path, String user) {
            return client.get(path, "X-User", user);
        }

        @Override
        public void close() {
            context.close();
        }
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import(BootForTests.class)
    static class Application {

        static final AtomicInteger REFRESHES = new AtomicInteger();

        @EventListener
        void refreshed(RefreshRoutesResultEvent event) {
            REFRESHES.incrementAndGet();
        }

        @Bean
        KeyResolver user() {
            return exchange ->
                    Mono.justOrEmpty(exchange.getRequest().getHeaders().getFirst("X-User"));
        }

        /**
         * As the listener of the gateway's starter, which needs more of Spring Cloud, looks for routes at the start.
         */
        @EventListener
        void refreshed(ContextRefreshedEvent event) {
            event.getApplicationContext().publishEvent(new RefreshRoutesEvent(this));
        }

        @Bean
        RouteLocator inJava(RouteLocatorBuilder routes, GatewayRateLimiter limiter, Environment environment) {
            return routes.routes()
                    .route(
                            "java",
                            route -> route.path("/java")
                                    .filters(filters -> filters.requestRateLimiter()
                                            .rateLimiter(GatewayRateLimiter.class, config -> config.setLimits("1/1h"))
                                            .configure(config -> config.setRateLimiter(limiter)))
                                    .uri(environment.getRequiredProperty("downstream")))
                    .build();
        }
    }
}
