package io.github.spillgate.webflux.autoconfigure;

import static io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfigurationTest.wrongSetting;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.MoodyPartner;
import io.github.spillgate.testkit.MoodyPartner.Arrival;
import io.github.spillgate.webflux.OutgoingLimit;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateMetricsAutoConfiguration;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webclient.WebClientCustomizer;
import org.springframework.boot.webclient.autoconfigure.WebClientAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.context.ApplicationContext;
import org.springframework.web.reactive.function.client.WebClient;
import reactor.core.publisher.Mono;

/** The settings below {@code spillgate.outgoing}, with the WebClient of Spring Boot. */
class OutgoingSettingsTest {

    private static final Duration PATIENCE = Duration.ofMinutes(1);

    private final MoodyPartner partner = new MoodyPartner(100_000);
    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    WebClientAutoConfiguration.class,
                    SpillgateAutoConfiguration.class,
                    SpillgateOutgoingAutoConfiguration.class))
            .withPropertyValues("spillgate.store=local", "spillgate.name=shop");

    @AfterEach
    void close() {
        partner.close();
    }

    @Test
    void requestsOfTheWebClientOfSpringBootAreLimited() {
        runner.withPropertyValues(
                        "spillgate.outgoing.limits=10/s burst=1, 1000/1h", "spillgate.outgoing.longest-wait=1s")
                .run(context -> {
                    RateLimiter limiter =
                            context.getBean(OutgoingLimit.class).requests().limiter();
                    assertThat(limiter.name()).isEqualTo("shop.outgoing");
                    assertThat(limiter.limits())
                            .containsExactly(Limit.parse("10/s burst=1"), Limit.perHour(1_000), Limit.pausable());
                    assertThat(context).hasSingleBean(RateLimiter.class);
                    get(context, "/").block(PATIENCE);
                    partner.refuse(Duration.ofMinutes(1), "Retry-After:60");
                    assertThatThrownBy(() -> get(context, "/").block(PATIENCE))
                            .isInstanceOf(RateLimitedException.class);
                    assertThatThrownBy(() -> get(context, "/").block(PATIENCE))
                            .isInstanceOf(RateLimitedException.class);
                    assertThat(partner.arrivals()).extracting(Arrival::status).containsExactly(200, 429);
                });
    }

    @Test
    void allRequestsCanShareOneKeyAndBeSentAgainOrNever() {
        runner.withPropertyValues(
                        "spillgate.outgoing.limits=1/1h burst=1",
                        "spillgate.outgoing.key=all",
                        "spillgate.outgoing.longest-pause=50ms",
                        "spillgate.outgoing.retry=none",
                        "spillgate.outgoing.longest-wait=0")
                .run(context -> {
                    partner.refuse(Duration.ofMinutes(1), "Retry-After:60");
                    assertThatThrownBy(() -> get(context, "/").block(PATIENCE))
                            .isInstanceOf(RateLimitedException.class);
                    try (MoodyPartner other = new MoodyPartner(10)) {
                        assertThatThrownBy(() -> context.getBean(WebClient.Builder.class)
                                        .build()
                                        .get()
                                        .uri(other.uri("/"))
                                        .retrieve()
                                        .toBodilessEntity()
                                        .block(PATIENCE))
                                .isInstanceOf(RateLimitedException.class);
                        assertThat(other.arrivals()).isEmpty();
                    }
                    assertThat(partner.arrivals()).hasSize(1);
                });
    }

    @Test
    void withoutLimitsOrIfDisabledNothingIsLimited() {
        runner.run(context -> {
            assertThat(context).doesNotHaveBean(OutgoingLimit.class);
            get(context, "/").block(PATIENCE);
        });
        runner.withPropertyValues("spillgate.outgoing.limits[0]=1/1h", "spillgate.enabled=false")
                .run(context -> assertThat(context).doesNotHaveBean(OutgoingLimit.class));
    }

    @Test
    void theModuleOfTheWebClientIsOptionalUnlessThereAreLimits() {
        ReactiveWebApplicationContextRunner without =
                runner.withClassLoader(new FilteredClassLoader(WebClientCustomizer.class));
        without.run(context -> assertThat(context).hasNotFailed());
        without.withPropertyValues("spillgate.outgoing.limits=10/s burst=1")
                .run(context -> assertThat(wrongSetting(context.getStartupFailure()))
                        .hasMessageContaining("spillgate.outgoing.limits")
                        .hasMessageContaining("spring-boot-starter-webclient"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "limit=10/s            | did you mean limits?",
                "limits=10/sec         | 10/sec",
                "longest-wait=5        | which has no unit",
                "longest-wait=2d       | longest wait",
                "longest-pause=0       | longest pause",
                "key=orgin             | did you mean origin?",
                "retry=never           | expected one of repeatable, all, none",
            })
    void wrongSettingsAreReported(String setting, String message) {
        runner.withPropertyValues("spillgate.outgoing.limits[0]=10/s", "spillgate.outgoing." + setting)
                .run(context ->
                        assertThat(wrongSetting(context.getStartupFailure())).hasMessageContaining(message));
    }

    @Test
    void metersAreRegistered() {
        runner.withConfiguration(AutoConfigurations.of(
                        MetricsAutoConfiguration.class,
                        CompositeMeterRegistryAutoConfiguration.class,
                        SpillgateMetricsAutoConfiguration.class))
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withPropertyValues("spillgate.outgoing.limits=10/s burst=1")
                .run(context -> {
                    partner.refuse(Duration.ofMillis(100), "Retry-After:1");
                    get(context, "/").block(PATIENCE);
                    MeterRegistry registry = context.getBean(MeterRegistry.class);
                    assertThat(registry.get("spillgate.outgoing.pauses")
                                    .tag("limiter", "shop.outgoing")
                                    .functionCounter()
                                    .count())
                            .isEqualTo(1);
                    assertThat(registry.get("spillgate.outgoing.retries")
                                    .functionCounter()
                                    .count())
                            .isEqualTo(1);
                    assertThat(registry.get("spillgate.outgoing.waits")
                                    .functionTimer()
                                    .count())
                            .isEqualTo(2);
                });
    }

    @Test
    void limitsOfTheApplicationDoNotReplaceThoseOfTheSettings() {
        ReactiveWebApplicationContextRunner own = runner.withConfiguration(AutoConfigurations.of(
                        MetricsAutoConfiguration.class,
                        CompositeMeterRegistryAutoConfiguration.class,
                        SpillgateMetricsAutoConfiguration.class))
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withBean("one", OutgoingLimit.class, () -> ofTheApplication("one"))
                .withBean("two", OutgoingLimit.class, () -> ofTheApplication("two"));
        own.run(context -> assertThat(context).hasNotFailed());
        own.withPropertyValues("spillgate.outgoing.limits=1/1h burst=1").run(context -> {
            assertThat(context).hasNotFailed();
            get(context, "/").block(PATIENCE);
            assertThatThrownBy(() -> get(context, "/").block(PATIENCE)).isInstanceOf(RateLimitedException.class);
            assertThat(context.getBean(MeterRegistry.class)
                            .get("spillgate.outgoing.waits")
                            .tag("limiter", "shop.outgoing")
                            .functionTimer()
                            .count())
                    .isEqualTo(2);
        });
    }

    private static OutgoingLimit ofTheApplication(String name) {
        return OutgoingLimit.builder(RateLimiter.builder(name)
                        .store(LocalStore.bounded(100))
                        .limit(Limit.perHour(1_000))
                        .limit(Limit.pausable())
                        .build())
                .build();
    }

    private Mono<?> get(ApplicationContext context, String path) {
        return context.getBean(WebClient.Builder.class)
                .build()
                .get()
                .uri(partner.uri(path))
                .retrieve()
                .toBodilessEntity();
    }
}
