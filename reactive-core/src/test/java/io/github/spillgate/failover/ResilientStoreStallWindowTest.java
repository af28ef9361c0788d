package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
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
     * Ten requests are in flight to Redis when it stalls, and the fallback grants the rest. Requests that Redis
     * executed after the stall would start a new counter window, and the earlier grants would fade from it at once.
     */
    @ParameterizedTest
    @ValueSource(strings = {"200/3s", "200/3s counter"})
    void oneWindowHoldsExactlyTheLimitDuringAStall(String text) {
        Limit limit = Limit.parse(text);
        // The first requests of a process may be slower than the deadline.
        await().until(() ->
                limiter.tryAcquire(Charge.of("other", limit)).block(LONG).source() == Source.REDIS);

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

    @ParameterizedTest
    @ValueSource(strings = {"50/1s", "50/1s counter", "50/1s burst=50"})
    void manyStallsAdmitNoMoreThanOneStoreWithoutStalls(String text) {
        stallRepeatedly(Limit.parse(text));
    }

    @Thorough
    @ParameterizedTest
    @ValueSource(
            strings = {
                "20/2s",
                "20/2s counter",
                "1000/10s",
                "1000/10s counter",
                "100/5s counter aligned",
                "20/2s burst=10",
                "1000/10s burst=1000"
            })
    void manyStallsAdmitNoMoreThanOneStoreWithoutStallsInLongerWindows(String text) {
        stallRepeatedly(Limit.parse(text));
    }

    /** A store in memory gets the same requests, and decides as Redis would without stalls. */
    private void stallRepeatedly(Limit limit) {
        RateLimiter control =
                RateLimiter.builder("control").store(LocalStore.bounded(100)).build();
        await().until(() -> limiter.peek(Charge.of("other", limit)).block(LONG).source() == Source.REDIS);
        long seed = new Random().nextLong();
        Random random = new Random(seed);
        Admissions admissions = new Admissions();
        AtomicLong admitted = new AtomicLong();
        AtomicLong expected = new AtomicLong();
        Charge charge = Charge.of("key-" + seed, limit);
        Disposable callers = Flux.interval(Duration.ofMillis(5))
                .onBackpressureDrop()
                .flatMap(tick -> Flux.range(0, 5).flatMap(i -> {
                    long requestedAt = System.nanoTime();
                    return control.tryAcquire(charge)
                            .doOnNext(decision -> expected.addAndGet(decision.isAllowed() ? 1 : 0))
                            .then(limiter.tryAcquire(charge))
                            .doOnNext(decision -> admissions.add(decision, requestedAt, System.nanoTime()));
                }))
                .filter(Decision::isAllowed)
                .subscribe(decision -> admitted.incrementAndGet());
        long end =
                System.nanoTime() + limit.window().multipliedBy(11).dividedBy(5).toNanos();
        while (System.nanoTime() < end) {
            redis.pause();
            pass(20 + random.nextInt(680));
            redis.resume();
            pass(50 + random.nextInt(500));
        }
        callers.dispose();

        admissions.assertBothStoresTogetherKeptTheLimit();
        // The two stores see the first request, and each end of a window, some milliseconds apart.
        assertThat(admitted.get()).as("seed %d", seed).isLessThanOrEqualTo(expected.get() + limit.permits() / 20 + 1);
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
    }

    private static void pass(int millis) {
        long start = System.nanoTime();
        await().until(() -> System.nanoTime() - start > TimeUnit.MILLISECONDS.toNanos(millis));
    }
}
