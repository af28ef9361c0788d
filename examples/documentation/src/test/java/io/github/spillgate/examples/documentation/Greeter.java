package io.github.spillgate.examples.documentation;

// The class that README.md shows, as it stands there.

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import reactor.core.publisher.Mono;

class Greeter {

    private final RateLimiter limiter;

    Greeter(RedisClient redis) {
        limiter = RateLimiter.builder("api")
                .store(RedisStore.create(redis))
                .limit(Limit.perMinute(120))
                .build();
    }

    Mono<String> greet(String user) {
        return limiter.tryAcquire("user:" + user)
                .map(decision -> decision.isAllowed()
                        ? "Hello"
                        : "Retry in " + decision.retryAfter().orElseThrow());
    }
}
