package io.github.spillgate.http.response;

import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * A limit as a response reports it, with a name that is unique in the response: the name of the limit, or {@code 1m#2}
 * for the second limit of that name.
 *
 * <p>One limit on several keys is one policy, with the state of the key that has the least left. Keys may be secret and
 * are never reported. All seconds are rounded up, so that a client that waits for them does not return too early.
 *
 * @param name the unique name
 * @param limit the limit
 * @param state the usage; null if the decision was made without the store
 * @param violated whether the limit has denied the request
 */
record QuotaPolicy(String name, Limit limit, @Nullable State state, boolean violated) {

    /**
     * The usage of a limit by a key.
     *
     * @param remaining the number of permits left
     * @param at the time of the decision, in milliseconds
     * @param until when more permits are available: after a denial, when the same request fits; with no permits left,
     *     when all are back; otherwise one window later at most
     * @param violated whether the limit has denied the request
     */
    record State(long remaining, long at, long until, boolean violated) {

        static State of(Usage usage, Instant at) {
            return new State(usage.remaining(), at.toEpochMilli(), until(usage, at), usage.isViolated());
        }

        /** With no permits left a client waits for this time, so it is never before the next permit. */
        private static long until(Usage usage, Instant at) {
            long now = at.toEpochMilli();
            if (usage.isViolated()) {
                return Math.max(now, usage.fitsAt().toEpochMilli());
            }
            long wholeAt = usage.wholeAt().toEpochMilli();
            boolean isUsed = wholeAt > now;
            if (isUsed && (usage.remaining() == 0 || usage.limit() instanceof Limit.Quota)) {
                return wholeAt;
            }
            long windowEnd = usage.limit() instanceof Limit.Quota quota
                    ? quota.periodEnd(at).toEpochMilli()
                    : now + usage.limit().quotaWindow().toMillis();
            return isUsed ? Math.min(wholeAt, windowEnd) : windowEnd;
        }

        /** Returns whether this state restricts a client more than another one. */
        boolean isTighterThan(State other) {
            if (violated != other.violated) {
                return violated;
            }
            // After a denial the longest wait matters; otherwise the permits that run out first.
            if (violated || remaining == other.remaining) {
                return until > other.until;
            }
            return remaining < other.remaining;
        }

        /**
         * Returns the number of seconds in which no more than the remaining permits may be used: at least 1, and at
         * most the window. The wait can be longer, by a slot of a log or a window of a counter; {@code Retry-After}
         * includes that. A period of a quota may be longer than its window, by what clocks are set back.
         */
        long seconds(Limit limit) {
            Duration window = limit.quotaWindow().plusDays(limit instanceof Limit.Quota ? 1 : 0);
            return Math.max(1, Math.min(ceilToSeconds(until - at), ceilToSeconds(window.toMillis())));
        }

        /** Returns {@link #until} in seconds since 1970. */
        long resetEpochSecond() {
            return ceilToSeconds(until);
        }
    }

    /** Returns the policies of these decisions, in order, as a list that the caller may change. */
    static List<QuotaPolicy> of(List<Decision> decisions) {
        List<QuotaPolicy> policies = new ArrayList<>(2);
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

    private static void add(List<QuotaPolicy> policies, Limit limit, @Nullable State state, boolean violated) {
        int namesakes = 0;
        for (int i = 0; i < policies.size(); i++) {
            QuotaPolicy policy = policies.get(i);
            if (policy.limit.equals(limit)) {
                policies.set(i, policy.merge(state, violated));
                return;
            }
            if (policy.limit.name().equals(limit.name())) {
                namesakes++;
            }
        }
        String name = namesakes == 0 ? limit.name() : limit.name() + "#" + (namesakes + 1);
        policies.add(new QuotaPolicy(name, limit, state, violated));
    }

    private QuotaPolicy merge(@Nullable State other, boolean alsoViolated) {
        boolean isOtherTighter = other != null && (state == null || other.isTighterThan(state));
        return new QuotaPolicy(name, limit, isOtherTighter ? other : state, violated || alsoViolated);
    }

    /** Returns the policy that restricts a client most; null if no usage is known. */
    static @Nullable QuotaPolicy tightest(List<QuotaPolicy> policies) {
        QuotaPolicy tightest = null;
        State tight = null;
        for (QuotaPolicy policy : policies) {
            State state = policy.state;
            if (state != null && (tight == null || state.isTighterThan(tight))) {
                tightest = policy;
                tight = state;
            }
        }
        return tightest;
    }

    /**
     * Returns the number of seconds until none of these decisions would be a denial.
     *
     * @return at least 1; empty if none of them is a denial, or if waiting does not help against one of them
     */
    static OptionalLong retryAfterSeconds(List<Decision> decisions) {
        OptionalLong longest = OptionalLong.empty();
        for (Decision decision : decisions) {
            if (decision.isAllowed()) {
                continue;
            }
            Optional<Duration> wait = decision.retryAfter();
            if (wait.isEmpty()) {
                return OptionalLong.empty();
            }
            // Zero would make clients retry in a loop.
            long seconds = Math.max(1, ceilToSeconds(wait.get().toMillis()));
            longest = OptionalLong.of(Math.max(seconds, longest.orElse(0)));
        }
        return longest;
    }

    private static long ceilToSeconds(long millis) {
        return -Math.floorDiv(-millis, 1_000L);
    }
}
