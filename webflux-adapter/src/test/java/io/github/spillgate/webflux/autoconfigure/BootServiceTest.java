package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.BootForTests;
import io.github.spillgate.webflux.ExchangeRequest;
import io.github.spillgate.webflux.RateLimitResponses;
import io.github.spillgate.webflux.RateLimited;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpoint;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/** A Boot application that is set up in YAML, as users start theirs, on a real server and a real Redis. */
@ExtendWith(OutputCaptureExtension.class)
class BootServiceTest {

    private static final String ANNOTATED = "BootServiceTest.Handlers.annotated";

    private static ConfigurableApplicationContext context;

    private final ClientForTests client = BootForTests.client(context);

    /** Each test has API keys of its own; only the counts of the address are reset. */
    private final String freeKey = "free-" + UUID.randomUUID();

    private final String proKey = "pro-" + UUID.randomUUID();

    @BeforeAll
    static void start() {
        context = application()
                .run(
                        "--management.endpoint.spillgate.access=unrestricted",
                        "--spring.data.redis.url=" + RedisForTests.first().uri().toURI(),
                        "--spillgate.name=boot-" + UUID.randomUUID().toString().substring(0, 8));
        LimiterForTests.awaitReady(context.getBean(RateLimiter.class));
    }

    @BeforeEach
    void resetAddress() {
        SpillgateEndpoint endpoint = context.getBean(SpillgateEndpoint.class);
        for (String rule : List.of("address", ANNOTATED, "shared")) {
            endpoint.reset(rule, "127.0.0.1", null).block();
        }
    }

    @AfterAll
    static void close() {
        context.close();
    }

    @Test
    void addressPlanAndEndpointAreOneVerdict() {
        HttpResponse<String> first = post("/v1/validate", freeKey);
        assertThat(first.statusCode()).isEqualTo(200);
        assertThat(first.headers().firstValue("RateLimit-Policy").orElseThrow())
                .isEqualTo("\"address-1m\";q=120;w=60, \"plan-24h\";q=100;w=86400, \"validate-1m\";q=30;w=60");
        assertThat(first.headers().firstValue("X-RateLimit-Remaining")).hasValue("25");
        for (int i = 0; i < 5; i++) {
            assertThat(post("/v1/validate", freeKey).statusCode()).isEqualTo(200);
        }
        HttpResponse<String> denied = post("/v1/validate", freeKey);
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("[\"validate-1m\"]");
        // What was denied was charged nowhere.
        assertThat(get("/v1/usage", freeKey).body()).isEqualTo("address-1m: 6, plan-24h: 30");
    }

    @Test
    void theUsageIncludesRulesForOtherPaths() {
        assertThat(post("/v1/validate", proKey).statusCode()).isEqualTo(200);
        for (int i = 0; i < 2; i++) {
            assertThat(get("/left", proKey).body())
                    .isEqualTo("address-1m: 119/120, plan-24h: 9995/10000, validate-1m: 25/30");
        }
    }

    @Test
    void aPlanHasItsOwnLimits() {
        assertThat(post("/v1/validate", proKey)
                        .headers()
                        .firstValue("RateLimit-Policy")
                        .orElseThrow())
                .contains("\"plan-24h\";q=10000;w=86400");
    }

    @Test
    void healthIsNotLimitedAndAnnotationsAre() {
        assertThat(get("/health", "x").headers().firstValue("RateLimit")).isEmpty();
        assertThat(get("/v1/annotated", "x").statusCode()).isEqualTo(200);
        HttpResponse<String> denied = get("/v1/annotated", "x");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.headers().firstValue("RateLimit-Policy").orElseThrow())
                .contains("\"address-1m\"")
                .contains("\"BootServiceTest.Handlers.annotated-1m\";q=1;w=60");
    }

    @Test
    void theEndpointReportsAndResetsUsage() {
        assertThat(get("/actuator/spillgate", "x").body())
                .contains("\"source\":\"REDIS\"")
                .contains("\"name\":\"validate\"")
                .contains("\"limits\":[\"120/1m name=address-1m\"]")
                .contains("\"key\":\"hashed(header:X-Api-Key)\",\"limits\":[\"100/24h counter name=plan-24h\"],"
                        + "\"limitsFrom\":\"plans\",\"cost\":1,\"costFrom\":\"costs\"");
        post("/v1/validate", freeKey);
        String ofMe = "/actuator/spillgate/address?key=127.0.0.1";
        assertThat(get(ofMe, "x").body()).contains("\"limit\":\"120/1m name=address-1m\",\"used\":1,\"remaining\":119");
        assertThat(delete(ofMe).statusCode()).isEqualTo(204);
        assertThat(get(ofMe, "x").body()).contains("\"used\":0,\"remaining\":120");
    }

    @Test
    void theEndpointOnlyReadsUnlessItsAccessIsUnrestricted() {
        String reset = "/actuator/spillgate/address?key=127.0.0.1";
        try (ConfigurableApplicationContext byDefault = application().run("--spillgate.store=local")) {
            ClientForTests operator = BootForTests.client(byDefault);
            assertThat(operator.get(reset).statusCode()).isEqualTo(200);
            assertThat(operator.send(operator.request(reset).DELETE()).statusCode())
                    .isEqualTo(405);
        }
        assertThat(delete(reset).statusCode()).isEqualTo(204);
    }

    @Test
    void anEndpointKnowsTheRulesOfAnnotations() {
        assertThat(get("/actuator/spillgate", "x").body())
                .containsOnlyOnce("\"name\":\"" + ANNOTATED + "\"")
                .contains("\"limits\":[\"1/1m name=" + ANNOTATED + "-1m\"]")
                .contains("\"shadow\":false,\"annotation\":true");
        get("/v1/annotated", "x");
        String ofMe = "/actuator/spillgate/" + ANNOTATED + "?key=127.0.0.1";
        assertThat(get(ofMe, "x").body()).contains("\"used\":1,\"remaining\":0");
        assertThat(delete(ofMe).statusCode()).isEqualTo(204);
        assertThat(get("/v1/annotated", "x").statusCode()).isEqualTo(200);
    }

    @Test
    void anEndpointResetsAllLimitsOfOneName() {
        for (String path : List.of("/v1/shared-log", "/v1/shared-counter")) {
            assertThat(get(path, "x").statusCode()).as(path).isEqualTo(200);
            assertThat(get(path, "x").statusCode()).as(path).isEqualTo(429);
        }
        String ofMe = "/actuator/spillgate/shared?key=127.0.0.1";
        assertThat(get(ofMe, "x").body().split("\"used\":1", -1)).hasSize(3);
        assertThat(delete(ofMe).statusCode()).isEqualTo(204);
        for (String path : List.of("/v1/shared-log", "/v1/shared-counter")) {
            assertThat(get(path, "x").statusCode()).as(path).isEqualTo(200);
        }
    }

    @Test
    void theEndpointRejectsInvalidRequests() {
        for (HttpResponse<String> unknown :
                List.of(get("/actuator/spillgate/validat?key=x", "x"), delete("/actuator/spillgate/validat?key=x"))) {
            assertThat(unknown.statusCode()).isEqualTo(404);
            assertThat(unknown.body())
                    .isEqualTo("{\"message\":\"no rule has this name: did you mean validate? Expected one of address, "
                            + "plan,"
                            + " validate, BootServiceTest.Handlers.annotated, shared\"}");
        }
        for (String query : List.of("", "?key=")) {
            HttpResponse<String> keyless = get("/actuator/spillgate/address" + query, "x");
            assertThat(keyless.statusCode()).isEqualTo(400);
            assertThat(keyless.body())
                    .contains("the parameter key is missing: expected the key as it is stored, for example"
                            + " address?key=192.0.2.7");
        }
        assertThat(delete("/actuator/spillgate/address").statusCode()).isEqualTo(400);
    }

    @Test
    void rulesAreReplacedWhileItRuns() {
        Rules rules = context.getBean(Rules.class);
        List<Rule> before = rules.list();
        rules.replace(List.of());
        assertThat(post("/v1/validate", "other-key").headers().firstValue("RateLimit"))
                .isEmpty();
        rules.replace(before);
        assertThat(post("/v1/validate", "other-key").headers().firstValue("RateLimit"))
                .isPresent();
    }

    @Test
    void anInvalidSettingPreventsTheStartAndIsExplained(CapturedOutput output) {
        assertStartFails("--spillgate.rules[0].limits=often");
        assertThat(output.getAll())
                .contains("APPLICATION FAILED TO START")
                .contains("Property: spillgate.rules[0].limits\n")
                .contains("Value: often\n")
                .contains("limit \"often\"");
        assertStartFails(
                "--spillgate.rules[0].name=login",
                "--spillgate.rules[0].limits=1/1s",
                "--spillgate.rules[0].key=adress");
        assertThat(output.getAll())
                .contains("Property: spillgate.rules[0].key")
                .contains("Value: adress")
                .contains("expected address, principal, header:");
    }

    private static void assertStartFails(String... arguments) {
        SpringApplication application = application().build();
        boolean started;
        try (ConfigurableApplicationContext running = application.run(arguments)) {
            started = running.isRunning();
        } catch (RuntimeException e) {
            started = false;
        }
        assertThat(started).isFalse();
    }

    private static SpringApplicationBuilder application() {
        return new SpringApplicationBuilder(Application.class)
                .properties("server.port=0", "server.address=127.0.0.1", "spring.config.name=boot-service");
    }

    private HttpResponse<String> get(String path, String apiKey) {
        return clientFor(path).get(path, "X-Api-Key", apiKey);
    }

    private HttpResponse<String> post(String path, String apiKey) {
        return client.post(path, "{}", "X-Api-Key", apiKey);
    }

    private HttpResponse<String> delete(String path) {
        ClientForTests its = clientFor(path);
        return its.send(its.request(path).DELETE());
    }

    private ClientForTests clientFor(String path) {
        return path.startsWith("/actuator") ? BootForTests.client(context) : client;
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({BootForTests.class, Handlers.class})
    static class Application {

        @Bean
        Rule.LimitSource plans() {
            return (match, key) -> Mono.just(List.of(
                    match.request().headers("X-Api-Key").stream().anyMatch(shown -> shown.startsWith("pro-"))
                            ? Limit.perDay(10_000)
                            : Limit.perDay(100)));
        }

        @Bean
        Rule.CostSource lookingIsFree() {
            return match -> Mono.just(match.request().method().equals("GET") ? 0L : 1L);
        }

        @Bean
        Rule.CostSource costs() {
            return match -> Mono.just(match.request().method().equals("GET") ? 0L : 5L);
        }
    }

    @RestController
    static class Handlers {

        private final Rules rules;

        Handlers(Rules rules) {
            this.rules = rules;
        }

        @PostMapping("/v1/validate")
        Mono<String> validate() {
            return Mono.just("valid");
        }

        /** What the request's own limits say, which the look at them has not changed. */
        @GetMapping("/v1/usage")
        Mono<String> usage(ServerWebExchange exchange) {
            return Mono.just(String.join(
                    ", ",
                    RateLimitResponses.decisions(exchange).get(0).limits().stream()
                            .map(usage -> usage.limit().name() + ": " + usage.used())
                            .toList()));
        }

        /** The usage of the client under every rule. */
        @GetMapping("/left")
        Mono<String> left(ServerWebExchange exchange) {
            return rules.peek(ExchangeRequest.of(exchange))
                    .map(decision -> String.join(
                            ", ",
                            decision.limits().stream()
                                    .map(usage -> usage.limit().name() + ": " + usage.remaining() + "/"
                                            + usage.limit().permits())
                                    .toList()));
        }

        @RateLimited(value = "1/1m", name = "shared")
        @GetMapping("/v1/shared-log")
        Mono<String> sharedLog() {
            return Mono.just("log");
        }

        @RateLimited(value = "1/1m counter", name = "shared")
        @GetMapping("/v1/shared-counter")
        Mono<String> sharedCounter() {
            return Mono.just("counter");
        }

        @RateLimited("1/1m")
        @GetMapping("/v1/annotated")
        Mono<String> annotated() {
            return Mono.just("annotated");
        }

        @GetMapping("/health")
        Mono<String> health() {
            return Mono.just("well");
        }
    }
}
