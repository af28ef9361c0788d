package io.github.spillgate.http;

import io.github.spillgate.RateLimiter;
import java.time.Duration;
import java.util.List;
import reactor.core.publisher.Mono;
import reactor.util.context.ContextView;

/**
 * The shadow rules that match a request. Each is decided alone, and no request waits for one.
 *
 * <p>They are looked up together with the enforced rules, because functions of the user run where the request is
 * handled, and the verdict may be emitted elsewhere. They charge after the verdict has allowed the request: earlier,
 * they would count requests that never reach the service.
 */
final class ShadowRules {

    private static final ShadowRules NONE = new ShadowRules(List.of(), List.of());

    private final List<RuleMatch> matches;
    private final List<ShadowDecision> decisions;

    private ShadowRules(List<RuleMatch> matches, List<ShadowDecision> decisions) {
        this.matches = matches;
        this.decisions = decisions;
    }

    static ShadowRules of(
            RateLimiter limiter,
            Duration longestLookup,
            DecisionEvents events,
            List<RuleMatch> matches,
            ContextView context) {
        return matches.isEmpty()
                ? NONE
                : new ShadowRules(
                        matches,
                        matches.stream()
                                .map(match -> new ShadowDecision(limiter, longestLookup, events, match, context))
                                .toList());
    }

    List<RuleMatch> matches() {
        return matches;
    }

    /** Starts the lookups on the calling thread. */
    void lookUp() {
        decisions.forEach(ShadowDecision::lookUp);
    }

    /** Starts the lookups on the subscribing thread, after those of the enforced rules have been started. */
    Mono<List<RuleCharge>> lookUpAfter(Mono<List<RuleCharge>> enforced) {
        if (decisions.isEmpty()) {
            return enforced;
        }
        if (Scalars.isScalar(enforced)) {
            lookUp();
            return enforced;
        }
        return enforced.zipWith(Mono.fromRunnable(this::lookUp).thenReturn(true), (charges, isStarted) -> charges);
    }

    /** Lets the rules charge, because the verdict allows the request: now, or when their lookups end. */
    List<ShadowDecision> charge() {
        decisions.forEach(ShadowDecision::charge);
        return decisions;
    }

    /** Cancels the lookups, unless the rules were allowed to charge. */
    void end() {
        decisions.forEach(ShadowDecision::end);
    }
}
