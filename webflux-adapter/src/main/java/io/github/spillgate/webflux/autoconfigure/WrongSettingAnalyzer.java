package io.github.spillgate.webflux.autoconfigure;

import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says which setting is wrong, and what would be right, instead of a stack trace. */
final class WrongSettingAnalyzer extends AbstractFailureAnalyzer<WrongSettingException> {

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, WrongSettingException cause) {
        return new FailureAnalysis(
                "The rate limiter cannot be set up:\n\n    Property: " + cause.property() + "\n    Value: "
                        + cause.value() + "\n    Reason: " + cause.getMessage(),
                "Change the value of " + cause.property() + " as the reason says.",
                cause);
    }
}
