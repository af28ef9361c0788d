package io.github.spillgate.webflux.autoconfigure;

import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;

/**
 * The property {@code spillgate.enabled} as a condition. Spring Boot's own property conditions compare texts: {@code
 * off} and {@code no}, which a record reads as false, would match neither true nor false.
 */
final class EnabledProperty {

    private EnabledProperty() {}

    static boolean isEnabled(Environment environment) {
        return environment.getProperty("spillgate.enabled", Boolean.class, true);
    }

    static final class EnabledCondition implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            return isEnabled(context.getEnvironment());
        }
    }

    static final class DisabledCondition implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            return !isEnabled(context.getEnvironment());
        }
    }
}
