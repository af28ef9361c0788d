package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.metrics.DecisionMetrics;
import io.github.spillgate.metrics.LimiterMetrics;
import io.github.spillgate.metrics.OutgoingMetrics;
import io.github.spillgate.metrics.RuleMetrics;
import io.github.spillgate.webflux.OutgoingLimit;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateOutgoingAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** The auto-configuration of the metrics, if there is a meter registry. */
@AutoConfiguration(
        after = {SpillgateAutoConfiguration.class, SpillgateOutgoingAutoConfiguration.class},
        afterName = "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration")
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean({MeterRegistry.class, SpillgateProperties.class})
public final class SpillgateMetricsAutoConfiguration {

    /** Creates the configuration; for Spring. */
    public SpillgateMetricsAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean
    RuleMetrics spillgateRuleMetrics(MeterRegistry registry) {
        return RuleMetrics.of(registry);
    }

    @Bean
    @ConditionalOnMissingBean
    LimiterMetrics spillgateLimiterMetrics(@Qualifier(SpillgateAutoConfiguration.LIMITER) RateLimiter limiter) {
        return LimiterMetrics.of(limiter, limiter.name());
    }

    @Bean
    @ConditionalOnBean(name = SpillgateOutgoingAutoConfiguration.LIMIT)
    @ConditionalOnMissingBean(name = "spillgateOutgoingMetrics")
    OutgoingMetrics spillgateOutgoingMetrics(@Qualifier(SpillgateOutgoingAutoConfiguration.LIMIT) OutgoingLimit limit) {
        return OutgoingMetrics.of(limit.requests());
    }

    @Bean
    MeterBinder spillgateNamedLimiterMetrics(NamedLimiters limiters) {
        return registry -> limiters.all()
                .values()
                .forEach(limiter -> LimiterMetrics.of(limiter, limiter.name()).bindTo(registry));
    }

    /** The main limiter does not have it, because decisions for rules would be counted twice. */
    @Bean(name = SpillgateAutoConfiguration.LIMITERS_LISTENER, defaultCandidate = false)
    DecisionMetrics spillgateDecisionMetrics(MeterRegistry registry) {
        return DecisionMetrics.of(registry);
    }
}
