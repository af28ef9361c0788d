package io.github.spillgate.webflux.autoconfigure;

import org.springframework.core.env.Environment;

/** The name of the limiter of an application. */
final class LimiterName {

    private static final String DEFAULT = "spillgate";
    private static final int LONGEST = 64;

    private LimiterName() {}

    /** Returns the name in the settings, or by default that of the application without invalid characters. */
    static String of(SpillgateProperties settings, Environment environment) {
        String chosen = settings.name();
        if (chosen != null) {
            return chosen;
        }
        String application =
                environment.getProperty("spring.application.name", DEFAULT).replaceAll("[^A-Za-z0-9._-]", "-");
        return application.isEmpty() ? DEFAULT : application.substring(0, Math.min(LONGEST, application.length()));
    }
}
