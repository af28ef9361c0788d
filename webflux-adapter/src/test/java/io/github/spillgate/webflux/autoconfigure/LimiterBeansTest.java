package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.metrics.LimiterMetrics;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.WithoutDeadline;
import io.github.spillgate.webflux.GatewayRateLimiter;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpoint;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateEndpointAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateHealthAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.actuator.SpillgateMetricsAutoConfiguration;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.NoUniqueBeanDefinitionException;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.actuate.autoconfigure.endpoint.EndpointAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.health.contributor.ReactiveHealthIndicator;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import org.springframework.cloud.gateway.config.GatewayAutoConfiguration;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;

/** Limiters and stores of the application beside those of the settings. */
@ExtendWith(OutputCaptureExtension.class)
class LimiterBeansTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    SslAutoConfiguration.class,
                    EndpointAutoConfiguration.class,
                    GatewayAutoConfiguration.class,
                    SpillgateAutoConfiguration.class,
                    SpillgateEndpointAutoConfiguration.class,
                    SpillgateGatewayAutoConfiguration.class,
                    SpillgateHealthAutoConfiguration.class,
                    SpillgateMetricsAutoConfiguration.class))
            .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
            .withPropertyValues(
                    "management.endpoints.web.exposure.include=*",
                    "spillgate.store=local",
                    "spillgate.name=shop",
                    "spillgate.rules[0].name=address",
                    "spillgate.rules[0].limits=100/1m");

    @Test
    void limitersOfTheApplicationExistBesideThatOfTheSettings() {
        runner.withUserConfiguration(TwoLimiters.class).run(context -> {
            assertThat(context).hasNotFailed().getBeans(RateLimiter.class).hasSize(3);
            assertThat(context.getBean("partner").toString()).contains("RateLimiter[partner,");
            assertTheSettingsAreInForce(context);
            Injected injected = context.getBean(Injected.class);
            assertThat(injected.partner).isSameAs(context.getBean("partner"));
            assertThat(injected.main).isSameAs(context.getBean("spillgateLimiter"));
            assertThat(injected.store).isInstanceOf(LocalStore.class);
        });
    }

    @Test
    void aPrimaryLimiterOfTheApplicationIsInjectedByTypeAndNotUsedByRules() {
        runner.withUserConfiguration(PrimaryLimiter.class).run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(context.getBean(RateLimiter.class)).isSameAs(context.getBean("partner"));
            assertTheSettingsAreInForce(context);
        });
    }

    /** Which of them is meant is for the application to say: either choice could be wrong, and would be silent. */
    @Test
    void injectionByTypeAloneIsAmbiguousIfThereAreTwo() {
        runner.withUserConfiguration(OneLimiter.class)
                .withUserConfiguration(ByType.class)
                .run(context -> assertThat(context.getStartupFailure())
                        .rootCause()
                        .isInstanceOf(NoUniqueBeanDefinitionException.class)
                        .hasMessageContaining("partner,spillgateLimiter"));
        runner.withUserConfiguration(QualifiedOnly.class)
                .withUserConfiguration(ByType.class)
                .run(context -> assertThat(context.getBean(ByType.class).limiter)
                        .isSameAs(context.getBean("spillgateLimiter")));
    }

    @Test
    void aLimiterOfThisNameReplacesThatOfTheSettings() {
        runner.withUserConfiguration(Replacement.class).run(context -> {
            assertThat(context).hasNotFailed().hasSingleBean(RateLimiter.class);
            assertThat(used(context, "mine")).isOne();
        });
    }

    @Test
    void aStoreOfTheApplicationReplacesThatOfTheSettings() {
        runner.withUserConfiguration(OwnStore.class).run(context -> {
            assertThat(context).hasNotFailed().hasSingleBean(LimitStore.class);
            assertThat(context.getBean("spillgateLimiter").toString()).contains("own store");
        });
    }

    @Test
    void aStoreThatIsNoDefaultCandidateExistsBesideThatOfTheSettings() {
        runner.withUserConfiguration(SecondStore.class).run(context -> {
            assertThat(context).hasNotFailed().getBeans(LimitStore.class).hasSize(2);
            assertThat(context.getBean("spillgateLimiter").toString()).contains("store=LocalStore");
        });
    }

    private static void assertTheSettingsAreInForce(ApplicationContext context) {
        assertThat(used(context, "shop")).isOne();
        assertThat(context.getBean(GatewayRateLimiter.class)).isNotNull();
        assertThat(context.getBean(ReactiveHealthIndicator.class)).isNotNull();
        assertThat(context.getBean(SpillgateEndpoint.class).overview().rules()).hasSize(1);
        MeterRegistry meters = new SimpleMeterRegistry();
        context.getBean(LimiterMetrics.class).bindTo(meters);
        assertThat(meters.get("spillgate.fallbacks").functionCounter().getId().getTag("limiter"))
                .isEqualTo("shop");
    }

    /** Takes a permit from a limiter of this name, and returns how many the rules see as used. */
    private static long used(ApplicationContext context, String name) {
        Rules rules = context.getBean(Rules.class);
        RateLimiter sameName = RateLimiter.builder(name)
                .store(context.getBean(LimitStore.class))
                .build();
        sameName.tryAcquire(Charge.of("ann", rules.list().get(0).limits())).block(LONG);
        return rules.peek("address", "ann").block(LONG).limits().get(0).used();
    }

    private static RateLimiter limiter(String name, LimitStore store) {
        return RateLimiter.builder(name).store(store).build();
    }

    @Configuration(proxyBeanMethods = false)
    static class OneLimiter {

        @Bean
        RateLimiter partner(LimitStore store) {
            return limiter("partner", store);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoLimiters extends OneLimiter {

        @Bean
        RateLimiter mail() {
            return limiter("mail", LocalStore.bounded(16));
        }

        @Bean
        Injected injected(RateLimiter partner, @Qualifier("spillgateLimiter") RateLimiter main, LimitStore store) {
            return new Injected(partner, main, store);
        }
    }

    record Injected(RateLimiter partner, RateLimiter main, LimitStore store) {}

    @Configuration(proxyBeanMethods = false)
    static class PrimaryLimiter {

        @Bean
        @Primary
        RateLimiter partner(LimitStore store) {
            return limiter("partner", store);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class QualifiedOnly {

        @Bean(defaultCandidate = false)
        RateLimiter partner(LimitStore store) {
            return limiter("partner", store);
        }
    }

    record ByType(RateLimiter limiter) {}

    @Configuration(proxyBeanMethods = false)
    static class Replacement {

        @Bean
        RateLimiter spillgateLimiter(LimitStore store) {
            return limiter("mine", store);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnStore {

        @Bean
        LimitStore own() {
            return new WithoutDeadline(LocalStore.bounded(16)) {
                @Override
                public String toString() {
                    return "own store";
                }
            };
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class SecondStore {

        @Bean(defaultCandidate = false)
        LimitStore second() {
            return LocalStore.bounded(16);
        }
    }
}
