package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.settings.WrongSettingException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.beans.factory.support.AutowireCandidateQualifier;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.beans.factory.support.BeanNameGenerator;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotationMetadata;

/**
 * The limiters of {@code spillgate.limiters} as beans. Each is injected by its name in the settings:
 *
 * <pre>{@code
 * Partner(@Qualifier("partner") RateLimiter limiter) { … }
 * }</pre>
 */
final class NamedLimiterBeans {

    static final String SETTING = "spillgate.limiters";

    private NamedLimiterBeans() {}

    /** Returns the limits of each limiter, by its name. Fails if the application has a limiter of the same name. */
    static Map<String, List<Limit>> limits(SpillgateProperties settings, BeanFactory beans) {
        Map<String, List<Limit>> limits = new LinkedHashMap<>();
        settings.limiters().forEach((name, limiter) -> {
            if (beans.containsBean(name) && beans.isTypeMatch(name, RateLimiter.class)) {
                throw taken(name, name);
            }
            if (name.equals(SpillgateOutgoingAutoConfiguration.NAME)) {
                throw taken(name, "for spillgate." + name);
            }
            limits.put(name, limiter.limits());
        });
        return limits;
    }

    /**
     * Returns the names of the limiters that have limits; none if there is only a text, which {@link SettingsCheck}
     * reports.
     */
    static List<String> names(Environment environment) {
        Binder binder = Binder.get(environment);
        try {
            return binder.bind(SETTING, Bindable.mapOf(String.class, Object.class)).orElse(Map.of()).keySet().stream()
                    .filter(name -> binder.bind(setting(name).append("limits"), Bindable.listOf(String.class))
                            .isBound())
                    .toList();
        } catch (BindException e) {
            return List.of();
        }
    }

    /** Returns the location of a limiter in the settings. */
    static ConfigurationPropertyName setting(String name) {
        return ConfigurationPropertyName.adapt(SETTING + (name.contains(".") ? "[" + name + "]" : "." + name), '.');
    }

    /** Returns the error of a limiter if the application has a bean that is injected by the same name. */
    private static WrongSettingException taken(String name, String bean) {
        return new WrongSettingException(
                SETTING + "." + name,
                name,
                "the application has a bean " + bean + ": expected only one of them, or another name",
                null);
    }

    /**
     * Registers a bean for each limiter, before the settings are read. It is no default candidate: without a qualifier,
     * the limiter of the rules is injected.
     */
    static final class Registrar implements ImportBeanDefinitionRegistrar {

        private final Environment environment;

        Registrar(Environment environment) {
            this.environment = environment;
        }

        @Override
        public void registerBeanDefinitions(
                AnnotationMetadata importing, BeanDefinitionRegistry registry, BeanNameGenerator names) {
            for (String name : names(environment)) {
                RootBeanDefinition limiter = new RootBeanDefinition(RateLimiter.class);
                limiter.setFactoryBeanName(SpillgateAutoConfiguration.LIMITERS);
                limiter.setFactoryMethodName("get");
                limiter.getConstructorArgumentValues().addIndexedArgumentValue(0, name);
                limiter.addQualifier(new AutowireCandidateQualifier(Qualifier.class, name));
                limiter.setDefaultCandidate(false);
                String bean = name + "Limiter";
                if (registry.containsBeanDefinition(bean)) {
                    throw taken(name, bean);
                }
                registry.registerBeanDefinition(bean, limiter);
            }
        }
    }
}
