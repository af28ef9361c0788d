package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.webflux.RateLimitedHandlerAdapter;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** The auto-configuration of the Actuator endpoint, if the Actuator exposes it. */
@AutoConfiguration(after = SpillgateAutoConfiguration.class)
@ConditionalOnClass(ConditionalOnAvailableEndpoint.class)
@ConditionalOnBean({Rules.class, SpillgateProperties.class})
public final class SpillgateEndpointAutoConfiguration {

    /** Creates the configuration; for Spring. */
    public SpillgateEndpointAutoConfiguration() {}

    @Bean
    @ConditionalOnAvailableEndpoint(endpoint = SpillgateEndpoint.class)
    @ConditionalOnMissingBean
    SpillgateEndpoint spillgateEndpoint(
            @Qualifier(SpillgateAutoConfiguration.LIMITER) RateLimiter limiter,
            NamedLimiters named,
            Rules rules,
            SpillgateProperties settings,
            ObjectProvider<RateLimitedHandlerAdapter> annotated) {
        return new SpillgateEndpoint(
                settings.enabled(),
                limiter,
                named.all(),
                rules,
                () -> annotated.stream()
                        .flatMap(adapter -> adapter.rules().stream())
                        .toList());
    }
}
