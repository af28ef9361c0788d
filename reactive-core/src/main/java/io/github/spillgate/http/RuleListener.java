package io.github.spillgate.http;

import io.github.spillgate.Decision;

/**
 * Hears what rules decide, shadow rules included: for metrics, logs, an audit. It is called on the way of each request, so it must
 * neither block nor take long; what it throws is dropped.
 */
@FunctionalInterface
public interface RuleListener {

    /**
     * Hears of a decision. Where it was made for several rules together, it is told for each of them.
     *
     * @param match the request, and the rule
     * @param decision what was decided
     */
    void decided(Match match, Decision decision);

    /**
     * Hears that nothing could be decided for a rule.
     *
     * @param match the request, and the rule
     * @param why what went wrong
     */
    default void undecided(Match match, Throwable why) {}
}
