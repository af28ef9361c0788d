package io.github.spillgate.webflux.autoconfigure;

import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;

/**
 * The setting {@code spillgate.enabled} as a condition. Spring Boot's own one compares texts: of {@code off} and
 * {@code no}, which a record reads as false, it would say that they are neither true nor false.
 */
final class Switch {

    private Switch() {}

    static boolean isOn(Environment environment) {
        return environment.getProperty("spillgate.enabled", Boolean.class, true);
    }

    static final class On implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            return isOn(context.getEnvironment());
        }
    }

    static final class Off implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            return !isOn(context.getEnvironment());
        }
    }
}
