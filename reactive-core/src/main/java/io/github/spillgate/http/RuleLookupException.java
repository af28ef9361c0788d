package io.github.spillgate.http;

import org.jspecify.annotations.Nullable;

/**
 * A failed lookup of a rule: its {@link Rule.LimitSource} or {@link Rule.CostSource} threw, failed, returned something
 * invalid, or did not answer within its timeout. The message never quotes the error of the source, which is the cause.
 */
public final class RuleLookupException extends RuntimeException {

    static final String LIMITS = "limits-from";
    static final String COST = "cost-from";

    private static final long serialVersionUID = 1L;

    /** The setting that names the failed source. */
    private final String setting;

    private RuleLookupException(String setting, String what, @Nullable Throwable cause) {
        // Created for each such request, possibly for all: without a stack trace it is cheap.
        super(setting + what, cause, false, false);
        this.setting = setting;
    }

    static RuleLookupException failed(String setting, Throwable cause) {
        return new RuleLookupException(setting, " failed", cause);
    }

    static RuleLookupException late(String setting, String deadline) {
        return new RuleLookupException(setting, " did not answer within " + deadline, null);
    }

    /**
     * Returns the setting that names the failed source.
     *
     * @return {@code limits-from} or {@code cost-from}
     */
    public String setting() {
        return setting;
    }
}
