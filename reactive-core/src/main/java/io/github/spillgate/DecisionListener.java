package io.github.spillgate;

import java.time.Duration;

/**
 * A listener of the decisions of a {@link RateLimiter}: for metrics, logs or an audit.
 *
 * <pre>{@code
 * RateLimiter limiter = RateLimiter.builder("partner")
 *         .store(RedisStore.create(redisClient))
 *         .limit(Limit.perSecond(5))
 *         .listener((name, decision, took) -> audit.add(name, decision.isAllowed(), took))
 *         .build();
 * }</pre>
 *
 * <p>A listener is called once for each decision that is emitted, on the thread that emits it and just before, so it
 * must be fast and must not block. If it throws, the decision is not affected; at most one such exception a minute is
 * logged. Cancelled requests, errors and peeks are not reported.
 */
@FunctionalInterface
public interface DecisionListener {

    /**
     * Called for each decision of {@code tryAcquire}, {@code limited} and {@code acquire}, and for each element that
     * {@code throttle} emits. If a denial ends a throttled stream, it is reported too.
     *
     * @param name the name of the limiter
     * @param decision the decision, of any {@linkplain Decision#source() source}
     * @param took the time since the subscription, or since the element arrived; lookups and waits are included
     */
    void decided(String name, Decision decision, Duration took);
}
