package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import java.time.Duration;
import java.util.List;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.ConnectableFlux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.context.ContextView;

/**
 * Tries shadow rules out on a request without changing what becomes of it: each is decided by itself, and nobody waits
 * for it.
 *
 * <p>They are looked up when the enforced ones are, because functions of the user's belong where the request is, and
 * the verdict may come somewhere else. They charge when that has allowed: before, they would count requests that never
 * come through.
 */
final class Trials {

    private static final Trials NONE = new Trials(List.of());

    private final List<One> all;

    private Trials(List<One> all) {
        this.all = all;
    }

    static Trials of(
            RateLimiter limiter, Duration lookupTime, List<Match> shadows, RuleListener listener, ContextView context) {
        return shadows.isEmpty()
                ? NONE
                : new Trials(shadows.stream()
                        .map(match -> new One(limiter, lookupTime, match, listener, context))
                        .toList());
    }

    /** Begins, on the thread on which this is called. */
    void lookUp() {
        all.forEach(One::lookUp);
    }

    /** Goes on, because the verdict allows: each charges now, or as soon as it is looked up. */
    List<Verdict.Trial> charge() {
        return all.isEmpty() ? List.of() : all.stream().map(One::charge).toList();
    }

    /** Gives up, if the verdict has not allowed by now: it has denied, or nobody waits for it any more. */
    void end() {
        all.forEach(One::end);
    }

    private static final class One {

        private final RateLimiter limiter;
        private final Duration lookupTime;
        private final Match match;
        private final ConnectableFlux<Decision> decision;
        private final Disposable.Swap connection = Disposables.swap();
        private final Sinks.Empty<Void> allowed = Sinks.empty();
        private volatile boolean isAllowed;

        One(RateLimiter limiter, Duration lookupTime, Match match, RuleListener listener, ContextView context) {
            this.limiter = limiter;
            this.lookupTime = lookupTime;
            this.match = match;
            this.decision = Mono.defer(() -> Listeners.watched(listener, List.of(match), context, this::decide))
                    .contextWrite(context)
                    .flux()
                    .replay(1);
        }

        void lookUp() {
            connection.update(decision.connect());
        }

        Verdict.Trial charge() {
            isAllowed = true;
            allowed.tryEmitEmpty();
            return new Verdict.Trial(match.rule(), limiter, decision.next());
        }

        void end() {
            if (!isAllowed) {
                connection.dispose();
            }
        }

        private Mono<Decision> decide(RuleListener hearing) {
            long since = Rules.now();
            return Lookup.ask(match, lookupTime)
                    .flatMap(demand -> {
                        // How long the others take is no part of it.
                        long took = Rules.now() - since;
                        return allowed.asMono().then(Mono.defer(() -> charge(demand, Rules.now() - took, hearing)));
                    })
                    .doOnError(why -> Listeners.tell(() -> hearing.undecided(match, why)));
        }

        private Mono<Decision> charge(Demand demand, long since, RuleListener hearing) {
            Listeners.lookupsFailed(hearing, demand);
            if (demand.why() != null) {
                return Mono.error(demand.why());
            }
            if (demand.isRefused()) {
                Listeners.tell(() -> hearing.refused(match));
            }
            return demand.charge() == null
                    ? Mono.empty()
                    : limiter.tryAcquire(demand.charge())
                            .doOnNext(made -> Listeners.decided(hearing, demand, made, Rules.now() - since));
        }
    }
}
