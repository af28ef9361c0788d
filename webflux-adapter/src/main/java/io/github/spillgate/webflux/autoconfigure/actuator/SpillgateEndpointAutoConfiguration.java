package io.github.spillgate.webflux.autoconfigure.actuator;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.webflux.RateLimitedHandlerAdapter;
import io.github.spillgate.webflux.autoconfigure.SpillgateAutoConfiguration;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.OperationType;
import org.springframework.boot.actuate.endpoint.invoke.OperationInvokerAdvisor;
import org.springframework.boot.actuate.endpoint.invoke.OperationParameter;
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

    /** Spring Boot ignores fields that an operation does not have: a misspelt {@code shadow} would deny requests. */
    @Bean
    @ConditionalOnAvailableEndpoint(endpoint = SpillgateEndpoint.class)
    OperationInvokerAdvisor spillgateEndpointFields() {
        return (endpoint, type, parameters, invoker) -> {
            if (!endpoint.equals(EndpointId.of("spillgate")) || type != OperationType.WRITE) {
                return invoker;
            }
            Set<String> fields =
                    parameters.stream().map(OperationParameter::getName).collect(Collectors.toCollection(TreeSet::new));
            return context -> context.getArguments().keySet().stream()
                    .filter(field -> !fields.contains(field))
                    .findFirst()
                    .<Object>map(field -> SpillgateEndpoint.wrongField(field, fields))
                    .orElseGet(() -> invoker.invoke(context));
        };
    }
}
