package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.ResolvedCharge.Refusal;
import io.github.spillgate.http.Rule.WhenUndecided;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.internal.Scalars;
import io.github.spillgate.internal.Time;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Mono;

/**
 * The decision on one request that rules match. It looks up what each rule charges, charges all of them together, and
 * returns the verdict. The methods are in the order in which they run.
 */
final class RequestDecision {
    // Design notes.
    //
    // Enforced rules are one atomic decision. Shadow rules are decided one by one beside it, and no request waits for
    // one. They are looked up right after the enforced rules, because functions of the user run where the request is
    // handled, and the verdict may be emitted elsewhere. They charge only after the verdict has allowed the request, so
    // they do not count requests that never reach the service.
    //
    // A rule is applied once per request, so that a request that is dispatched again within the service is not charged
    // twice. RequestVerdicts keeps which rules were applied, and the denials until one was delivered to the client.

    private final RateLimiter limiter;
    private final RequestVerdicts verdicts;
    private final List<RuleMatch> enforced;
    private final List<ShadowDecision> shadows;
    private final RuleInstrumentation events;
    private final long start = Time.nanos();
    private final Disposable.Swap permits = Disposables.swap();
    private volatile boolean isEnded;

    private RequestDecision(
            RateLimiter limiter,
            RequestVerdicts verdicts,
            List<RuleMatch> enforced,
            List<ShadowDecision> shadows,
            RuleInstrumentation events) {
        this.limiter = limiter;
        this.verdicts = verdicts;
        this.enforced = enforced;
        this.shadows = shadows;
        this.events = events;
    }

    /**
     * Decides on a request. Each subscription is one decision.
     *
     * @param matches the rules that match the request, at least one
     * @return the verdict; never an error
     */
    static Mono<Verdict> of(RateLimiter limiter, RuleInstrumentation events, Request request, List<RuleMatch> matches) {
        return Mono.deferContextual(context -> {
            RequestVerdicts verdicts = request.verdicts();
            List<RuleMatch> fresh = notYetApplied(matches, verdicts);
            if (fresh.isEmpty()) {
                return Mono.just(earlierVerdict(matches, verdicts));
            }
            events.inspect(request);
            List<RuleMatch> enforced = new ArrayList<>(fresh.size());
            List<ShadowDecision> shadows = new ArrayList<>(0);
            for (RuleMatch match : fresh) {
                if (match.rule().isShadow()) {
                    shadows.add(new ShadowDecision(limiter, events, verdicts, match, context));
                } else {
                    enforced.add(match);
                }
            }
            RuleInstrumentation withSpans = enforced.isEmpty() ? events : events.start(enforced, context);
            return new RequestDecision(limiter, verdicts, enforced, shadows, withSpans).decide();
        });
    }

    private static List<RuleMatch> notYetApplied(List<RuleMatch> matches, RequestVerdicts verdicts) {
        List<RuleMatch> fresh = new ArrayList<>(matches.size());
        for (RuleMatch match : matches) {
            if (verdicts.isNew(match.rule())) {
                fresh.add(match);
            }
        }
        return fresh;
    }

    /** A request that was denied is denied again until the denial has been delivered. */
    private static Verdict earlierVerdict(List<RuleMatch> matches, RequestVerdicts verdicts) {
        for (RuleMatch match : matches) {
            Verdict denial = verdicts.denial(match.rule());
            if (denial != null) {
                return denial;
            }
        }
        return Verdict.none();
    }

    private Mono<Verdict> decide() {
        return (enforced.isEmpty() ? decideShadowsOnly() : events.traced(this::lookUp))
                .doOnNext(this::end)
                .doOnCancel(this::cancel);
    }

    private Mono<Verdict> decideShadowsOnly() {
        shadows.forEach(ShadowDecision::lookUp);
        return Mono.just(Verdict.withoutDecision(chargeShadows()));
    }

    private Mono<Verdict> lookUp() {
        Mono<List<ResolvedCharge>> resolved = ChargeResolver.resolveAll(enforced, start);
        return ChargeResolver.whenResolved(thenLookUpShadows(resolved), found -> {
            found.forEach(events::lookupsFailed);
            return refuseOrCharge(found);
        });
    }

    /** Starts the lookups of shadow rules on the subscribing thread, after those of the enforced rules. */
    private Mono<List<ResolvedCharge>> thenLookUpShadows(Mono<List<ResolvedCharge>> resolved) {
        if (shadows.isEmpty()) {
            return resolved;
        }
        Runnable lookUp = () -> shadows.forEach(ShadowDecision::lookUp);
        if (Scalars.isScalar(resolved)) {
            lookUp.run();
            return resolved;
        }
        return resolved.zipWith(Mono.fromRunnable(lookUp).thenReturn(true), (found, isStarted) -> found);
    }

    /** Denies the request if a rule refuses it or cannot be decided, without a charge; else charges all rules. */
    private Mono<Verdict> refuseOrCharge(List<ResolvedCharge> rules) {
        List<ResolvedCharge> charged = new ArrayList<>(rules.size());
        List<Limit> refused = new ArrayList<>(0);
        boolean isDenied = false;
        boolean isAmbiguous = false;
        for (ResolvedCharge resolved : rules) {
            Throwable error = resolved.error();
            if (error != null) {
                events.undecided(resolved.match(), error);
                isDenied |= resolved.rule().whenUndecided() == WhenUndecided.DENY;
            } else if (resolved.refusal() != null) {
                events.refused(resolved.match());
                refused.addAll(resolved.rule().limits());
                isAmbiguous |= resolved.refusal() == Refusal.AMBIGUOUS_KEY;
            } else if (resolved.charge() != null) {
                charged.add(resolved);
            }
        }
        if (isAmbiguous) {
            return Mono.just(Verdict.refusal(Problem.ambiguousKey()));
        }
        if (isDenied) {
            return Mono.just(Verdict.refusal(Problem.undecided()));
        }
        if (!refused.isEmpty()) {
            return Mono.just(Verdict.refusal(Problem.withoutKey(refused)));
        }
        return charged.isEmpty() ? Mono.just(Verdict.withoutDecision(chargeShadows())) : charge(charged);
    }

    private Mono<Verdict> charge(List<ResolvedCharge> charged) {
        Charge[] charges = new Charge[charged.size()];
        Arrays.setAll(charges, i -> charged.get(i).requireCharge());
        Mono<Decision> decision;
        try {
            decision = limiter.tryAcquire(charges);
        } catch (IllegalArgumentException e) {
            return charged.stream().anyMatch(ResolvedCharge::hasFoundLimits)
                    ? refuseOrCharge(withOwnLimits(charged, e))
                    : Mono.just(undecided(charged, new ImpossibleVerdictException(e)));
        }
        return decision.map(made -> decided(charged, made)).onErrorResume(e -> Mono.just(undecided(charged, e)));
    }

    /** If limits that were looked up conflict with those of other rules, the rule's own limits apply instead. */
    private List<ResolvedCharge> withOwnLimits(List<ResolvedCharge> charged, IllegalArgumentException conflict) {
        List<ResolvedCharge> own = new ArrayList<>(charged.size());
        for (ResolvedCharge resolved : charged) {
            if (resolved.hasFoundLimits()) {
                ResolvedCharge changed = resolved.withOwnLimits(conflict);
                events.lookupsFailed(changed);
                own.add(changed);
            } else {
                own.add(resolved);
            }
        }
        return own;
    }

    private Verdict decided(List<ResolvedCharge> charged, Decision decision) {
        long took = Time.nanos() - start;
        hold(charged, decision);
        for (ResolvedCharge resolved : charged) {
            events.decided(resolved, decision, took);
        }
        return Verdict.of(limiter, decision, charged, decision.isAllowed() ? chargeShadows() : List.of());
    }

    /** Holds the permits of concurrency limits from now on. If the caller has cancelled, they are released at once. */
    private void hold(List<ResolvedCharge> charged, Decision decision) {
        if (decision.isCharged() && isAnyHold(charged)) {
            Disposable held = limiter.keepHolding(decision, why -> events.expired(charged, why));
            verdicts.hold(held);
            permits.update(held);
        }
    }

    private static boolean isAnyHold(List<ResolvedCharge> charged) {
        for (ResolvedCharge resolved : charged) {
            if (resolved.isHold()) {
                return true;
            }
        }
        return false;
    }

    private List<ShadowDecision> chargeShadows() {
        shadows.forEach(ShadowDecision::charge);
        return shadows;
    }

    /**
     * If the rules cannot be one decision, for example because they have too many counts, deny: a client must not evade
     * the limits by matching more rules.
     */
    private Verdict undecided(List<ResolvedCharge> charged, Throwable error) {
        boolean isDenied = error instanceof ImpossibleVerdictException;
        for (ResolvedCharge resolved : charged) {
            events.undecided(resolved.match(), error);
            isDenied |= resolved.rule().whenUndecided() == WhenUndecided.DENY;
        }
        return isDenied ? Verdict.refusal(Problem.undecided()) : Verdict.none();
    }

    private void end(Verdict verdict) {
        shadows.forEach(ShadowDecision::end);
        if (!verdict.isAllowed()) {
            enforced.forEach(match -> verdicts.denied(match.rule(), verdict));
            // Permits that earlier phases hold: the request goes no further.
            verdicts.releaseHeld();
        }
        isEnded = true;
    }

    /** Without a verdict, releases permits and forgets the rules: they apply if the caller subscribes again. */
    private void cancel() {
        if (!isEnded) {
            permits.dispose();
            shadows.forEach(ShadowDecision::end);
            enforced.forEach(match -> verdicts.forget(match.rule()));
            shadows.forEach(shadow -> verdicts.forget(shadow.rule()));
        }
    }

    /** The rules cannot be one verdict, because their limits are too many or would share a count. */
    static final class ImpossibleVerdictException extends IllegalArgumentException {

        private static final long serialVersionUID = 1L;

        ImpossibleVerdictException(IllegalArgumentException why) {
            super(why.getMessage(), why);
        }
    }
}
