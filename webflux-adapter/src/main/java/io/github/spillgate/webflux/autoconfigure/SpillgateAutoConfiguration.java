package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.DecisionListener;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.PathSyntax;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rule.Phase;
import io.github.spillgate.http.RuleInstrumentation;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleTracer;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.address.ClientAddress;
import io.github.spillgate.http.response.RateLimitHeaders;
import io.github.spillgate.http.settings.KeySyntax;
import io.github.spillgate.http.settings.NamedLimiters;
import io.github.spillgate.http.settings.RuleReader;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.webflux.DenialWriter;
import io.github.spillgate.webflux.PathPatterns;
import io.github.spillgate.webflux.RateLimitResponses;
import io.github.spillgate.webflux.RateLimitWebFilter;
import io.github.spillgate.webflux.RateLimitedExceptionHandler;
import io.github.spillgate.webflux.RateLimitedHandlerAdapter;
import io.github.spillgate.webflux.autoconfigure.SpillgateProperties.Headers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.Environment;
import org.springframework.web.reactive.DispatcherHandler;
import org.springframework.web.reactive.HandlerMapping;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerMapping;
import reactor.util.Logger;
import reactor.util.Loggers;

/** The auto-configuration of the limiter of a Spring Boot application, from {@link SpillgateProperties}. */
@AutoConfiguration(
        afterName = {
            "org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration",
            "org.springframework.boot.r2dbc.autoconfigure.R2dbcAutoConfiguration",
            "org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration"
        })
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnClass(DispatcherHandler.class)
@EnableConfigurationProperties(SpillgateProperties.class)
@Import({
    SpillgateProperties.LimitConverter.class,
    NamedLimiterBeans.Registrar.class,
    HealthPathsConfiguration.class,
    StoreConfiguration.DisabledConfiguration.class,
    StoreConfiguration.DedicatedRedisConfiguration.class,
    StoreConfiguration.PostgresConfiguration.class,
    StoreConfiguration.ApplicationRedisConfiguration.class,
    StoreConfiguration.LocalConfiguration.class
})
public final class SpillgateAutoConfiguration {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);

    /**
     * The name of the limiter of the settings. It is found by its name, because the application may have limiters of
     * its own.
     */
    public static final String LIMITER = "spillgateLimiter";

    static final String LIMITERS = "spillgateNamedLimiters";

    /** The name of the listener that only the limiters of {@code spillgate.limiters} have. */
    public static final String LIMITERS_LISTENER = "spillgateLimitersListener";

    private static final Pattern PLACEHOLDER = Pattern.compile("\\$\\{[A-Za-z0-9._-]+}");

    /** Creates the configuration; for Spring. */
    public SpillgateAutoConfiguration() {}

    @Bean
    static SettingsCheck spillgateSettingsCheck(ConfigurableEnvironment environment) {
        return new SettingsCheck(environment);
    }

    @Bean(LIMITER)
    @ConditionalOnMissingBean(name = LIMITER)
    RateLimiter spillgateLimiter(
            LimitStore store,
            ObjectProvider<DecisionListener> listeners,
            SpillgateProperties settings,
            Environment environment) {
        RateLimiterBuilder limiter = WrongSettingException.checked(
                "spillgate.name", LimiterName.of(settings, environment), RateLimiter::builder);
        limiter.store(store);
        common(settings, listeners.orderedStream().toList()).accept(limiter);
        // Also for a local store, so that a wrong setting is reported before there is a Redis.
        if (settings.enabled() && store.deadline().orElse(Duration.ZERO).isZero()) {
            limiter.fallback(fallback(settings));
            WrongSettingException.checked("spillgate.deadline", settings.deadline(), limiter::deadline);
            WrongSettingException.checked("spillgate.cache-denials", settings.cacheDenials(), limiter::cacheDenials);
        }
        return limiter.build();
    }

    /** Returns what all limiters of the settings have in common. */
    static Consumer<RateLimiterBuilder> common(SpillgateProperties settings, List<DecisionListener> listeners) {
        return limiter -> {
            if (!settings.enabled()) {
                // Not even a store bean of the application is charged.
                limiter.store(Fallback.allow());
                return;
            }
            WrongSettingException.checked("spillgate.debt", settings.debt(), limiter::debt);
            WrongSettingException.checked("spillgate.longest-hold", settings.longestHold(), limiter::longestHold);
            listeners.forEach(limiter::listener);
        };
    }

    private static LimitStore fallback(SpillgateProperties settings) {
        return switch (settings.fallback()) {
            case LOCAL -> StoreConfiguration.localFallback(settings);
            case ALLOW -> Fallback.allow();
            case DENY -> Fallback.deny();
            case ERROR -> Fallback.error();
        };
    }

    @Bean(LIMITERS)
    NamedLimiters spillgateNamedLimiters(
            @Qualifier(LIMITER) RateLimiter main,
            ObjectProvider<DecisionListener> listeners,
            @Qualifier(LIMITERS_LISTENER) ObjectProvider<DecisionListener> additional,
            SpillgateProperties settings,
            ListableBeanFactory beans) {
        List<DecisionListener> all = new ArrayList<>(listeners.orderedStream().toList());
        additional.ifAvailable(one -> {
            // Declared by the application, too, it would count twice.
            if (all.stream().noneMatch(other -> other.getClass() == one.getClass())) {
                all.add(one);
            }
        });
        return NamedLimiters.of(
                NamedLimiterBeans.SETTING, NamedLimiterBeans.limits(settings, beans), main, common(settings, all));
    }

    @Bean
    LimiterLifecycle spillgateLifecycle(
            @Qualifier(LIMITER) RateLimiter limiter, NamedLimiters others, SpillgateProperties settings) {
        return new LimiterLifecycle(limiter, others, settings.readyTimeout());
    }

    @Bean
    @ConditionalOnMissingBean
    ClientAddress spillgateClientAddress(SpillgateProperties settings) {
        return settings.clientAddress().read("spillgate.client-address");
    }

    @Bean
    @ConditionalOnMissingBean
    KeySyntax spillgateKeySyntax(ClientAddress client, SpillgateProperties settings, ListableBeanFactory beans) {
        NamedBeans named = new NamedBeans(beans);
        KeySyntax syntax = KeySyntax.of(client).beans(name -> Optional.of(named.get(name, KeySource.class)));
        String secret = settings.secret();
        return secret == null
                ? syntax
                : WrongSettingException.checked("spillgate.secret", "…", any -> syntax.secret(resolved(secret)));
    }

    /** Fails on a placeholder without a value: Spring keeps it as it is, so a public text would be the secret. */
    private static byte[] resolved(String secret) {
        Matcher placeholder = PLACEHOLDER.matcher(secret);
        if (placeholder.find()) {
            throw new IllegalArgumentException("the placeholder " + placeholder.group()
                    + " has no value: expected that variable or property to be set, to random text of at least 16"
                    + " bytes, for example by: openssl rand -base64 32");
        }
        return secret.getBytes(StandardCharsets.UTF_8);
    }

    @Bean
    @ConditionalOnMissingBean
    PathSyntax spillgatePathSyntax(ObjectProvider<RequestMappingHandlerMapping> mappings) {
        RequestMappingHandlerMapping mapping = mappings.stream().findFirst().orElse(null);
        return mapping == null ? PathPatterns.ofSpring() : PathPatterns.of(mapping.getPathPatternParser());
    }

    @Bean
    @ConditionalOnMissingBean
    DenialWriter spillgateDenialWriter() {
        return DenialWriter.ofProblem();
    }

    @Bean
    @ConditionalOnMissingBean
    RateLimitResponses spillgateResponses(
            DenialWriter denials, SpillgateProperties settings, ObjectProvider<HandlerMapping> mappings) {
        Headers headers = settings.headers();
        return RateLimitResponses.standard()
                .headers(RateLimitHeaders.all()
                        .rateLimit(headers.rateLimit())
                        .xRateLimit(headers.xRateLimit())
                        .retryAfter(headers.retryAfter()))
                .denials(denials)
                .corsOf(() -> mappings.orderedStream().toList());
    }

    @Bean
    @ConditionalOnMissingBean
    RateLimitedExceptionHandler spillgateExceptionHandler(RateLimitResponses responses) {
        return RateLimitedExceptionHandler.of(responses);
    }

    @Bean
    HealthRequests spillgateHealthRequests() {
        return new HealthRequests();
    }

    @Bean
    @ConditionalOnMissingBean
    RuleInstrumentation spillgateInstrumentation(
            KeySyntax keys,
            ObjectProvider<RuleListener> listeners,
            ObjectProvider<RuleTracer> tracers,
            SpillgateProperties settings,
            Environment environment) {
        RuleInstrumentation all = RuleInstrumentation.none();
        for (RuleListener listener : listeners.orderedStream().toList()) {
            all = all.listener(listener);
        }
        for (RuleTracer tracer : tracers.orderedStream().toList()) {
            all = all.tracer(tracer);
        }
        if (!settings.enabled()) {
            return all;
        }
        ForwardHeadersStrategy.warnIfMisleading(environment);
        return all.warnings(keys.client(), "spillgate.client-address.header and trusted-proxies");
    }

    @Bean
    @ConditionalOnMissingBean
    Rules spillgateRules(
            @Qualifier(LIMITER) RateLimiter limiter,
            KeySyntax keys,
            PathSyntax paths,
            SpillgateProperties settings,
            ListableBeanFactory beans,
            HealthRequests health,
            RuleInstrumentation instrumentation) {
        if (!settings.enabled()) {
            LOG.info("No request is limited (spillgate.enabled=false)");
            // The rules are not read: in a test, beans that they refer to may be missing.
            return Rules.off(limiter, paths);
        }
        List<Rule> rules = RuleReader.of(keys, paths, new NamedBeans(beans))
                .unless(health::exemptedBy)
                .read("spillgate.rules", settings.rules());
        return WrongSettingException.checked(
                "spillgate.rules",
                rules.stream().map(Rule::name).toList(),
                names -> Rules.of(limiter, paths, rules, instrumentation));
    }

    /** The beans that process requests. All other beans exist for injection even if the limiter is disabled. */
    @Configuration(proxyBeanMethods = false)
    @Conditional(EnabledProperty.EnabledCondition.class)
    static class FilterConfiguration {

        @Bean
        RateLimitWebFilter spillgateFilterBeforeAuthentication(
                Rules rules, RateLimitResponses responses, SpillgateProperties settings) {
            return RateLimitWebFilter.of(rules, Phase.BEFORE_AUTHENTICATION, responses)
                    .order(settings.filters().orderBeforeAuthentication())
                    .preflights(settings.filters().preflights());
        }

        @Bean
        RateLimitWebFilter spillgateFilterAfterAuthentication(
                Rules rules, RateLimitResponses responses, SpillgateProperties settings) {
            return RateLimitWebFilter.of(rules, Phase.AFTER_AUTHENTICATION, responses)
                    .order(settings.filters().orderAfterAuthentication())
                    .preflights(settings.filters().preflights());
        }

        @Bean
        RateLimitedHandlerAdapter spillgateHandlerAdapter(
                @Qualifier(LIMITER) RateLimiter limiter,
                KeySyntax keys,
                RateLimitResponses responses,
                RuleInstrumentation instrumentation,
                RequestMappingHandlerAdapter next) {
            return new RateLimitedHandlerAdapter(limiter, keys, responses, instrumentation, next);
        }

        @Bean
        StartCheck spillgateStartCheck(
                ConfigurableListableBeanFactory beans,
                @Qualifier(LIMITER) RateLimiter limiter,
                Rules rules,
                RateLimitedHandlerAdapter annotated,
                SpillgateProperties settings) {
            return new StartCheck(beans, limiter, rules, annotated, settings);
        }
    }
}
