package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.WhenMissing;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.webflux.BootForTests;
import io.github.spillgate.webflux.DenialWriter;
import io.github.spillgate.webflux.GatewayRateLimiter;
import io.github.spillgate.webflux.RateLimitHandlerFilter;
import io.github.spillgate.webflux.RateLimitResponses;
import io.github.spillgate.webflux.RateLimited;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import reactor.core.publisher.Mono;

/** An application with {@code spillgate.enabled=false}, on a real server, with a Redis that there is not. */
class SpillgateAutoConfigurationDisabledTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final String[] SETTINGS = {
        "--spillgate.enabled=off",
        "--spillgate.redis.uri=http://nowhere",
        "--spillgate.rules[0].name=all",
        "--spillgate.rules[0].key=bean:notThere",
        "--spillgate.rules[0].when-missing=deny",
        "--spillgate.rules[0].limits=1/1h",
        "--management.endpoints.web.exposure.include=spillgate,health",
        "--management.endpoint.health.show-details=always"
    };

    private static ConfigurableApplicationContext shared;

    @BeforeAll
    static void start() {
        shared = start(Application.class);
    }

    @AfterAll
    static void close() {
        shared.close();
    }

    @Test
    void allBeansExistAndEveryRequestIsAllowed() {
        for (int i = 0; i < 3; i++) {
            for (String path : List.of("/plain", "/annotated", "/functional")) {
                HttpResponse<String> response = get(shared, path);
                assertThat(response.statusCode()).as(path).isEqualTo(200);
                assertThat(response.headers().firstValue("RateLimit")).isEmpty();
            }
        }
        for (Class<?> injected : List.of(
                RateLimiter.class,
                Rules.class,
                KeySyntax.class,
                ClientAddress.class,
                PathSyntax.class,
                DenialWriter.class,
                RateLimitResponses.class,
                LimitStore.class,
                GatewayRateLimiter.class)) {
            assertThat(shared.getBeanNamesForType(injected))
                    .as(injected.getName())
                    .hasSize(1);
        }
        assertAllowsEveryRequest(shared.getBean(RateLimiter.class));
        assertThat(get(shared, "/actuator/health").body())
                .contains("\"spillgate\":{")
                .contains("\"enabled\":false");
        assertThat(get(shared, "/actuator/spillgate").body()).contains("\"enabled\":false");
    }

    @Test
    void rulesThatReplaceThemLimitNothing() {
        Rules rules = shared.getBean(Rules.class);
        List<Rule> before = rules.list();
        try {
            rules.replace(List.of(Rule.named("mine")
                    .key(KeySource.header("X-Api-Key"))
                    .whenMissing(WhenMissing.DENY)
                    .limit(Limit.perHour(1))
                    .build()));
            assertThat(rules.list()).hasSize(1);
            assertThat(get(shared, "/functional").statusCode()).isEqualTo(200);
        } finally {
            rules.replace(before);
        }
    }

    @Test
    void aStoreOfTheApplicationIsNotCharged() {
        try (ConfigurableApplicationContext context = start(Application.class, OwnStore.class)) {
            assertAllowsEveryRequest(context.getBean(RateLimiter.class));
            assertThat(context.getBean(LimitStore.class)).isInstanceOf(LocalStore.class);
        }
    }

    @Test
    void aLimiterOfTheApplicationStaysAsItIsAndNoRequestIsLimited() {
        try (ConfigurableApplicationContext context = start(Application.class, OwnLimiter.class)) {
            RateLimiter limiter = context.getBean("mine", RateLimiter.class);
            assertThat(limiter.tryAcquire("me").block(LONG).isAllowed()).isTrue();
            assertThat(limiter.tryAcquire("me").block(LONG).isAllowed()).isFalse();
            for (int i = 0; i < 3; i++) {
                assertThat(get(context, "/plain").statusCode()).isEqualTo(200);
                assertThat(get(context, "/functional").statusCode()).isEqualTo(200);
            }
        }
    }

    private static void assertAllowsEveryRequest(RateLimiter limiter) {
        Charge charge = Charge.of("me", Limit.perHour(1));
        for (int i = 0; i < 3; i++) {
            assertThat(limiter.tryAcquire(charge).block(LONG).isAllowed()).isTrue();
            assertThat(limiter.acquire(List.of(charge), LONG).block(LONG).isAllowed())
                    .isTrue();
        }
    }

    private static ConfigurableApplicationContext start(Class<?>... configurations) {
        return new SpringApplicationBuilder(configurations)
                .properties("server.port=0", "server.address=127.0.0.1")
                .run(SETTINGS);
    }

    private static HttpResponse<String> get(ConfigurableApplicationContext context, String path) {
        return BootForTests.client(context).get(path);
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({BootForTests.class, Handlers.class})
    static class Application {

        /** Rules and responses are injected here as an application does that counts on them. */
        @Bean
        RouterFunction<ServerResponse> functional(Rules rules, RateLimitResponses responses) {
            return RouterFunctions.route()
                    .GET("/functional", request -> ServerResponse.ok().build())
                    .filter(RateLimitHandlerFilter.of(rules, responses))
                    .build();
        }
    }

    @RestController
    static class Handlers {

        @GetMapping("/plain")
        Mono<String> plain() {
            return Mono.just("plain");
        }

        @RateLimited(value = "1/1h", key = "header:X-Api-Key", whenMissing = WhenMissing.DENY)
        @GetMapping("/annotated")
        Mono<String> annotated() {
            return Mono.just("annotated");
        }
    }

    static class OwnStore {

        @Bean
        LimitStore mine() {
            return LocalStore.bounded(100);
        }
    }

    static class OwnLimiter {

        @Bean
        RateLimiter mine() {
            return RateLimiter.builder("mine")
                    .store(LocalStore.bounded(100))
                    .limit(Limit.perHour(1))
                    .build();
        }
    }
}
