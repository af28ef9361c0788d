package io.github.spillgate.http;

import io.github.spillgate.Decision;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * A listener of the decisions of rules, including shadow rules: for metrics, logs or an audit. It is called while each
 * request is processed, so it must be fast and must not block. Its exceptions are dropped.
 */
@FunctionalInterface
public interface RuleListener {

    /** What a decision means for one of its rules. */
    enum Outcome {
        /** All rules of the decision have allowed the request. */
        ALLOWED,

        /** The rule has denied the request. */
        DENIED,

        /** Another rule has denied the request, so nothing was charged under this one. */
        DENIED_BY_OTHERS
    }

    /**
     * Returns a listener that calls several listeners, each independently of exceptions of the others.
     *
     * @param listeners the listeners, in order of their calls; the collection is copied
     * @return the listener
     */
    static RuleListener all(Collection<? extends RuleListener> listeners) {
        Objects.requireNonNull(listeners, "listeners are null: expected some, for example List.of(metrics)");
        listeners.forEach(listener -> Objects.requireNonNull(listener, "a listener is null: expected one"));
        return new Listeners(List.copyOf(listeners));
    }

    /**
     * Returns a listener that logs possible misconfigurations, each once: a request has {@code X-Forwarded-For}
     * although no proxy is trusted, a lookup fails, or no decision is possible. Adapters add it when they are
     * configured by settings; with {@link Rules} of your own, add it yourself.
     *
     * @param keys the syntax of keys, which contains the trusted proxies of {@code address}
     * @param remedy the setting that fixes it, for example {@code client-address.header}
     * @return the listener
     */
    static RuleListener doubts(KeySyntax keys, String remedy) {
        Objects.requireNonNull(keys, "keys are null: expected a syntax, for example KeySyntax.of(client)");
        Objects.requireNonNull(remedy, "remedy is null: expected a setting, for example client-address.header");
        return new SettingsDoubt(keys.client(), remedy);
    }

    /**
     * Called after a decision. A decision on several rules is reported for each of them.
     *
     * @param match the request and the rule
     * @param outcome what the decision means for the rule
     * @param decision the decision
     * @param took its duration, including lookups
     */
    void decided(Match match, Outcome outcome, Decision decision, Duration took);

    /**
     * Called after a request was denied because it has no key.
     *
     * @param match the request and the rule
     */
    default void refused(Match match) {}

    /**
     * Called after limits or a cost could not be looked up. If those of the rule apply instead, a call of {@link
     * #decided decided} follows; if the rule leaves the request undecided, a call of {@link #undecided undecided}
     * follows.
     *
     * @param match the request and the rule
     * @param why which lookup failed, and why
     */
    default void lookupFailed(Match match, RuleLookupException why) {}

    /**
     * Called after no decision was possible for a rule.
     *
     * @param match the request and the rule
     * @param why the reason; a {@link RuleLookupException} if limits or a cost could not be looked up
     */
    default void undecided(Match match, Throwable why) {}

    /**
     * Called before rules are applied. A listener that follows a decision to its end, as a trace does, returns a {@link
     * Watch}. By default it returns null.
     *
     * @param matches the request and the rules that are decided together; a shadow rule is decided alone
     * @param context the Reactor Context of the subscriber
     * @return the watch; null for none
     */
    default @Nullable Watch watch(List<Match> matches, ContextView context) {
        return null;
    }

    /**
     * A listener of one decision, from before its lookups. It gets the same calls as other listeners for this decision,
     * and then exactly one call of {@link #ended()} or {@link #cancelled()}.
     */
    interface Watch extends RuleListener {

        /**
         * Returns the Reactor Context for the functions and the store that take part in the decision.
         *
         * @param context the Reactor Context of the subscriber
         * @return the same context, or one with additional entries
         */
        default Context context(Context context) {
            return context;
        }

        /**
         * Called when the decision has ended, before the request goes on; also if there was nothing to decide, or if no
         * decision was possible.
         */
        void ended();

        /**
         * Called when the subscriber has cancelled, for example because the client has disconnected. The permits may
         * have been taken. A shadow rule also ends in this way if the other rules have not allowed the request; it has
         * taken nothing then.
         */
        void cancelled();
    }
}
