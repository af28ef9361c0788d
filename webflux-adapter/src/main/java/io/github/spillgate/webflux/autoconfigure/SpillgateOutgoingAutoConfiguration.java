package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.DecisionListener;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.webflux.OutgoingLimit;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.Outgoing;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.OutgoingKey;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.OutgoingRetry;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.reactivestreams.Publisher;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.webclient.WebClientCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** The auto-configuration of limits of requests to other services, if the settings have any. */
@AutoConfiguration(after = SpillgateAutoConfiguration.class)
@ConditionalOnClass(WebClientCustomizer.class)
@ConditionalOnBean(SpillgateProperties.class)
@Conditional(SpillgateOutgoingAutoConfiguration.LimitsCondition.class)
public final class SpillgateOutgoingAutoConfiguration {

    /** The name of the filter of the settings. The application may have filters of its own. */
    public static final String LIMIT = "spillgateOutgoingLimit";

    /** The part of the settings, and the end of the name of the limiter. */
    static final String NAME = "outgoing";

    private static final String LIMITS = "spillgate." + NAME + ".limits";

    /** Creates the configuration; for Spring. */
    public SpillgateOutgoingAutoConfiguration() {}

    /** Creates the limiter, which shares the store of the main one. */
    @Bean(destroyMethod = "closeLater")
    OutgoingLimiter spillgateOutgoingLimiter(
            @Qualifier(SpillgateAutoConfiguration.LIMITER) RateLimiter main,
            ObjectProvider<DecisionListener> listeners,
            SpillgateProperties settings) {
        List<Limit> limits = new ArrayList<>(settings.outgoing().limits());
        if (limits.stream().noneMatch(limit -> limit instanceof Limit.Ban ban && ban.isPause())) {
            limits.add(Limit.pausable());
        }
        return new OutgoingLimiter(NamedLimiters.of(
                        "spillgate",
                        Map.of(NAME, limits),
                        main,
                        SpillgateAutoConfiguration.common(
                                settings, listeners.orderedStream().toList()))
                .get(NAME));
    }

    @Bean(LIMIT)
    @ConditionalOnMissingBean(name = LIMIT)
    OutgoingLimit spillgateOutgoingLimit(OutgoingLimiter limiter, SpillgateProperties settings) {
        Outgoing outgoing = settings.outgoing();
        OutgoingLimit.Builder limit = OutgoingLimit.builder(limiter.limiter);
        WrongSettingException.checked("spillgate.outgoing.longest-wait", outgoing.longestWait(), limit::longestWait);
        WrongSettingException.checked("spillgate.outgoing.longest-pause", outgoing.longestPause(), limit::longestPause);
        if (outgoing.key() == OutgoingKey.ALL) {
            limit.key(request -> "all");
        }
        if (outgoing.retry() != OutgoingRetry.REPEATABLE) {
            limit.retry(request -> outgoing.retry() == OutgoingRetry.ALL);
        }
        return limit.build();
    }

    @Bean
    WebClientCustomizer spillgateWebClientCustomizer(@Qualifier(LIMIT) OutgoingLimit limit) {
        return client -> client.filter(limit);
    }

    /** A wrapper, so that the application does not find this limiter where it injects that of the rules. */
    record OutgoingLimiter(RateLimiter limiter) {

        Publisher<Void> closeLater() {
            return limiter.closeLater();
        }
    }

    /** Whether the settings have limits, and the limiter is enabled. */
    static final class LimitsCondition implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            Environment environment = context.getEnvironment();
            return EnabledProperty.isEnabled(environment)
                    && Binder.get(environment)
                            .bind(LIMITS, Bindable.listOf(String.class))
                            .isBound();
        }
    }
}
