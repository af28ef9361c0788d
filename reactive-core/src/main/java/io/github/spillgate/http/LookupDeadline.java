package io.github.spillgate.http;

import io.github.spillgate.RateLimiter;
import java.time.Duration;

/**
 * The deadline of the lookups of one rule for one request. The time is the rule's timeout, and at most half of the
 * limiter's deadline, so that the store has the other half to decide on all rules that match the request.
 */
final class LookupDeadline {

    private final Duration total;
    private final String setting;
    private final long start;

    private LookupDeadline(Duration total, String setting, long start) {
        this.total = total;
        this.setting = setting;
        this.start = start;
    }

    /** Returns the deadline of lookups that began at {@code start}, before a decision of this limiter. */
    static LookupDeadline of(Rule rule, RateLimiter limiter, long start) {
        // Zero if the limiter has no deadline, because its store decides in memory.
        Duration longest = limiter.deadline().dividedBy(2);
        return longest.isZero() || rule.timeout().compareTo(longest) <= 0
                ? new LookupDeadline(rule.timeout(), "timeout", start)
                : new LookupDeadline(longest, "half of the limiter's deadline", start);
    }

    Duration left() {
        Duration left = total.minusNanos(RuleDecision.now() - start);
        return left.isNegative() ? Duration.ZERO : left;
    }

    /** Returns the time and the setting that it comes from, as {@code 50 ms (timeout)}. */
    @Override
    public String toString() {
        long millis = total.toMillis();
        return (millis > 0 ? millis + " ms" : total.toNanos() + " ns") + " (" + setting + ")";
    }
}
