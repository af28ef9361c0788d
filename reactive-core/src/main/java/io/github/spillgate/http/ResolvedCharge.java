package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.RuleListener.Outcome;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A rule after its lookups for a request: with a charge, nothing to charge, a refusal, or an error.
 *
 * @param match the request and the rule
 * @param charge the charge; null if there is nothing to charge
 * @param error the reason why no decision is possible; null if one is
 * @param refusal why the request is denied without a decision; null if it is not
 * @param failures the failed lookups of limits and cost, whether a decision is possible or not
 */
record ResolvedCharge(
        RuleMatch match,
        @Nullable Charge charge,
        @Nullable Throwable error,
        @Nullable Refusal refusal,
        List<RuleLookupException> failures) {

    /** Why a request is denied without a decision. */
    enum Refusal {
        WITHOUT_KEY,
        AMBIGUOUS_KEY
    }

    /** The key of all requests without a key. Its group separates it from keys that a client can send. */
    private static final String WITHOUT_KEY = "no-key";

    static ResolvedCharge of(RuleMatch match, String key, Collection<Limit> limits, long cost) {
        return of(match, Charge.of(key, limits).permits(cost));
    }

    static ResolvedCharge withoutKey(RuleMatch match, Collection<Limit> limits, long cost) {
        return of(match, Charge.of(WITHOUT_KEY, limits).group(WITHOUT_KEY).permits(cost));
    }

    private static ResolvedCharge of(RuleMatch match, Charge charge) {
        return new ResolvedCharge(match, charge, null, null, List.of());
    }

    static ResolvedCharge nothing(RuleMatch match) {
        return new ResolvedCharge(match, null, null, null, List.of());
    }

    static ResolvedCharge refused(RuleMatch match, Refusal refusal) {
        return new ResolvedCharge(match, null, null, refusal, List.of());
    }

    static ResolvedCharge undecided(RuleMatch match, Throwable error) {
        return new ResolvedCharge(match, null, error, null, List.of());
    }

    Rule rule() {
        return match.rule();
    }

    /** Returns whether the charge is on a concurrency limit, so that its permits are held and not spent. */
    boolean isHold() {
        for (Limit limit : requireCharge().limits()) {
            if (limit.holdsPermits()) {
                return true;
            }
        }
        return false;
    }

    Charge requireCharge() {
        return Objects.requireNonNull(charge);
    }

    /** Returns a copy with failed lookups: undecided if the rule is configured so. */
    ResolvedCharge withFailures(List<RuleLookupException> failed) {
        if (failed.isEmpty()) {
            return this;
        }
        boolean isUndecided = rule().whenLookupFails() == WhenLookupFails.UNDECIDED;
        return new ResolvedCharge(
                match, isUndecided ? null : charge, isUndecided ? failed.get(0) : error, refusal, failed);
    }

    /** Returns whether the limits were looked up and differ from the rule's own. */
    boolean hasFoundLimits() {
        return charge != null && !charge.limits().equals(rule().limits());
    }

    /** Returns a copy with the rule's own limits, because the ones that were looked up cannot be charged. */
    ResolvedCharge withOwnLimits(Throwable conflict) {
        return charge == null
                ? this
                : of(match, charge.key(), rule().limits(), charge.permits())
                        .withFailures(List.of(RuleLookupException.failed(RuleLookupException.LIMITS, conflict)));
    }

    /** Returns what a decision on this charge, and possibly on others, means for the rule. */
    Outcome outcome(Decision decision) {
        if (decision.isAllowed()) {
            return Outcome.ALLOWED;
        }
        List<Limit> violated = decision.violated();
        return charge == null || violated.isEmpty() || violated.stream().anyMatch(charge.limits()::contains)
                ? Outcome.DENIED
                : Outcome.DENIED_BY_OTHERS;
    }
}
