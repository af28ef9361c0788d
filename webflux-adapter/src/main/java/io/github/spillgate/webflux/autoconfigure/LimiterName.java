package io.github.spillgate.webflux.autoconfigure;

import org.springframework.core.env.Environment;

/** What the limiter of an application is called. */
final class LimiterName {

    private static final String DEFAULT = "spillgate";
    private static final int LONGEST = 64;

    private LimiterName() {}

    /** As the settings say, or else as the application, which may be called what a limiter may not. */
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
