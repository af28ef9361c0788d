package io.github.spillgate.http;

import io.github.spillgate.RateLimiter;
import java.time.Duration;

/**
 * The time that the lookups of one rule have for one request, from now on. It is the rule's timeout, and at most half
 * of the limiter's deadline, so that the store has the other half to decide on all rules that match the request.
 */
final class LookupTime {

    private final Duration total;
    private final String setting;
    private final long began = Rules.now();

    private LookupTime(Duration total, String setting) {
        this.total = total;
        this.setting = setting;
    }

    /**
     * Returns how long lookups take at most; zero if the limiter has no deadline, because its store decides in memory.
     */
    static Duration most(RateLimiter limiter) {
        return limiter.deadline().dividedBy(2);
    }

    /** Starts the time. */
    static LookupTime of(Rule rule, Duration most) {
        return most.isZero() || rule.timeout().compareTo(most) <= 0
                ? new LookupTime(rule.timeout(), "timeout")
                : new LookupTime(most, "half of the limiter's deadline");
    }

    Duration left() {
        Duration left = total.minusNanos(Rules.now() - began);
        return left.isNegative() ? Duration.ZERO : left;
    }

    /** Returns how long it is, and what sets it, as {@code 50 ms (timeout)}. */
    @Override
    public String toString() {
        long millis = total.toMillis();
        return (millis > 0 ? millis + " ms" : total.toNanos() + " ns") + " (" + setting + ")";
    }
}
