package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Time;
import java.util.List;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.ConnectableFlux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.context.ContextView;

/** The decision of one shadow rule on a request. */
final class ShadowDecision {

    private final RateLimiter limiter;
    private final RequestVerdicts verdicts;
    private final RuleMatch match;
    private final ConnectableFlux<Decision> decision;
    private final Disposable.Swap connection = Disposables.swap();
    private final Sinks.Empty<Void> allowed = Sinks.empty();
    private volatile boolean isAllowed;

    /**
     * Creates a decision that has not started.
     *
     * @param events the receivers of the events of all decisions
     * @param verdicts the verdicts on the request
     * @param context the Reactor Context of the request
     */
    ShadowDecision(
            RateLimiter limiter,
            RuleInstrumentation events,
            RequestVerdicts verdicts,
            RuleMatch match,
            ContextView context) {
        this.limiter = limiter;
        this.verdicts = verdicts;
        this.match = match;
        this.decision = Mono.defer(() -> {
                    RuleInstrumentation withSpans = events.start(List.of(match), context);
                    return withSpans.traced(() -> decide(withSpans));
                })
                .contextWrite(context)
                .flux()
                .replay(1);
    }

    Rule rule() {
        return match.rule();
    }

    /** Starts the lookups. */
    void lookUp() {
        connection.update(decision.connect());
    }

    /** Lets the rule charge when its lookups end. */
    void charge() {
        isAllowed = true;
        allowed.tryEmitEmpty();
    }

    /** Cancels the lookups, unless the rule was allowed to charge. */
    void end() {
        if (!isAllowed) {
            connection.dispose();
        }
    }

    /** Refunds what the rule has taken, except permits that it holds, as soon as it is decided. */
    Mono<Void> refund() {
        return decision.next()
                .flatMap(made -> limiter.refund(made, usage -> !usage.limit().holdsPermits()));
    }

    /** Settles the real cost, as soon as the rule is decided. */
    Mono<Void> settle(long actual) {
        return decision.next().flatMap(made -> limiter.settle(made, actual));
    }

    private Mono<Decision> decide(RuleInstrumentation events) {
        long start = Time.nanos();
        return ChargeResolver.resolve(match, start)
                .flatMap(resolved -> {
                    // The time for which the rule waits for the enforced rules does not count as its own.
                    long took = Time.nanos() - start;
                    return allowed.asMono().then(Mono.defer(() -> charge(resolved, Time.nanos() - took, events)));
                })
                .doOnError(error -> events.undecided(match, error));
    }

    private Mono<Decision> charge(ResolvedCharge resolved, long start, RuleInstrumentation events) {
        events.lookupsFailed(resolved);
        if (resolved.error() != null) {
            return Mono.error(resolved.error());
        }
        if (resolved.refusal() != null) {
            events.refused(match);
        }
        Charge charge = withoutBans(resolved.charge());
        return charge == null
                ? Mono.empty()
                : limiter.tryAcquire(charge).doOnNext(made -> {
                    hold(resolved, made, events);
                    events.decided(resolved, made, Time.nanos() - start);
                });
    }

    /** A ban would outlast the trial of the rule, and deny requests as soon as that is enforced. */
    private static @Nullable Charge withoutBans(@Nullable Charge charge) {
        if (charge == null || charge.limits().stream().allMatch(Limit::takesPermits)) {
            return charge;
        }
        List<Limit> limits =
                charge.limits().stream().filter(Limit::takesPermits).toList();
        Charge other = Charge.of(charge.key(), limits).permits(charge.permits());
        return limits.isEmpty() ? null : charge.group().map(other::group).orElse(other);
    }

    /** Holds permits as an enforced rule does, so that the rule reports the requests that it would deny. */
    private void hold(ResolvedCharge resolved, Decision made, RuleInstrumentation events) {
        if (made.isCharged() && resolved.isHold()) {
            verdicts.hold(limiter.keepHolding(made, why -> events.expired(List.of(resolved), why)));
        }
    }
}
