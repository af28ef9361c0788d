package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/** The result of the rules of one phase for a request. */
public final class Verdict {

    private static final Verdict NONE = new Verdict(null, null, null, List.of(), List.of());

    private final @Nullable RateLimiter limiter;
    private final @Nullable Decision decision;
    private final @Nullable Problem problem;
    private final List<Demand> charged;
    private final List<Trial> trials;
    private final AtomicBoolean completed = new AtomicBoolean();

    private Verdict(
            @Nullable RateLimiter limiter,
            @Nullable Decision decision,
            @Nullable Problem problem,
            List<Demand> charged,
            List<Trial> trials) {
        this.limiter = limiter;
        this.decision = decision;
        this.problem = problem;
        this.charged = charged;
        this.trials = trials;
    }

    /** No rule applies. */
    static Verdict none() {
        return NONE;
    }

    /** The request is denied, and nothing was charged. */
    static Verdict refusal(Problem problem) {
        return new Verdict(null, null, problem, List.of(), List.of());
    }

    /** No enforced rule needed a decision; there may be shadow rules. */
    static Verdict withoutDecision(List<Trial> trials) {
        return trials.isEmpty() ? NONE : new Verdict(null, null, null, List.of(), trials);
    }

    /** The joint decision of the enforced rules. */
    static Verdict of(RateLimiter limiter, Decision decision, List<Demand> charged, List<Trial> trials) {
        Problem problem = decision.isAllowed() ? null : Problem.of(List.of(decision));
        return new Verdict(limiter, decision, problem, charged, trials);
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
     * Returns whether {@link #completed(int)} may refund permits.
     *
     * @return true if the status of the response matters to a rule
     */
    public boolean dependsOnStatus() {
        return charged.stream().anyMatch(demand -> demand.rule().refundsSometimes())
                || trials.stream().anyMatch(trial -> trial.rule.refundsSometimes());
    }

    /**
     * Refunds the permits of the rules that refund on this status. For an allowed request, when its response is sent.
     * Idempotent: further calls do nothing.
     *
     * @param status the status of the response
     * @return completes when the permits are refunded
     */
    public Mono<Void> completed(int status) {
        return Mono.defer(() -> {
            if (!dependsOnStatus() || !completed.compareAndSet(false, true)) {
                return Mono.empty();
            }
            // The response does not wait for the refunds of shadow rules.
            trials.forEach(trial -> trial.giveBack(status).subscribe(null, e -> {}));
            return giveBack(status);
        });
    }

    private Mono<Void> giveBack(int status) {
        if (limiter == null || decision == null || !decision.isCharged()) {
            return Mono.empty();
        }
        Set<Limit> given = new HashSet<>();
        for (Demand demand : charged) {
            if (demand.charge() != null && gives(demand.rule(), status)) {
                given.addAll(demand.charge().limits());
            }
        }
        return limiter.refund(decision, usage -> given.contains(usage.limit()));
    }

    private static boolean gives(Rule rule, int status) {
        try {
            return rule.refundsWhen(status);
        } catch (RuntimeException e) {
            // A user's function failed; the other rules are not affected.
            Operators.onErrorDropped(e, Context.empty());
            return false;
        }
    }

    /** Returns the verdict for a log. */
    @Override
    public String toString() {
        return "Verdict[" + (isAllowed() ? "allowed" : "denied") + ", " + decision + "]";
    }

    /**
     * The decision of a shadow rule.
     *
     * @param rule the rule
     * @param limiter the limiter
     * @param decision the decision, which may still be in flight
     */
    record Trial(Rule rule, RateLimiter limiter, Mono<Decision> decision) {

        private Mono<Void> giveBack(int status) {
            return gives(rule, status) ? decision.flatMap(limiter::refund) : Mono.empty();
        }
    }
}
