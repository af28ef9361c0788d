package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;

/** Redis stalls for part of a window of seconds, with the default settings, while requests for one key go on. */
class ResilientStoreStallWindowTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration DEADLINE = Duration.ofMillis(100);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final RedisStore redisStore = RedisStore.create(client);
    private final ResilientStore store =
            ResilientStore.builder(redisStore).deadline(DEADLINE).build();
    private final RateLimiter limiter = RateLimiter.builder("api").store(store).build();

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        redisStore.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    /**
     * Ten requests are on their way to Redis when it stalls, and the fallback grants the rest. Requests that Redis
     * executed after the stall would open a counter's window then, and what was granted before would fade from it at
     * once.
     */
    @ParameterizedTest
    @ValueSource(strings = {"200/3s", "200/3s counter"})
    void oneWindowHoldsNoMoreThanTheLimitThoughRedisStalls(String text) {
        Limit limit = Limit.parse(text);
        await().until(() -> limiter.peek(Charge.of("other", limit)).block(LONG).source() == Source.REDIS);
        assertThat(limiter.tryAcquire(Charge.of("other", limit)).block(LONG).source())
                .isEqualTo(Source.REDIS);

        Queue<Long> grants = new ConcurrentLinkedQueue<>();
        redis.pause();
        long start = System.nanoTime();
        Disposable callers = Flux.interval(Duration.ofMillis(5))
                .onBackpressureDrop()
                .flatMap(tick -> Flux.range(0, 5).flatMap(i -> limiter.tryAcquire(Charge.of("key", limit))))
                .filter(Decision::isAllowed)
                .subscribe(decision -> grants.add(System.nanoTime() - start));
        await().until(() -> System.nanoTime() - start > Duration.ofMillis(700).toNanos());
        redis.resume();
        await().until(() ->
                System.nanoTime() - start > limit.window().minusMillis(100).toNanos());
        callers.dispose();

        long window = limit.window().toNanos();
        assertThat(grants.stream().filter(at -> at < window)).hasSize((int) limit.permits());
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
    }
}
