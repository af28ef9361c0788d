package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** What the rules of one phase say of a request. */
public final class Verdict {

    private static final Verdict NONE = new Verdict(null, null, List.of());

    private final @Nullable Decision decision;
    private final @Nullable Problem problem;
    private final List<Part> parts;
    private final AtomicBoolean completed = new AtomicBoolean();

    private Verdict(@Nullable Decision decision, @Nullable Problem problem, List<Part> parts) {
        this.decision = decision;
        this.problem = problem;
        this.parts = parts;
    }

    /** No rule applies. */
    static Verdict none() {
        return NONE;
    }

    /** The request is turned away, and nothing was charged. */
    static Verdict refusal(Problem problem) {
        return new Verdict(null, problem, List.of());
    }

    /**
     * What was decided, or nothing if there was nothing to decide on.
     *
     * @param decision of the rules that are enforced, which is one
     * @param parts of those and of the others
     */
    static Verdict of(@Nullable Decision decision, List<Part> parts) {
        Problem problem = decision == null || decision.isAllowed() ? null : Problem.of(List.of(decision));
        return new Verdict(decision, problem, parts);
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
        for (Part part : parts) {
            if (part.rule.refundsSometimes()) {
                return true;
            }
        }
        return false;
    }

    /**
     * Gives back what was taken under rules that do so with this status. For a request that went on, when its response has been
     * sent; once, and again it does nothing.
     *
     * @param status the status of the response
     * @return completes when it has been given back
     */
    public Mono<Void> completed(int status) {
        return Mono.defer(() -> {
            if (!dependsOnStatus() || !completed.compareAndSet(false, true)) {
                return Mono.empty();
            }
            List<Mono<Void>> refunds = new ArrayList<>(parts.size());
            for (Part part : parts) {
                if (part.rule.refundsWhen(status)) {
                    refunds.add(part.refund());
                }
            }
            return Mono.whenDelayError(refunds);
        });
    }

    /** Returns the verdict for a log. */
    @Override
    public String toString() {
        return "Verdict[" + (isAllowed() ? "allowed" : "denied") + ", " + decision + "]";
    }

    /**
     * What one rule has charged, for all that is known.
     *
     * @param rule the rule
     * @param limiter who has charged it
     * @param charge what
     * @param decision what was decided; for a rule that is tried out it may still be on its way
     * @param isAlone whether that was decided for this rule only
     */
    record Part(Rule rule, RateLimiter limiter, Charge charge, Mono<Decision> decision, boolean isAlone) {

        private Mono<Void> refund() {
            return decision.filter(made -> made.isCharged() && charge.permits() > 0)
                    .flatMap(made -> isAlone ? limiter.refund(made) : limiter.refund(charge));
        }
    }
}
