package io.github.spillgate.http;

import io.github.spillgate.Decision;
import java.time.Duration;
import java.util.List;
import reactor.core.Exceptions;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/**
 * Several listeners as one. Each is told by itself, so that none keeps another from hearing.
 *
 * @param all who hears, in this order
 */
record Listeners(List<RuleListener> all) implements RuleListener {

    @Override
    public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
        all.forEach(listener -> tell(() -> listener.decided(match, outcome, decision, took)));
    }

    @Override
    public void refused(Match match) {
        all.forEach(listener -> tell(() -> listener.refused(match)));
    }

    @Override
    public void undecided(Match match, Throwable why) {
        all.forEach(listener -> tell(() -> listener.undecided(match, why)));
    }

    /** What a listener throws is its own affair: the request goes on. */
    static void tell(Runnable listener) {
        try {
            listener.run();
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            Operators.onErrorDropped(e, Context.empty());
        }
    }
}
