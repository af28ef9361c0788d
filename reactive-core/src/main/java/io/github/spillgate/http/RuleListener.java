package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import java.time.Duration;

/**
 * A listener of the decisions of rules, including shadow rules: for metrics, logs or an audit. It is called while each
 * request is processed, so it must be fast and must not block. Its exceptions are dropped.
 */
@FunctionalInterface
public interface RuleListener {

    /** The outcome of a decision for one of its rules. */
    enum Outcome {
        /** All rules of the decision have allowed the request. */
        ALLOWED,

        /** The rule has denied the request. */
        DENIED,

        /** Another rule has denied the request, so nothing was charged under this one. */
        DENIED_BY_OTHERS
    }

    /**
     * Called after a decision. A decision on several rules is reported for each of them.
     *
     * @param match the request and the rule
     * @param outcome what the decision means for the rule
     * @param decision the decision
     * @param took its duration, including lookups
     */
    void decided(RuleMatch match, Outcome outcome, Decision decision, Duration took);

    /**
     * Called after a request was denied because it has no key, or several.
     *
     * @param match the request and the rule
     */
    default void refused(RuleMatch match) {}

    /**
     * Called after limits or a cost could not be looked up. If those of the rule apply instead, a call of {@link
     * #decided decided} follows; if the rule leaves the request undecided, a call of {@link #undecided undecided}
     * follows.
     *
     * @param match the request and the rule
     * @param why which lookup failed, and why
     */
    default void lookupFailed(RuleMatch match, RuleLookupException why) {}

    /**
     * Called after no decision was possible for a rule.
     *
     * @param match the request and the rule
     * @param why the reason; a {@link RuleLookupException} if limits or a cost could not be looked up
     */
    default void undecided(RuleMatch match, Throwable why) {}

    /**
     * Called after a response has lost the permits of a concurrency limit that it held, because they could not be
     * renewed, or because it took longer than the longest hold. The response continues without them.
     *
     * @param match the request and the rule
     * @param why the reason
     */
    default void expired(RuleMatch match, HoldExpiredException why) {}
}
