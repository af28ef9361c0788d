package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.response.Problem;
import io.github.spillgate.internal.Dropped;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Mono;

/** The result of the rules of one phase for a request. */
public final class Verdict {

    private static final Verdict NONE = new Verdict(null, null, null, List.of(), List.of());

    private final @Nullable RateLimiter limiter;
    private final @Nullable Decision decision;
    private final @Nullable Problem problem;
    private final List<ResolvedCharge> charged;
    private final List<ShadowDecision> shadows;
    private final AtomicBoolean refunded = new AtomicBoolean();
    private final AtomicBoolean settled = new AtomicBoolean();

    private Verdict(
            @Nullable RateLimiter limiter,
            @Nullable Decision decision,
            @Nullable Problem problem,
            List<ResolvedCharge> charged,
            List<ShadowDecision> shadows) {
        this.limiter = limiter;
        this.decision = decision;
        this.problem = problem;
        this.charged = charged;
        this.shadows = shadows;
    }

    /** Returns the verdict if no rule applies. */
    static Verdict none() {
        return NONE;
    }

    /** Returns the verdict on a request that is denied without a charge. */
    static Verdict refusal(Problem problem) {
        return new Verdict(null, null, problem, List.of(), List.of());
    }

    /** Returns the verdict if no enforced rule charges the request; shadow rules may. */
    static Verdict withoutDecision(List<ShadowDecision> shadows) {
        return shadows.isEmpty() ? NONE : new Verdict(null, null, null, List.of(), shadows);
    }

    /** Returns the verdict of the enforced rules that were charged together. */
    static Verdict of(
            RateLimiter limiter, Decision decision, List<ResolvedCharge> charged, List<ShadowDecision> shadows) {
        Problem problem = decision.isAllowed() ? null : Problem.of(List.of(decision));
        return new Verdict(limiter, decision, problem, charged, shadows);
    }

    /**
     * Returns the verdict on a request that has failed with a {@link RateLimitedException}, so that an adapter can
     * answer it like a request that a rule denies.
     *
     * @param failure the failure, which Reactor or a {@code CompletableFuture} may have wrapped
     * @return the denial; empty for another failure
     */
    public static Optional<Verdict> ofFailure(@Nullable Throwable failure) {
        Throwable cause = failure == null ? null : Exceptions.unwrap(failure);
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = Exceptions.unwrap(cause.getCause());
        }
        // A deserialized exception has no decision.
        return cause instanceof RateLimitedException limited
                        && limited.decision() != null
                        && !limited.decision().isAllowed()
                ? Optional.of(new Verdict(
                        null, limited.decision(), Problem.of(List.of(limited.decision())), List.of(), List.of()))
                : Optional.empty();
    }

    /**
     * Returns whether the request is allowed.
     *
     * @return true if no rule denies it
     */
    public boolean isAllowed() {
        return problem == null;
    }

    /**
     * Returns the joint decision of the enforced rules.
     *
     * @return the decision; empty if no enforced rule applies, or no decision was possible
     */
    public Optional<Decision> decision() {
        return Optional.ofNullable(decision);
    }

    /**
     * Returns the problem for the response to a denied request.
     *
     * @return the problem; empty if the request is allowed
     */
    public Optional<Problem> problem() {
        return Optional.ofNullable(problem);
    }

    /**
     * Returns whether the response matters to this verdict: it reports the decision, its status may refund permits, or
     * its end settles the real cost.
     *
     * @return true if {@link RequestVerdicts#note(Verdict)} should record this verdict
     */
    public boolean dependsOnResponse() {
        return decision != null || !shadows.isEmpty();
    }

    /** Returns whether the status of the response matters to a rule. */
    boolean dependsOnStatus() {
        // Without streams: this runs for each request.
        for (ResolvedCharge resolved : charged) {
            if (resolved.rule().refundsSometimes()) {
                return true;
            }
        }
        for (ShadowDecision shadow : shadows) {
            if (shadow.rule().refundsSometimes()) {
                return true;
            }
        }
        return false;
    }

    /** Refunds the permits of the rules that refund on this status, once. */
    Mono<Void> refund(int status) {
        return Mono.defer(() -> {
            if (!dependsOnStatus() || !refunded.compareAndSet(false, true)) {
                return Mono.empty();
            }
            // The response does not wait for the refunds of shadow rules.
            shadows.stream()
                    .filter(shadow -> refunds(shadow.rule(), status))
                    .forEach(shadow -> shadow.refund().subscribe(null, e -> {}));
            return refundEnforced(status);
        });
    }

    private Mono<Void> refundEnforced(int status) {
        if (limiter == null || decision == null || !decision.isCharged()) {
            return Mono.empty();
        }
        Set<Limit> limits = new HashSet<>();
        for (ResolvedCharge resolved : charged) {
            if (refunds(resolved.rule(), status)) {
                limits.addAll(resolved.requireCharge().limits());
            }
        }
        return limiter.refund(
                decision,
                // Held permits are returned when the response has ended, whatever its status.
                usage -> !usage.limit().holdsPermits() && limits.contains(usage.limit()));
    }

    /** Returns whether there is a charge to settle. */
    boolean isCharged() {
        return (decision != null && decision.isCharged()) || !shadows.isEmpty();
    }

    /**
     * Settles the real costs of rules, once. What was refunded for the status of the response is not settled.
     *
     * @param costs returns the real cost of a rule; null if it is the one that was charged
     */
    Mono<Void> settle(Function<Rule, @Nullable Long> costs) {
        return Mono.defer(() -> {
            if (!isCharged() || !settled.compareAndSet(false, true)) {
                return Mono.empty();
            }
            for (ShadowDecision shadow : shadows) {
                Long actual = costs.apply(shadow.rule());
                if (actual != null) {
                    shadow.settle(actual).subscribe(null, e -> {});
                }
            }
            return settleEnforced(costs);
        });
    }

    private Mono<Void> settleEnforced(Function<Rule, @Nullable Long> costs) {
        Map<Limit, Long> actual = new HashMap<>();
        for (ResolvedCharge resolved : charged) {
            Long cost = costs.apply(resolved.rule());
            if (cost != null) {
                resolved.requireCharge().limits().forEach(limit -> actual.put(limit, cost));
            }
        }
        return limiter == null || decision == null || actual.isEmpty()
                ? Mono.empty()
                : limiter.settle(decision, usage -> actual.getOrDefault(usage.limit(), usage.cost()));
    }

    private static boolean refunds(Rule rule, int status) {
        try {
            return rule.refundsWhen(status);
        } catch (RuntimeException e) {
            // A function of the user failed; the other rules are not affected.
            Dropped.report(e);
            return false;
        }
    }

    /** Returns the verdict for log messages. */
    @Override
    public String toString() {
        return "Verdict[" + (isAllowed() ? "allowed" : "denied") + ", " + decision + "]";
    }
}
