package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.metrics.DecisionObservationContext;
import io.github.spillgate.metrics.DecisionObservationConvention;
import io.github.spillgate.metrics.RuleObservations;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.webflux.BootForTests;
import io.github.spillgate.webflux.RateLimited;
import io.micrometer.common.KeyValue;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.tck.TestObservationRegistry;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.Profile;
import org.springframework.http.server.reactive.observation.ServerRequestObservationContext;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** A Boot application that is traced, on a real server and a real Redis. */
class BootObservationsTest {

    private static final String ON = "--spillgate.observations.enabled=true";

    @Test
    void eachVerdictIsPartOfItsRequest() {
        try (ConfigurableApplicationContext context = start(ON)) {
            assertThat(get(context, "/annotated")).isEqualTo(200);
            assertThat(get(context, "/annotated")).isEqualTo(429);
            List<DecisionObservationContext> decisions = decisions(context, 4);
            // By the filter and by the annotation, for one request and for another.
            assertThat(decisions)
                    .extracting(BootObservationsTest::keys)
                    .containsExactly(
                            "key allowed redis false",
                            "Handlers.annotated allowed redis false",
                            "key allowed redis false",
                            "Handlers.annotated denied redis false");
            assertThat(decisions.get(0).getParentObservation().getContextView())
                    .isInstanceOf(ServerRequestObservationContext.class);
            List<Observation.ContextView> requests =
                    decisions.stream().map(BootObservationsTest::request).toList();
            assertThat(requests.get(0)).isSameAs(requests.get(1)).isNotSameAs(requests.get(2));
            assertThat(requests.get(2)).isSameAs(requests.get(3));
            assertThat(decisions).allSatisfy(decision -> {
                assertThat(decision.getName()).isEqualTo("spillgate.decision");
                assertThat(decision.getError()).isNull();
                assertThat(decision.getAllKeyValues().stream().map(KeyValue::getValue))
                        .noneMatch(value -> value.contains("secret") || value.contains("127.0.0.1"));
            });
        }
    }

    @Test
    void byItselfNothingIsObserved() {
        try (ConfigurableApplicationContext context = start()) {
            assertThat(get(context, "/annotated")).isEqualTo(200);
            assertThat(context.getBeansOfType(RuleObservations.class)).isEmpty();
            await().untilAsserted(() -> assertThat(context.getBean(TestObservationRegistry.class))
                    .hasObservationWithNameEqualTo("http.server.requests")
                    .that()
                    .hasBeenStopped());
            assertThat(context.getBean(TestObservationRegistry.class))
                    .hasNumberOfObservationsWithNameEqualTo("spillgate.decision", 0);
        }
    }

    @Test
    void aConventionOfTheApplicationIsUsed() {
        try (ConfigurableApplicationContext context = start(ON, "--spring.profiles.active=called")) {
            assertThat(get(context, "/limited")).isEqualTo(200);
            assertThat(decisions(context, 1))
                    .extracting(Observation.Context::getName)
                    .containsExactly("shop.limits");
        }
    }

    /** Between a request and what is decided after Spring Security, there are observations of that. */
    private static Observation.ContextView request(Observation.ContextView context) {
        return context instanceof ServerRequestObservationContext
                ? context
                : request(context.getParentObservation().getContextView());
    }

    private static String keys(DecisionObservationContext decision) {
        return String.join(
                " ",
                Stream.of("rules", "outcome", "source", "shadow")
                        .map(key -> decision.getLowCardinalityKeyValue(key).getValue())
                        .toList());
    }

    private static List<DecisionObservationContext> decisions(ConfigurableApplicationContext context, int number) {
        Queue<DecisionObservationContext> stopped = context.getBean(Stopped.class).all;
        await().until(() -> stopped.size() >= number);
        return List.copyOf(stopped);
    }

    private static ConfigurableApplicationContext start(String... arguments) {
        ConfigurableApplicationContext context = new SpringApplicationBuilder(Application.class)
                .properties(
                        "server.port=0",
                        "server.address=127.0.0.1",
                        "spring.config.name=boot-observations",
                        "spring.data.redis.url=" + RedisForTests.first().uri().toURI(),
                        "spillgate.name=observed-"
                                + UUID.randomUUID().toString().substring(0, 8),
                        // On a busy machine, the local fallback would decide after 100 ms.
                        "spillgate.deadline=30s",
                        "spillgate.rules[0].name=key",
                        "spillgate.rules[0].key=header:X-Api-Key",
                        "spillgate.rules[0].limits=100/1m")
                .run(arguments);
        LimiterForTests.awaitReady(context.getBean(RateLimiter.class));
        return context;
    }

    private static int get(ConfigurableApplicationContext context, String path) {
        return BootForTests.client(context).get(path, "X-Api-Key", "secret-key").statusCode();
    }

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @Import({BootForTests.class, Handlers.class, Called.class, Stopped.class})
    static class Application {

        @Bean
        TestObservationRegistry observations() {
            return TestObservationRegistry.create();
        }
    }

    @Configuration
    @Profile("called")
    static class Called {

        @Bean
        DecisionObservationConvention names() {
            return new DecisionObservationConvention() {
                @Override
                public String getName() {
                    return "shop.limits";
                }
            };
        }
    }

    /** Spring Boot lets the registry tell it. */
    static class Stopped implements ObservationHandler<DecisionObservationContext> {

        private final Queue<DecisionObservationContext> all = new ConcurrentLinkedQueue<>();

        @Override
        public void onStop(DecisionObservationContext context) {
            all.add(context);
        }

        @Override
        public boolean supportsContext(Observation.Context context) {
            return context instanceof DecisionObservationContext;
        }
    }

    @RestController
    static class Handlers {

        @RateLimited(name = "Handlers.annotated", value = "1/1m")
        @GetMapping("/annotated")
        Mono<String> annotated() {
            return Mono.just("annotated");
        }

        @GetMapping("/limited")
        Mono<String> limited() {
            return Mono.just("limited");
        }
    }
}
