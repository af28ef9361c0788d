package io.github.spillgate.webflux;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.http.KeySource;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;

/** A limiter of a test's own on a real Redis, and rules for it with paths as Spring writes them. */
final class Limiters implements AutoCloseable {

    static final KeySource ADDRESS = LimiterForTests.ADDRESS;

    private final LimiterForTests limiter;

    private Limiters(LimiterForTests limiter) {
        this.limiter = limiter;
    }

    static Limiters onRedis() {
        return onRedis(Duration.ofSeconds(30));
    }

    static Limiters onRedis(Duration deadline) {
        return new Limiters(LimiterForTests.on(RedisForTests.first(), deadline));
    }

    /** A limiter in the memory of this process, which the caller closes. */
    static RateLimiter local() {
        return RateLimiter.builder("local").store(LocalStore.bounded(100)).build();
    }

    RateLimiter limiter() {
        return limiter.limiter();
    }

    Rules rules(Rule.Builder... rules) {
        return rules(limiter(), rules);
    }

    static Rules rules(RateLimiter limiter, Rule.Builder... rules) {
        List<Rule> built = Stream.of(rules).map(Rule.Builder::build).toList();
        return Rules.of(limiter, PathPatterns.ofSpring(), built);
    }

    static Rule.Builder address(String name, long permits) {
        return LimiterForTests.address(name, permits);
    }

    @Override
    public void close() {
        limiter.close();
    }
}
