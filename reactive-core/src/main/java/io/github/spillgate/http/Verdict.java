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

/** What the rules of one phase say of a request. */
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

    /** The request is turned away, and nothing was charged. */
    static Verdict refusal(Problem problem) {
        return new Verdict(null, null, problem, List.of(), List.of());
    }

    /** There was nothing to decide on but what is tried out. */
    static Verdict withoutDecision(List<Trial> trials) {
        return trials.isEmpty() ? NONE : new Verdict(null, null, null, List.of(), trials);
    }

    /** What was decided for rules, all together. */
    static Verdict of(RateLimiter limiter, Decision decision, List<Demand> charged, List<Trial> trials) {
        Problem problem = decision.isAllowed() ? null : Problem.of(List.of(decision));
        return new Verdict(limiter, decision, problem, charged, trials);
    }

    /**
     * Returns whether the request may go on.
     *
     * @return true if no rule denies it
     */
    public boolean isAllowed() {
        return problem == null;
    }

    /**
     * Returns what was decided by the rules that are enforced, all together.
     *
     * @return the decision; empty if none of them applies, or nothing could be decided
     */
    public Optional<Decision> decision() {
        return Optional.ofNullable(decision);
    }

    /**
     * Returns what the client gets to read instead of an answer.
     *
     * @return the problem; empty if the request may go on
     */
    public Optional<Problem> problem() {
        return Optional.ofNullable(problem);
    }

    /**
     * Returns whether {@link #completed(int)} could give something back.
     *
     * @return whether the status of the response matters to a rule
     */
    public boolean dependsOnStatus() {
        return charged.stream().anyMatch(demand -> demand.rule().refundsSometimes())
                || trials.stream().anyMatch(trial -> trial.rule.refundsSometimes());
    }

    /**
     * Gives back what was taken under rules that do so with this status. For a request that went on, when its response is sent; once,
     * and again it does nothing.
     *
     * @param status the status of the response
     * @return completes when it has been given back
     */
    public Mono<Void> completed(int status) {
        return Mono.defer(() -> {
            if (!dependsOnStatus() || !completed.compareAndSet(false, true)) {
                return Mono.empty();
            }
            // Nobody waits for what is tried out.
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
            // Of a function of the user's, with which the other rules have nothing to do.
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
     * What a rule that is tried out decides.
     *
     * @param rule the rule
     * @param limiter who decides
     * @param decision what was decided; it may still be on its way
     */
    record Trial(Rule rule, RateLimiter limiter, Mono<Decision> decision) {

        private Mono<Void> giveBack(int status) {
            return gives(rule, status) ? decision.flatMap(limiter::refund) : Mono.empty();
        }
    }
}
