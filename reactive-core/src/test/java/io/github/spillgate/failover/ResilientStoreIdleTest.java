package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** An instance that gets no requests finds out that Redis is back. */
class ResilientStoreIdleTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final Deque<AutoCloseable> toClose = new ArrayDeque<>();

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable one : toClose) {
            one.close();
        }
        redis.close();
    }

    @Test
    void afterRequestsThatTheFallbackDecided() {
        List<RateLimiter> limiters = List.of(limiter(Fallback.local(100)), limiter(Fallback.deny()));
        limiters.forEach(limiter -> limiter.ready().block(LONG));
        redis.kill();
        for (RateLimiter limiter : limiters) {
            await().atMost(LONG)
                    .untilAsserted(
                            () -> assertThat(limiter.tryAcquire("a").block(LONG).source())
                                    .isNotEqualTo(Source.REDIS));
            await().atMost(LONG).until(() -> limiter.state().isFallbackActive());
        }
        redis.restart();
        limiters.forEach(ResilientStoreIdleTest::awaitRedis);
        assertThat(limiters.get(0).state().toReconcile()).isZero();
    }

    @Test
    void afterAStartWithoutRedis() {
        redis.kill();
        RateLimiter limiter = limiter(Fallback.local(100));
        await().atMost(LONG).until(() -> limiter.state().isFallbackActive());
        redis.restart();
        awaitRedis(limiter);
    }

    private RateLimiter limiter(LimitStore fallback) {
        RedisStore store = RedisStore.create(redis.uri());
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .fallback(fallback)
                .limit(Limit.perMinute(100))
                .build();
        toClose.add(limiter);
        toClose.add(store);
        return limiter;
    }

    private static void awaitRedis(RateLimiter limiter) {
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(limiter.state())
                        .matches(state -> state.source() == Source.REDIS)
                        .matches(state -> !state.isFallbackActive())
                        .matches(state -> state.problem().isEmpty()));
    }
}
