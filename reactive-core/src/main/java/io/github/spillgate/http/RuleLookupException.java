package io.github.spillgate.http;

import org.jspecify.annotations.Nullable;

/**
 * What a rule looks up for a request could not be found: its {@link Rule.LimitSource} or its {@link Rule.CostSource} threw, failed,
 * returned something that cannot be used, or did not answer within the time that it has. The message never quotes the source's own
 * error, which is the cause.
 */
public final class RuleLookupException extends RuntimeException {

    static final String LIMITS = "limits-from";
    static final String COST = "cost-from";

    private static final long serialVersionUID = 1L;

    private final String setting;

    private RuleLookupException(String setting, String what, @Nullable Throwable cause) {
        // One for each such request, maybe for all of them: without a stack trace it costs little.
        super(setting + what, cause, false, false);
        this.setting = setting;
    }

    static RuleLookupException failed(String setting, Throwable cause) {
        return new RuleLookupException(setting, " failed", cause);
    }

    static RuleLookupException late(String setting, LookupTime time) {
        return new RuleLookupException(setting, " did not answer within " + time, null);
    }

    /**
     * Returns the setting that names the source which failed.
     *
     * @return {@code limits-from} or {@code cost-from}
     */
    public String setting() {
        return setting;
    }
}
