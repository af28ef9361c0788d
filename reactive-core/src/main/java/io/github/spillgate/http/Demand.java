package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.http.Rule.WhenLookupFails;
import io.github.spillgate.http.RuleListener.Outcome;
import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a rule asks for on behalf of a request.
 *
 * @param match the request, and the rule
 * @param charge what is to be charged; null if nothing is
 * @param why why nothing can be decided; null if something can
 * @param isRefused whether the request is denied for want of a key
 * @param failures the lookups that failed, whether something can be decided or not
 */
record Demand(
        Match match,
        @Nullable Charge charge,
        @Nullable Throwable why,
        boolean isRefused,
        List<RuleLookupException> failures) {

    /** All who have no key share this one. Its group keeps it apart from whatever a client may call himself. */
    private static final String NOBODY = "nobody";

    static Demand charge(Match match, String key, Collection<Limit> limits, long cost) {
        return charging(match, Charge.of(key, limits).permits(cost));
    }

    static Demand chargeNobody(Match match, Collection<Limit> limits, long cost) {
        return charging(match, Charge.of(NOBODY, limits).group(NOBODY).permits(cost));
    }

    private static Demand charging(Match match, Charge charge) {
        return new Demand(match, charge, null, false, List.of());
    }

    static Demand nothing(Match match) {
        return new Demand(match, null, null, false, List.of());
    }

    static Demand refusal(Match match) {
        return new Demand(match, null, null, true, List.of());
    }

    static Demand undecided(Match match, Throwable why) {
        return new Demand(match, null, why, false, List.of());
    }

    Rule rule() {
        return match.rule();
    }

    /** Returns the same after these lookups failed: undecided, if that is what the rule wants then. */
    Demand after(List<RuleLookupException> failed) {
        if (failed.isEmpty()) {
            return this;
        }
        boolean isUndecided = rule().whenLookupFails() == WhenLookupFails.UNDECIDED;
        return new Demand(match, isUndecided ? null : charge, isUndecided ? failed.get(0) : why, isRefused, failed);
    }

    /** Returns whether it charges other limits than the rule's own. */
    boolean hasFoundLimits() {
        return charge != null && !charge.limits().equals(rule().limits());
    }

    /** Returns the same under the rule's own limits, because those that were found cannot be charged. */
    Demand withOwnLimits(Throwable why) {
        return charge == null
                ? this
                : charge(match, charge.key(), rule().limits(), charge.permits())
                        .after(List.of(RuleLookupException.failed(RuleLookupException.LIMITS, why)));
    }

    /** Returns what a decision on this charge, and maybe on others, means for the rule. */
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
