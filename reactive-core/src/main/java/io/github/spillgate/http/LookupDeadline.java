package io.github.spillgate.http;

import io.github.spillgate.RateLimiter;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import reactor.core.scheduler.Schedulers;

/**
 * The deadline of the lookups of one rule for one request. The time is the rule's timeout, and at most half of the
 * limiter's deadline, so that the store has the other half to decide on all rules that match the request.
 */
final class LookupDeadline {

    private final Duration total;
    private final String setting;
    private final long start = now();

    private LookupDeadline(Duration total, String setting) {
        this.total = total;
        this.setting = setting;
    }

    /**
     * Returns the longest time that lookups may take; zero if the limiter has no deadline, because its store decides in
     * memory.
     */
    static Duration longest(RateLimiter limiter) {
        return limiter.deadline().dividedBy(2);
    }

    /** Starts the time. */
    static LookupDeadline start(Rule rule, Duration longest) {
        return longest.isZero() || rule.timeout().compareTo(longest) <= 0
                ? new LookupDeadline(rule.timeout(), "timeout")
                : new LookupDeadline(longest, "half of the limiter's deadline");
    }

    /** Returns the nanoseconds of the clock that timers use, so that tests can replace it by virtual time. */
    static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    Duration left() {
        Duration left = total.minusNanos(now() - start);
        return left.isNegative() ? Duration.ZERO : left;
    }

    /** Returns the time and the setting that it comes from, as {@code 50 ms (timeout)}. */
    @Override
    public String toString() {
        long millis = total.toMillis();
        return (millis > 0 ? millis + " ms" : total.toNanos() + " ns") + " (" + setting + ")";
    }
}
