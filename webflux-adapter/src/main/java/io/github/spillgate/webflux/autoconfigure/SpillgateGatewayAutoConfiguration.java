package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.webflux.GatewayRateLimiter;
import io.github.spillgate.webflux.GatewayRateLimiter.Config;
import io.github.spillgate.webflux.GatewayRateLimiter.Fields;
import io.github.spillgate.webflux.RateLimitResponses;
import org.springframework.beans.factory.ObjectProvider;
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
 * The limiter for the routes of Spring Cloud Gateway, where that is there.
 *
 * <p>It is read before the gateway's own, which makes the filter {@code RequestRateLimiter} only if it sees a limiter;
 * and so before {@link SpillgateAutoConfiguration}, which comes after the web's.
 */
@AutoConfiguration(beforeName = "org.springframework.cloud.gateway.config.GatewayAutoConfiguration")
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnClass(AbstractRateLimiter.class)
@ConditionalOnProperty(name = GatewayProperties.PREFIX + ".enabled", matchIfMissing = true)
public final class SpillgateGatewayAutoConfiguration {

    private static final String THEIRS = GatewayProperties.PREFIX + ".redis-rate-limiter.";

    /** Spring makes it. */
    public SpillgateGatewayAutoConfiguration() {}

    /**
     * Any other limiter stays the default of the filter: the gateway brings one for Redis, and routes ask for this by
     * name.
     */
    @Bean
    @Fallback
    @ConditionalOnMissingBean
    GatewayRateLimiter spillgateRateLimiter(
            ObjectProvider<RateLimiter> limiters,
            ObjectProvider<RateLimitResponses> responses,
            ConfigurationService configurations,
            Environment environment) {
        // Where the limiter is switched off, routes still name the bean; and a limiter of the application's own may
        // limit other things.
        RateLimiter limiter = Switch.isOn(environment)
                ? limiters.getObject()
                : RateLimiter.builder("off")
                        .store(io.github.spillgate.failover.Fallback.allow())
                        .build();
        GatewayRateLimiter ofRoutes = GatewayRateLimiter.of(
                limiter, responses.getIfAvailable(RateLimitResponses::standard), fields(environment), configurations);
        // The gateway's own can be configured so as well.
        Binder.get(environment)
                .bind(THEIRS + "config", Bindable.mapOf(String.class, Config.class))
                .ifBound(ofRoutes::configure);
        return ofRoutes;
    }

    private static Fields fields(Environment environment) {
        return new Fields(
                environment.getProperty(THEIRS + "include-headers", Boolean.class, true),
                environment.getProperty(THEIRS + "remaining-header", RedisRateLimiter.REMAINING_HEADER),
                environment.getProperty(THEIRS + "replenish-rate-header", RedisRateLimiter.REPLENISH_RATE_HEADER),
                environment.getProperty(THEIRS + "burst-capacity-header", RedisRateLimiter.BURST_CAPACITY_HEADER),
                environment.getProperty(THEIRS + "requested-tokens-header", RedisRateLimiter.REQUESTED_TOKENS_HEADER));
    }
}
