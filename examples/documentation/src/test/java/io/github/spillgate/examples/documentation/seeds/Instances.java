package io.github.spillgate.examples.documentation.seeds;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import reactor.core.publisher.Flux;

/** Eight instances of a service with our limiter on one real Redis, for concurrent requests. */
final class Instances implements AutoCloseable {

    private static final AtomicInteger NUMBER = new AtomicInteger();

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final StatefulRedisConnection<String, String> connection = client.connect();
    private final String namespace = "seeds-" + NUMBER.incrementAndGet() + "-" + System.nanoTime();
    private final List<RateLimiter> limiters;

    Instances(Limit limit) {
        // Unprotected, so that a slow machine causes no fallback; without cached denials, so that Redis decides all.
        limiters = IntStream.range(0, 8)
                .mapToObj(i -> RateLimiter.builder("seeds")
                        .store(new Unprotected(
                                RedisStore.builder(client).namespace(namespace).build()))
                        .cacheDenials(Duration.ZERO)
                        .limit(limit)
                        .build())
                .toList();
    }

    Decision ask(String key, long permits) {
        return limiters.get(0).tryAcquire(key, permits).block();
    }

    /** Sends concurrent requests, and returns how many are allowed. */
    long allowed(String key, int requests) {
        return Flux.range(0, requests)
                .flatMap(i -> limiters.get(i % limiters.size()).tryAcquire(key), requests)
                .filter(Decision::isAllowed)
                .count()
                .block();
    }

    /** Returns the memory of the only count in Redis, in bytes. */
    long memory() {
        List<String> keys = connection.sync().keys(namespace + ":*");
        if (keys.size() != 1) {
            throw new AssertionError("expected one key, but found " + keys);
        }
        return connection.sync().memoryUsage(keys.get(0));
    }

    @Override
    public void close() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }
}
