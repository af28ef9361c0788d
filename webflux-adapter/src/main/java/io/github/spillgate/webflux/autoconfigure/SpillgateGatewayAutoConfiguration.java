package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.webflux.GatewayRateLimiter;
import io.github.spillgate.webflux.GatewayRateLimiter.Config;
import io.github.spillgate.webflux.GatewayRateLimiter.Fields;
import io.github.spillgate.webflux.RateLimitResponses;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.cloud.gateway.config.GatewayProperties;
import org.springframework.cloud.gateway.filter.ratelimit.AbstractRateLimiter;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Fallback;
import org.springframework.core.env.Environment;

/**
 * The auto-configuration of the limiter for routes of Spring Cloud Gateway, if that is on the class path.
 *
 * <p>It precedes that of the gateway, which creates the filter {@code RequestRateLimiter} only if a limiter exists. So
 * it also precedes {@link SpillgateAutoConfiguration}, which follows that of WebFlux.
 */
@AutoConfiguration(beforeName = "org.springframework.cloud.gateway.config.GatewayAutoConfiguration")
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnClass(AbstractRateLimiter.class)
@ConditionalOnProperty(name = GatewayProperties.PREFIX + ".enabled", matchIfMissing = true)
public final class SpillgateGatewayAutoConfiguration {

    private static final String PREFIX = GatewayProperties.PREFIX + ".redis-rate-limiter.";

    /** Creates the configuration; for Spring. */
    public SpillgateGatewayAutoConfiguration() {}

    /**
     * Creates the limiter. Any other limiter, such as the gateway's own for Redis, stays the default of the filter;
     * routes refer to this one by name.
     */
    @Bean
    @Fallback
    @ConditionalOnMissingBean
    GatewayRateLimiter spillgateRateLimiter(
            @Qualifier(SpillgateAutoConfiguration.LIMITER) ObjectProvider<RateLimiter> limiters,
            ObjectProvider<RateLimitResponses> responses,
            ConfigurationService configurations,
            Environment environment) {
        // If the limiter is disabled, routes still refer to this bean, which then allows everything. A RateLimiter bean
        // of the application is not used for that: it may limit other things.
        RateLimiter limiter = EnabledProperty.isEnabled(environment)
                ? limiters.getObject()
                : RateLimiter.builder("off")
                        .store(io.github.spillgate.failover.Fallback.allow())
                        .build();
        GatewayRateLimiter ofRoutes = GatewayRateLimiter.of(
                limiter, responses.getIfAvailable(RateLimitResponses::standard), fields(environment), configurations);
        // The gateway's own limiter also reads configurations from this property.
        Binder.get(environment)
                .bind(PREFIX + "config", Bindable.mapOf(String.class, Config.class))
                .ifBound(ofRoutes::configure);
        return ofRoutes;
    }

    private static Fields fields(Environment environment) {
        return new Fields(
                environment.getProperty(PREFIX + "include-headers", Boolean.class, true),
                environment.getProperty(PREFIX + "remaining-header", RedisRateLimiter.REMAINING_HEADER),
                environment.getProperty(PREFIX + "replenish-rate-header", RedisRateLimiter.REPLENISH_RATE_HEADER),
                environment.getProperty(PREFIX + "burst-capacity-header", RedisRateLimiter.BURST_CAPACITY_HEADER),
                environment.getProperty(PREFIX + "requested-tokens-header", RedisRateLimiter.REQUESTED_TOKENS_HEADER));
    }
}
