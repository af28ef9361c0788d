package io.github.spillgate.metrics;

import io.github.spillgate.Decision;
import io.github.spillgate.http.Match;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.RuleListener;
import io.github.spillgate.http.RuleLookupException;
import io.micrometer.observation.Observation;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** What is known of a decision that is observed: at the start which rules are asked, at the end what came of it. */
public final class DecisionObservationContext extends Observation.Context {

    /** What came of a decision. */
    public enum Outcome {
        /** Nothing as yet; or there was nothing to charge. */
        NONE,

        /** The request may go on. */
        ALLOWED,

        /** A limit has denied it. */
        DENIED,

        /** It was denied because it has no key. */
        REFUSED,

        /** Nothing could be decided. */
        UNDECIDED,

        /** Nobody has waited for it. */
        CANCELLED
    }

    private final List<Match> matches;

    // One after the other, but not on one thread.
    private volatile List<Rule> deniedBy = List.of();
    private volatile List<Rule> undecided = List.of();
    private volatile @Nullable Throwable why;
    private volatile @Nullable Decision decision;
    private volatile boolean refused;
    private volatile boolean cancelled;

    DecisionObservationContext(List<Match> matches) {
        this.matches = matches;
    }

    /**
     * Returns what it is about. For conventions that know what they do: the request has in it what the client has sent.
     *
     * @return the request, and the rules that are asked together
     */
    public List<Match> matches() {
        return matches;
    }

    /**
     * Returns who is asked.
     *
     * @return the rules that are asked together
     */
    public List<Rule> rules() {
        return matches.stream().map(Match::rule).toList();
    }

    /**
     * Returns whether it is of no consequence.
     *
     * @return true if it is that of a shadow rule
     */
    public boolean isShadow() {
        return matches.get(0).rule().isShadow();
    }

    /**
     * Returns what came of it.
     *
     * @return the outcome for all rules together
     */
    public Outcome outcome() {
        Decision made = decision;
        if (made != null) {
            return made.isAllowed() ? Outcome.ALLOWED : Outcome.DENIED;
        }
        if (cancelled) {
            return Outcome.CANCELLED;
        }
        if (refused) {
            return Outcome.REFUSED;
        }
        return why == null ? Outcome.NONE : Outcome.UNDECIDED;
    }

    /**
     * Returns what was decided.
     *
     * @return the decision; empty if there is none
     */
    public Optional<Decision> decision() {
        return Optional.ofNullable(decision);
    }

    /**
     * Returns who has denied.
     *
     * @return those of the rules of which a limit has denied, or that want a key
     */
    public List<Rule> deniedBy() {
        return deniedBy;
    }

    /**
     * Returns why nothing could be decided for a rule. Its message may have in it what the client has sent.
     *
     * @return what went wrong; empty if nothing did
     */
    public Optional<Throwable> undecided() {
        return Optional.ofNullable(why);
    }

    void decided(Match match, RuleListener.Outcome outcome, Decision made) {
        decision = made;
        if (outcome == RuleListener.Outcome.DENIED) {
            deniedBy = with(deniedBy, match.rule());
        }
    }

    void refused(Match match) {
        refused = true;
        deniedBy = with(deniedBy, match.rule());
    }

    void undecided(Match match, Throwable cause) {
        undecided = with(undecided, match.rule());
        why = why == null ? cause : why;
    }

    void cancelled() {
        cancelled = true;
    }

    @Nullable
    UndecidedException error() {
        Throwable cause = why;
        if (cause instanceof RuleLookupException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause == null
                ? null
                : new UndecidedException(
                        names(undecided) + ": " + cause.getClass().getName());
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
