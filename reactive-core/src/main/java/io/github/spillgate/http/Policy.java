package io.github.spillgate.http;

import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One limit as clients get to know it, by a name that no other limit of the same response has.
 *
 * <p>That is the limit's own name; the second limit of that name is called {@code 1m#2}, which no limit can be called.
 * One limit on several keys is one policy, and what is told is the usage that stands most in the way. Keys are never
 * told: they may be secret.
 *
 * @param name what it is called
 * @param limit what it says
 * @param state how far it is used; null if no store was asked
 * @param violated whether it denied
 */
record Policy(String name, Limit limit, @Nullable State state, boolean violated) {

    /**
     * How far a limit is used by a key.
     *
     * @param remaining how many more permits it would grant
     * @param at when that was so
     * @param until when a client can count on more: after a denial, when the same request fits; with nothing left, when
     *     nothing is used any more; otherwise one window later at most
     * @param violated whether it denied
     */
    record State(long remaining, Instant at, Instant until, boolean violated) {

        static State of(Usage usage, Instant at) {
            return new State(usage.remaining(), at, until(usage, at), usage.isViolated());
        }

        /**
         * A client that has nothing left waits until this instant, so it is never earlier than the limit grants
         * something.
         */
        private static Instant until(Usage usage, Instant at) {
            if (usage.isViolated()) {
                return usage.fitsAt().isBefore(at) ? at : usage.fitsAt();
            }
            if (usage.wholeAt().isAfter(at) && usage.remaining() == 0) {
                return usage.wholeAt();
            }
            Instant window = at.plus(usage.limit().window());
            return usage.wholeAt().isAfter(at) && usage.wholeAt().isBefore(window) ? usage.wholeAt() : window;
        }

        /** Whether a client has to mind this one more than the other. */
        boolean isTighterThan(State other) {
            if (violated != other.violated) {
                return violated;
            }
            // After a denial the longest wait is what holds; otherwise it is what runs out first.
            if (violated || remaining == other.remaining) {
                return until.isAfter(other.until);
            }
            return remaining < other.remaining;
        }

        /**
         * Returns within how many seconds no more than what remains may be used: at least 1, and never more than the
         * window. The wait itself can be longer, by a slot of a log or by a window of a counter; {@code Retry-After}
         * says so.
         */
        long seconds(Duration window) {
            return Math.max(1, Math.min(Seconds.between(at, until), Seconds.of(window)));
        }
    }

    /** Returns the policies that these decisions are about, in their order. */
    static List<Policy> of(List<Decision> decisions) {
        List<Policy> policies = new ArrayList<>();
        for (Decision decision : decisions) {
            for (Usage usage : decision.limits()) {
                add(policies, usage.limit(), State.of(usage, decision.at()), usage.isViolated());
            }
            if (decision.limits().isEmpty()) {
                for (Limit limit : decision.violated()) {
                    add(policies, limit, null, true);
                }
            }
        }
        return policies;
    }

    private static void add(List<Policy> policies, Limit limit, @Nullable State state, boolean violated) {
        int namesakes = 0;
        for (int i = 0; i < policies.size(); i++) {
            Policy policy = policies.get(i);
            if (policy.limit.equals(limit)) {
                policies.set(i, policy.and(state, violated));
                return;
            }
            if (policy.limit.name().equals(limit.name())) {
                namesakes++;
            }
        }
        String name = namesakes == 0 ? limit.name() : limit.name() + "#" + (namesakes + 1);
        policies.add(new Policy(name, limit, state, violated));
    }

    private Policy and(@Nullable State other, boolean alsoViolated) {
        boolean others = other != null && (state == null || other.isTighterThan(state));
        return new Policy(name, limit, others ? other : state, violated || alsoViolated);
    }

    /** Returns what a client has to mind most; null if nothing is known of any. */
    static @Nullable Policy tightest(List<Policy> policies) {
        Policy tightest = null;
        State tight = null;
        for (Policy policy : policies) {
            State state = policy.state;
            if (state != null && (tight == null || state.isTighterThan(tight))) {
                tightest = policy;
                tight = state;
            }
        }
        return tightest;
    }
}
