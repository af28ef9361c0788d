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
 * Hears what rules decide, shadow rules included: for metrics, logs, an audit. It is called on the way of each request, so it must
 * neither block nor take long; what it throws is dropped.
 */
@FunctionalInterface
public interface RuleListener {

    /** What a decision means for one of the rules that it was made for. */
    enum Outcome {
        /** The request may go on, as far as the rules go that were asked together. */
        ALLOWED,

        /** The rule has denied it. */
        DENIED,

        /** Another rule has denied it, and so nothing was charged under this one. */
        DENIED_BY_OTHERS
    }

    /**
     * Several listeners as one. Each is told by itself: what one throws is dropped, and the others hear all the same.
     *
     * @param listeners who hears, in this order; those that are there now
     * @return a listener that tells them
     */
    static RuleListener all(Collection<? extends RuleListener> listeners) {
        Objects.requireNonNull(listeners, "listeners are null: expected some, for example List.of(metrics)");
        listeners.forEach(listener -> Objects.requireNonNull(listener, "a listener is null: expected one"));
        return new Listeners(List.copyOf(listeners));
    }

    /**
     * Says in the log what looks as if it were meant otherwise, each once: a request with {@code X-Forwarded-For} comes, and no proxy is
     * trusted; something cannot be decided. An adapter has one of these by its settings; who makes {@link Rules} himself may want it, too.
     *
     * @param keys how keys are read, which says whom {@code address} trusts
     * @param remedy what sets that, for example {@code client-address.header}
     * @return a listener that says it
     */
    static RuleListener doubts(KeySyntax keys, String remedy) {
        Objects.requireNonNull(keys, "keys are null: expected a syntax, for example KeySyntax.of(client)");
        Objects.requireNonNull(remedy, "remedy is null: expected a setting, for example client-address.header");
        return new SettingsDoubt(keys.client(), remedy);
    }

    /**
     * Hears of a decision. Where it was made for several rules together, it is told for each of them.
     *
     * @param match the request, and the rule
     * @param outcome what that means for the rule
     * @param decision what was decided
     * @param took how long it took, with what had to be looked up before
     */
    void decided(Match match, Outcome outcome, Decision decision, Duration took);

    /**
     * Hears that a request was denied because it has no key.
     *
     * @param match the request, and the rule
     */
    default void refused(Match match) {}

    /**
     * Hears that limits or a cost could not be looked up. The rule's own hold then, and {@link #decided decided} follows; or nothing can
     * be decided, if the rule says so, and {@link #undecided undecided} follows.
     *
     * @param match the request, and the rule
     * @param why what could not be looked up, and why
     */
    default void lookupFailed(Match match, RuleLookupException why) {}

    /**
     * Hears that nothing could be decided for a rule.
     *
     * @param match the request, and the rule
     * @param why what went wrong; a {@link RuleLookupException} if limits or a cost could not be looked up
     */
    default void undecided(Match match, Throwable why) {}

    /**
     * Hears that rules are about to be asked, and may follow that to its end, as a trace does. By itself it does not.
     *
     * @param matches the request, and the rules that are asked together; a shadow rule is asked alone
     * @param context that of whoever asks
     * @return who follows it; null if nobody does
     */
    default @Nullable Watch watch(List<Match> matches, ContextView context) {
        return null;
    }

    /**
     * Follows one decision, from before anything is looked up for it. Of that one it hears what a listener hears of all, and then how
     * it has ended: by one of {@link #ended()} and {@link #cancelled()}, once.
     */
    interface Watch extends RuleListener {

        /**
         * Returns what those see in their context who are asked on the way: a user's functions, a store.
         *
         * @param context that of whoever asks
         * @return the same, or one with more in it
         */
        default Context context(Context context) {
            return context;
        }

        /** Hears that it is over, before the request goes on; also where there was nothing to decide, or nothing could be decided. */
        void ended();

        /**
         * Hears that nobody waits for it any more, as when a client has hung up: what it was about to take may have been taken. A shadow
         * rule ends so as well where the verdict of the others has not allowed; it has taken nothing then.
         */
        void cancelled();
    }
}
