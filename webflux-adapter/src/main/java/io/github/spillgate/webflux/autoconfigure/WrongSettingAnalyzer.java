package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.settings.WrongSettingException;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.context.properties.source.ConfigurationPropertySource;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.origin.Origin;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.core.env.Environment;

/**
 * A failure analyzer that reports a wrong setting, its origin and what was expected, instead of a stack trace. It comes
 * before Spring's own, one of which reports a wrong path pattern without its setting.
 */
@Order(Ordered.HIGHEST_PRECEDENCE)
final class WrongSettingAnalyzer extends AbstractFailureAnalyzer<WrongSettingException> {

    private final Environment environment;

    WrongSettingAnalyzer(Environment environment) {
        this.environment = environment;
    }

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, WrongSettingException cause) {
        Origin origin = origin(cause.setting());
        return new FailureAnalysis(
                "The rate limiter cannot be set up:\n\n    Property: " + cause.setting() + "\n    Value: "
                        + cause.value() + (origin == null ? "" : "\n    Origin: " + origin) + "\n    Reason: "
                        + cause.why(),
                "Change " + cause.setting() + " as the reason says.",
                cause);
    }

    /** Returns the origin of a setting; null if the setting is missing, or the message names two settings. */
    private @Nullable Origin origin(String setting) {
        ConfigurationPropertyName name = ConfigurationPropertyName.adapt(setting, '.');
        for (ConfigurationPropertySource source : ConfigurationPropertySources.get(environment)) {
            ConfigurationProperty found = source.getConfigurationProperty(name);
            if (found != null) {
                return found.getOrigin();
            }
        }
        return null;
    }
}
