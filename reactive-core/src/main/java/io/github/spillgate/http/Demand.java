package io.github.spillgate.http;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
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
 */
record Demand(
        Match match, @Nullable Charge charge, @Nullable Throwable why, boolean isRefused) {

    /** All who have no key share this one. Its group keeps it apart from whatever a client may call himself. */
    private static final String NOBODY = "nobody";

    static Demand charge(Match match, String key, Collection<Limit> limits, long cost) {
        return new Demand(match, Charge.of(key, limits).permits(cost), null, false);
    }

    static Demand chargeNobody(Match match, Collection<Limit> limits, long cost) {
        return new Demand(match, Charge.of(NOBODY, limits).group(NOBODY).permits(cost), null, false);
    }

    static Demand nothing(Match match) {
        return new Demand(match, null, null, false);
    }

    static Demand refusal(Match match) {
        return new Demand(match, null, null, true);
    }

    static Demand undecided(Match match, Throwable why) {
        return new Demand(match, null, why, false);
    }

    Rule rule() {
        return match.rule();
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
