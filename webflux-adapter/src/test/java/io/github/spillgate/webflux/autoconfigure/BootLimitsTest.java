package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.ClientForTests;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.BootForTests;
import io.github.spillgate.webflux.RateLimited;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpoint;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Token buckets in YAML and in annotations, and denials in handlers, on a real server and a real Redis. */
class BootLimitsTest {

    private static ConfigurableApplicationContext context;

    private final ClientForTests client = BootForTests.client(context);

    @BeforeAll
    static void start() {
        context = new SpringApplicationBuilder(Application.class)
                .properties("server.port=0", "server.address=127.0.0.1", "spring.config.name=bucket-service")
                .run(
                        "--spring.data.redis.url=" + RedisForTests.first().uri().toURI(),
                        "--spillgate.name=bucket-"
                                + UUID.randomUUID().toString().substring(0, 8));
        LimiterForTests.awaitReady(context.getBean(RateLimiter.class));
    }

    @AfterAll
    static void close() {
        context.close();
    }

    @ParameterizedTest
    @CsvSource({"/listed, listed-1h", "/annotated, BootLimitsTest.Handlers.annotated-1h"})
    void theBurstPassesAndThenPermitsReturnOneByOne(String path, String limit) {
        for (int i = 2; i >= 0; i--) {
            HttpResponse<String> allowed = client.get(path);
            assertThat(allowed.statusCode()).isEqualTo(200);
            assertThat(field(allowed, "RateLimit-Policy")).isEqualTo("\"" + limit + "\";q=3;w=1800");
            assertThat(field(allowed, "RateLimit")).startsWith("\"" + limit + "\";r=" + i + ";t=");
        }
        HttpResponse<String> denied = client.get(path);
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(denied.body()).contains("[\"" + limit + "\"]");
        assertThat(Integer.parseInt(field(denied, "Retry-After"))).isBetween(540, 600);
    }

    /** The error handler of Spring Boot would answer 500. */
    @Test
    void aDenialThatLeavesAHandlerIsAnsweredLikeThatOfARule() {
        assertThat(client.get("/limited").statusCode()).isEqualTo(200);
        HttpResponse<String> denied = client.get("/limited");
        assertThat(denied.statusCode()).isEqualTo(429);
        assertThat(field(denied, "RateLimit-Policy")).isEqualTo("\"1h\";q=1;w=3600");
        assertThat(field(denied, "Content-Type")).isEqualTo("application/problem+json");
        assertThat(denied.body()).contains("[\"1h\"]", "\"retry-after\":" + field(denied, "Retry-After"));
    }

    @Test
    void thePolicyIsTheBurstAndTheTimeToFillIt() {
        assertThat(field(client.get("/shown"), "RateLimit-Policy")).isEqualTo("\"shown-1s\";q=50;w=5");
    }

    @Test
    void aConcurrencyLimitHoldsUntilTheResponseHasEnded() {
        client.readAndDisconnect(
                "/held", 4, () -> assertThat(client.get("/held").statusCode()).isEqualTo(429));
        await().atMost(Duration.ofSeconds(60)).until(() -> client.readAndDisconnect("/held", 4) == 200);
    }

    @ParameterizedTest
    @CsvSource({"/held, 5", "/annotated/held, 7"})
    void aFullLimitHasTheRetryTimeOfItsSettings(String path, String seconds) {
        // The last test may still hold the permit.
        await().atMost(Duration.ofSeconds(60))
                .until(() -> client.readAndDisconnect(
                                path,
                                4,
                                () -> assertThat(client.get(path).headers().firstValue("Retry-After"))
                                        .hasValue(seconds))
                        == 200);
    }

    @Test
    void theEndpointReportsWhatIsHeldAndAResetEndsNoResponse() {
        SpillgateEndpoint endpoint = context.getBean(SpillgateEndpoint.class);
        assertThat(endpoint.overview().rules())
                .filteredOn(rule -> rule.name().equals("held"))
                .flatExtracting(SpillgateEndpoint.RuleInForce::limits)
                .containsExactly("1 concurrent hold=1h retry=5s name=held-concurrent");
        awaitHeld(endpoint, 0);
        int status = client.read("/held", body -> {
            body.readNBytes(4);
            assertThat(usage(endpoint))
                    .extracting(
                            SpillgateEndpoint.LimitUsed::limit,
                            SpillgateEndpoint.LimitUsed::used,
                            SpillgateEndpoint.LimitUsed::remaining)
                    .containsExactly("1 concurrent hold=1h retry=5s name=held-concurrent", 1L, 0L);
            // The hold time from now on, if nothing renews or releases it.
            assertThat(usage(endpoint).wholeAt())
                    .isBetween(
                            Instant.now().plus(Duration.ofMinutes(50)),
                            Instant.now().plus(Duration.ofMinutes(61)));
            assertThat(endpoint.reset("held", "127.0.0.1", null)
                            .block(Duration.ofSeconds(60))
                            .getStatus())
                    .isEqualTo(204);
            assertThat(usage(endpoint).used()).isZero();
            assertThat(body.readNBytes(10_000)).hasSize(10_000);
        });
        assertThat(status).isEqualTo(200);
        awaitHeld(endpoint, 0);
    }

    private static void awaitHeld(SpillgateEndpoint endpoint, long held) {
        await().atMost(Duration.ofSeconds(60)).until(() -> usage(endpoint).used() == held);
    }

    private static SpillgateEndpoint.LimitUsed usage(SpillgateEndpoint endpoint) {
        return (SpillgateEndpoint.LimitUsed) ((List<?>) endpoint.usage("held", "127.0.0.1")
                        .block(Duration.ofSeconds(60))
                        .getBody())
                .get(0);
    }

    private static String field(HttpResponse<String> response, String name) {
        return response.headers().firstValue(name).orElseThrow();
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({BootForTests.class, Handlers.class})
    static class Application {}

    @RestController
    static class Handlers {

        private final RateLimiter limiter;

        Handlers(RateLimiter limiter) {
            this.limiter = limiter;
        }

        @GetMapping({"/listed", "/shown"})
        Mono<String> listed() {
            return Mono.just("listed");
        }

        @GetMapping(path = "/held", produces = "text/event-stream")
        Flux<String> held() {
            return Flux.interval(Duration.ofMillis(1)).onBackpressureDrop().map(tick -> "tick");
        }

        @RateLimited("1 concurrent hold=1h retry=6500ms")
        @GetMapping(path = "/annotated/held", produces = "text/event-stream")
        Flux<String> annotatedHeld() {
            return held();
        }

        @GetMapping("/limited")
        Mono<String> limited() {
            return Mono.just("done").transform(limiter.limited(Charge.of("all", Limit.perHour(1))));
        }

        @RateLimited("6/1h burst=3")
        @GetMapping("/annotated")
        Mono<String> annotated() {
            return Mono.just("annotated");
        }
    }
}
