package io.github.spillgate.metrics;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleLookupException;
import io.github.spillgate.http.RuleMatch;
import io.micrometer.observation.Observation;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The context of an observed decision: from the start the rules that decide together, at the end their outcome. */
public final class DecisionObservationContext extends Observation.Context {

    /** The outcome of a decision. */
    public enum DecisionOutcome {
        /** There is no outcome yet, or there was nothing to charge. */
        NONE,

        /** The request may proceed. */
        ALLOWED,

        /** A limit has denied the request. */
        DENIED,

        /** The request was denied because it has no key. */
        REFUSED,

        /** No decision could be made. */
        UNDECIDED,

        /** The subscription was cancelled before there was a decision. */
        CANCELLED
    }

    private final List<RuleMatch> matches;

    // Written sequentially, but on several threads.
    private volatile List<Rule> deniedBy = List.of();
    private volatile List<Rule> undecidedRules = List.of();
    private volatile @Nullable Throwable whyUndecided;
    private volatile @Nullable Decision decision;
    private volatile boolean refused;
    private volatile boolean cancelled;

    DecisionObservationContext(List<RuleMatch> matches) {
        this.matches = matches;
    }

    /**
     * Returns the request with the rules that decide together. For conventions that need it; take care, because the
     * request contains what the client has sent.
     *
     * @return the request, with each of the rules
     */
    public List<RuleMatch> matches() {
        return matches;
    }

    /**
     * Returns the rules that decide together.
     *
     * @return the rules
     */
    public List<Rule> rules() {
        return matches.stream().map(RuleMatch::rule).toList();
    }

    /**
     * Returns whether the decision is that of a shadow rule, which has no effect on the request.
     *
     * @return true for a shadow rule
     */
    public boolean isShadow() {
        return matches.get(0).rule().isShadow();
    }

    /**
     * Returns the outcome.
     *
     * @return the outcome for all rules together
     */
    public DecisionOutcome outcome() {
        Decision made = decision;
        if (made != null) {
            return made.isAllowed() ? DecisionOutcome.ALLOWED : DecisionOutcome.DENIED;
        }
        if (cancelled) {
            return DecisionOutcome.CANCELLED;
        }
        if (refused) {
            return DecisionOutcome.REFUSED;
        }
        return whyUndecided == null ? DecisionOutcome.NONE : DecisionOutcome.UNDECIDED;
    }

    /**
     * Returns the decision.
     *
     * @return the decision; empty if there is none
     */
    public Optional<Decision> decision() {
        return Optional.ofNullable(decision);
    }

    /**
     * Returns the rules that have denied the request.
     *
     * @return the rules of which a limit has denied the request, or which need a key that it does not have
     */
    public List<Rule> deniedBy() {
        return deniedBy;
    }

    /**
     * Returns why a rule could not be decided. The message may contain what the client has sent.
     *
     * @return the error; empty if there was none
     */
    public Optional<Throwable> undecided() {
        return Optional.ofNullable(whyUndecided);
    }

    void decided(RuleMatch match, RuleListener.Outcome outcome, Decision made) {
        decision = made;
        if (outcome == RuleListener.Outcome.DENIED) {
            deniedBy = with(deniedBy, match.rule());
        }
    }

    void refused(RuleMatch match) {
        refused = true;
        deniedBy = with(deniedBy, match.rule());
    }

    void undecided(RuleMatch match, Throwable cause) {
        undecidedRules = with(undecidedRules, match.rule());
        whyUndecided = whyUndecided == null ? cause : whyUndecided;
    }

    void cancelled() {
        cancelled = true;
    }

    /** Returns the error for a trace; null if there was none. */
    @Nullable
    UndecidedException error() {
        Throwable cause = whyUndecided;
        if (cause instanceof RuleLookupException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause == null
                ? null
                : new UndecidedException(
                        names(undecidedRules) + ": " + cause.getClass().getName());
    }

    static String names(List<Rule> rules) {
        return rules.stream().map(Rule::name).collect(Collectors.joining(","));
    }

    private static List<Rule> with(List<Rule> rules, Rule rule) {
        List<Rule> more = new ArrayList<>(rules);
        more.add(rule);
        return List.copyOf(more);
    }
}
