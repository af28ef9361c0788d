package io.github.spillgate.webflux.autoconfigure;

import io.github.spillgate.http.WrongSettingException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says which setting is wrong, and what would be right, instead of a stack trace. */
final class WrongSettingAnalyzer extends AbstractFailureAnalyzer<WrongSettingException> {

    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, WrongSettingException cause) {
        return new FailureAnalysis(
                "The rate limiter cannot be set up:\n\n    Property: " + cause.setting() + "\n    Value: "
                        + cause.value() + "\n    Reason: " + cause.why(),
                "Change the value of " + cause.setting() + " as the reason says.",
                cause);
    }
}
