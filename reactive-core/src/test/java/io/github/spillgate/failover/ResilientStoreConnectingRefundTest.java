package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A refund while the first connection is being opened takes effect once, in Redis or in the fallback. */
class ResilientStoreConnectingRefundTest {

    private static final String KEY = "a";
    private static final Limit LIMIT = Limit.parse("100/1m");
    private static final IntervalFunction SHORT_WAIT = IntervalFunction.of(100);
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final Deque<Runnable> closing = new ArrayDeque<>();

    @AfterEach
    void close() {
        closing.forEach(Runnable::run);
        redis.close();
    }

    @Test
    void permitsGrantedLocallyAreRefundedAlthoughRedisDoesNotKnowThemYet() {
        redis.pause();
        RateLimiter limiter = limiter();
        takeThreeLocally(limiter);
        limiter.refund(KEY, 2).block();
        redis.resume();
        awaitReconciled(limiter);
        assertThat(used(limiter)).isEqualTo(1);
    }

    @Test
    void permitsAreRefundedLocallyIfTheConnectionCannotBeOpened() {
        redis.pause();
        RateLimiter limiter = limiter();
        takeThreeLocally(limiter);
        limiter.refund(KEY, 2).block();
        redis.kill();
        redis.restart();
        awaitReconciled(limiter);
        assertThat(used(limiter)).isEqualTo(1);
    }

    @Test
    void aRefundAboveTheLocalGrantsAlsoTakesEffectInRedis() {
        RateLimiter other = connectedLimiter();
        assertThat(other.tryAcquire(KEY, 5).block().source()).isEqualTo(Source.REDIS);
        redis.pause();
        RateLimiter limiter = limiter();
        assertThat(limiter.tryAcquire(KEY).block().source()).isEqualTo(Source.LOCAL);
        limiter.refund(KEY, 3).block();
        redis.resume();
        awaitReconciled(limiter);
        await().atMost(PATIENCE).untilAsserted(() -> assertThat(used(other)).isEqualTo(3));
    }

    /** The first request is in flight to Redis; the others are only local until it is reconciled. */
    private static void takeThreeLocally(RateLimiter limiter) {
        for (int i = 0; i < 3; i++) {
            assertThat(limiter.tryAcquire(KEY).block().source()).isEqualTo(Source.LOCAL);
        }
    }

    private void awaitReconciled(RateLimiter limiter) {
        await().atMost(PATIENCE)
                .until(() -> limiter.peek(KEY).block().source() == Source.REDIS
                        && limiter.state().toReconcile() == 0);
    }

    private static long used(RateLimiter limiter) {
        return limiter.peek(KEY).block().limits().get(0).used();
    }

    private RateLimiter connectedLimiter() {
        RateLimiter limiter = limiter();
        await().atMost(PATIENCE).until(() -> limiter.peek(KEY).block().source() == Source.REDIS);
        return limiter;
    }

    private RateLimiter limiter() {
        RedisClient client = RedisClient.create(redis.uri());
        RedisStore store = RedisStore.create(client);
        ResilientStore resilient = ResilientStore.builder(store)
                .breaker(settings -> settings.waitIntervalFunctionInOpenState(SHORT_WAIT))
                .build();
        RateLimiter limiter =
                RateLimiter.builder("refunds").store(resilient).limit(LIMIT).build();
        closing.push(() -> {
            limiter.close();
            resilient.close();
            store.close();
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        });
        return limiter;
    }
}
