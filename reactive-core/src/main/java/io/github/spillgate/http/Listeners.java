package io.github.spillgate.http;

import io.github.spillgate.Decision;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

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

    @Override
    public void lookupFailed(Match match, RuleLookupException why) {
        all.forEach(listener -> tell(() -> listener.lookupFailed(match, why)));
    }

    @Override
    public @Nullable Watch watch(List<Match> matches, ContextView context) {
        List<Watch> watches = List.of();
        for (RuleListener listener : all) {
            Watch watch = watch(listener, matches, context);
            if (watch != null) {
                watches = watches.isEmpty() ? new ArrayList<>(all.size()) : watches;
                watches.add(watch);
            }
        }
        return watches.isEmpty() ? null : new Watches(watches, new Listeners(List.copyOf(watches)));
    }

    static void tell(Runnable listener) {
        ask(() -> {
            listener.run();
            return null;
        });
    }

    /** Tells what a decision means for one of the rules that it was made for. */
    static void decided(RuleListener listener, Demand demand, Decision decision, long tookNanos) {
        Duration took = Duration.ofNanos(Math.max(0, tookNanos));
        tell(() -> listener.decided(demand.match(), demand.outcome(decision), decision, took));
    }

    /** Tells which lookups failed. */
    static void lookupsFailed(RuleListener listener, Demand demand) {
        demand.failures().forEach(why -> tell(() -> listener.lookupFailed(demand.match(), why)));
    }

    /**
     * Lets a listener follow a decision, if he wants to. He hears how it has ended before the request goes on, so that
     * what is done then is no part of it.
     *
     * @param decide decides, and tells whom it is given
     */
    static <T> Mono<T> watched(
            RuleListener listener, List<Match> matches, ContextView context, Function<RuleListener, Mono<T>> decide) {
        Watch watch = watch(listener, matches, context);
        if (watch == null) {
            return decide.apply(listener);
        }
        RuleListener both = new Listeners(List.of(listener, watch));
        AtomicBoolean over = new AtomicBoolean();
        return Mono.defer(() -> decide.apply(both))
                .doOnTerminate(() -> once(over, watch::ended))
                .doOnCancel(() -> once(over, watch::cancelled))
                .contextWrite(asking -> context(watch, asking));
    }

    private static void once(AtomicBoolean over, Runnable told) {
        if (over.compareAndSet(false, true)) {
            tell(told);
        }
    }

    private static @Nullable Watch watch(RuleListener listener, List<Match> matches, ContextView context) {
        return ask(() -> listener.watch(matches, context));
    }

    private static Context context(Watch watch, Context context) {
        return Objects.requireNonNullElse(ask(() -> watch.context(context)), context);
    }

    /** What a listener throws is its own affair: the request goes on. */
    private static <T> @Nullable T ask(Supplier<T> listener) {
        try {
            return listener.get();
        } catch (Throwable e) {
            Exceptions.throwIfFatal(e);
            Operators.onErrorDropped(e, Context.empty());
            return null;
        }
    }

    /**
     * Several who follow one decision.
     *
     * @param all they
     * @param listeners they, as listeners
     */
    private record Watches(List<Watch> all, Listeners listeners) implements Watch {

        @Override
        public void decided(Match match, Outcome outcome, Decision decision, Duration took) {
            listeners.decided(match, outcome, decision, took);
        }

        @Override
        public void refused(Match match) {
            listeners.refused(match);
        }

        @Override
        public void undecided(Match match, Throwable why) {
            listeners.undecided(match, why);
        }

        @Override
        public void lookupFailed(Match match, RuleLookupException why) {
            listeners.lookupFailed(match, why);
        }

        @Override
        public Context context(Context context) {
            Context seen = context;
            for (Watch watch : all) {
                seen = Listeners.context(watch, seen);
            }
            return seen;
        }

        @Override
        public void ended() {
            all.forEach(watch -> tell(watch::ended));
        }

        @Override
        public void cancelled() {
            all.forEach(watch -> tell(watch::cancelled));
        }
    }
}
