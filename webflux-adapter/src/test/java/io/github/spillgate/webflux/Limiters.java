package io.github.spillgate.webflux;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.ClientAddress;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;

/** A limiter of a test's own on a real Redis, and rules for it. */
final class Limiters implements AutoCloseable {

    static final KeySource ADDRESS = KeySource.clientAddress(ClientAddress.ofPeer());

    private final RedisClient client;
    private final RedisStore store;
    private final RateLimiter limiter;

    private Limiters(RedisForTests redis) {
        client = RedisClient.create(redis.uri());
        store = RedisStore.create(client);
        limiter = RateLimiter.builder("test-" + UUID.randomUUID().toString().substring(0, 8))
                .store(store)
                .deadline(Duration.ofMillis(500))
                .build();
    }

    static Limiters onRedis() {
        return new Limiters(RedisForTests.first());
    }

    static Limiters on(RedisForTests redis) {
        return new Limiters(redis);
    }

    RateLimiter limiter() {
        return limiter;
    }

    Rules rules(Rule.Builder... rules) {
        List<Rule> built = Stream.of(rules).map(Rule.Builder::build).toList();
        return Rules.of(limiter, PathPatterns.ofSpring(), built);
    }

    static Rule.Builder address(String name, long permits) {
        return Rule.named(name).key(ADDRESS).limit(Limit.perMinute(permits));
    }

    @Override
    public void close() {
        limiter.close();
        store.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }
}
