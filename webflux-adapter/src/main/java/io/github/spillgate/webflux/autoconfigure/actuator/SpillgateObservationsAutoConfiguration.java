package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.metrics.DecisionObservationConvention;
import io.github.spillgate.metrics.RuleObservations;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties;
import io.micrometer.observation.ObservationRegistry;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** The auto-configuration of observations, if {@code spillgate.observations.enabled} is true. */
@AutoConfiguration(
        after = SpillgateAutoConfiguration.class,
        afterName = "org.springframework.boot.micrometer.observation.autoconfigure.ObservationAutoConfiguration")
@ConditionalOnClass(ObservationRegistry.class)
@ConditionalOnBooleanProperty("spillgate.observations.enabled")
@ConditionalOnBean({ObservationRegistry.class, SpillgateProperties.class})
public final class SpillgateObservationsAutoConfiguration {

    /** Creates the configuration; for Spring. */
    public SpillgateObservationsAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean
    RuleObservations spillgateRuleObservations(
            ObservationRegistry registry, ObjectProvider<DecisionObservationConvention> convention) {
        RuleObservations observations = RuleObservations.of(registry);
        DecisionObservationConvention custom = convention.getIfAvailable();
        return custom == null ? observations : observations.convention(custom);
    }
}
