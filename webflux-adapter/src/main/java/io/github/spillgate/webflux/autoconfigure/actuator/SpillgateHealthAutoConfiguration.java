package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.health.contributor.ReactiveHealthIndicator;
import org.springframework.context.annotation.Bean;

/** The auto-configuration of the health indicator. */
@AutoConfiguration(
        after = SpillgateAutoConfiguration.class,
        beforeName =
                "org.springframework.boot.health.autoconfigure.registry.HealthContributorRegistryAutoConfiguration")
@ConditionalOnClass(ReactiveHealthIndicator.class)
@ConditionalOnBean(SpillgateProperties.class)
@ConditionalOnProperty(name = "management.health.spillgate.enabled", matchIfMissing = true)
public final class SpillgateHealthAutoConfiguration {

    /** Creates the configuration; for Spring. */
    public SpillgateHealthAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean(name = "spillgateHealthIndicator")
    ReactiveHealthIndicator spillgateHealthIndicator(
            @Qualifier(SpillgateAutoConfiguration.LIMITER) RateLimiter limiter, SpillgateProperties settings) {
        return new LimiterHealth(limiter, settings.enabled(), settings.health().duringFallback());
    }
}
