package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.webflux.RateLimited;
import io.github.spillgate.webflux.RateLimitedHandlerAdapter;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.reactive.result.method.annotation.RequestMappingHandlerMapping;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * A check at startup, when all beans exist: reads the annotations, fails if one of them limits nothing, and logs which
 * rules and which limiter are in force.
 */
record StartCheck(
        ConfigurableListableBeanFactory beans,
        RateLimiter limiter,
        Rules rules,
        RateLimitedHandlerAdapter annotated,
        SpillgateProperties settings)
        implements SmartInitializingSingleton {

    private static final Logger LOG = Loggers.getLogger(SpillgateAutoConfiguration.class);
    private static final String WEB_CLIENT = "org.springframework.boot.webclient.WebClientCustomizer";
    private static final String SPRING_SECURITY = "org.springframework.security.web.server.SecurityWebFilterChain";

    @Override
    public void afterSingletonsInstantiated() {
        checkOutgoing();
        List<HandlerMethod> handlers = new ArrayList<>();
        beans.getBeanProvider(RequestMappingHandlerMapping.class)
                .forEach(mapping -> handlers.addAll(mapping.getHandlerMethods().values()));
        WrongSettingException.checked("@RateLimited", handlers, methods -> {
            annotated.prepare(methods);
            return methods;
        });
        checkAnnotations(handlers);
        List<Rule> all = new ArrayList<>(rules.list());
        all.addAll(annotated.rules());
        all.forEach(this::warnIfWithoutUsers);
        log();
    }

    private void checkOutgoing() {
        if (!settings.outgoing().limits().isEmpty() && !ClassUtils.isPresent(WEB_CLIENT, beans.getBeanClassLoader())) {
            throw new WrongSettingException(
                    "spillgate.outgoing.limits",
                    String.valueOf(settings.outgoing().limits()),
                    "there is no WebClient of Spring Boot to limit: expected the dependency"
                            + " org.springframework.boot:spring-boot-starter-webclient",
                    null);
        }
    }

    /** An annotation on a bean that is no controller would limit nothing. Annotations of interfaces are skipped. */
    private void checkAnnotations(Collection<HandlerMethod> handlers) {
        Set<Class<?>> controllers = new HashSet<>();
        Set<String> mapped = new HashSet<>();
        for (HandlerMethod handler : handlers) {
            Class<?> type = ClassUtils.getUserClass(handler.getBeanType());
            controllers.add(type);
            mapped.add(signature(type, handler.getMethod()));
        }
        for (String bean : beans.getBeanDefinitionNames()) {
            Class<?> type = typeOf(bean);
            if (type == null || !AnnotationUtils.isCandidateClass(type, RateLimited.class)) {
                continue;
            }
            if (isLimited(type) && !controllers.contains(type)) {
                throw limitsNothing(ClassUtils.getShortName(type));
            }
            for (Method method : ReflectionUtils.getUniqueDeclaredMethods(type)) {
                boolean isOwn =
                        !method.isBridge() && !method.getDeclaringClass().isInterface();
                if (isOwn && isLimited(method) && !mapped.contains(signature(type, method))) {
                    throw limitsNothing(ClassUtils.getShortName(type) + "." + method.getName());
                }
            }
        }
    }

    private @Nullable Class<?> typeOf(String bean) {
        Class<?> type = AutoProxyUtils.determineTargetClass(beans, bean);
        return type == null || Proxy.isProxyClass(type) ? null : ClassUtils.getUserClass(type);
    }

    private static String signature(Class<?> type, Method method) {
        return type.getName() + "." + method.getName() + Arrays.toString(method.getParameterTypes());
    }

    private static boolean isLimited(AnnotatedElement element) {
        return MergedAnnotations.from(element).isPresent(RateLimited.class);
    }

    private static WrongSettingException limitsNothing(String where) {
        return new WrongSettingException(
                "@RateLimited",
                where,
                "@RateLimited of " + where + ": no request is mapped to it, so it limits nothing: expected it on a"
                        + " controller or its methods with @GetMapping and the like; elsewhere call"
                        + " limiter.tryAcquire(\"ann\")",
                null);
    }

    private void warnIfWithoutUsers(Rule rule) {
        if (rule.needsPrincipal() && !ClassUtils.isPresent(SPRING_SECURITY, beans.getBeanClassLoader())) {
            LOG.warn(
                    "rule {}: its key needs an authenticated user, and Spring Security is not on the class path:"
                            + " expected spring-boot-starter-security, a filter of your own that sets the principal,"
                            + " or another key, for example address",
                    rule.name());
        }
    }

    private void log() {
        if (settings.redis().uri() != null && !beans.containsBean(StoreConfiguration.STORE)) {
            LOG.warn(
                    "spillgate.redis.uri has no effect, because the bean {} is the store: expected only one of them,"
                            + " or @Bean(defaultCandidate = false) on a store for other limiters",
                    String.join(", ", beans.getBeanNamesForType(LimitStore.class)));
        }
        List<String> others = new ArrayList<>(List.of(beans.getBeanNamesForType(RateLimiter.class)));
        others.remove(SpillgateAutoConfiguration.LIMITER);
        Collections.sort(others);
        LOG.info(
                "Rules {}{} use {} (bean {}){}",
                rules,
                annotated.rules().isEmpty()
                        ? ""
                        : annotated.rules().stream()
                                .map(Rule::summary)
                                .collect(Collectors.joining("; ", " and @RateLimited [", "]")),
                limiter,
                SpillgateAutoConfiguration.LIMITER,
                others.isEmpty() ? "" : "; other limiters: " + others);
    }
}
