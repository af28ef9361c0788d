package io.github.spillgate.examples.benchmark.contender;

import io.github.resilience4j.ratelimiter.RateLimiterConfig;
import io.github.resilience4j.ratelimiter.RateLimiterRegistry;
import java.time.Duration;

/**
 * The limiter of Resilience4j in this process: fixed cycles, one limiter for each key from its registry, and no
 * waiting.
 */
final class Resilience4j implements Contender {

    private final RateLimiterRegistry limiters;

    Resilience4j(Setting setting) {
        Rate rate = setting.onlyRate();
        limiters = RateLimiterRegistry.of(RateLimiterConfig.custom()
                .limitForPeriod(Math.toIntExact(rate.permits()))
                .limitRefreshPeriod(rate.window())
                .timeoutDuration(Duration.ZERO)
                .build());
    }

    @Override
    public void decide(String key, Answer answer) {
        answer.decided(limiters.rateLimiter(key).acquirePermission());
    }

    @Override
    public void close() {}
}
