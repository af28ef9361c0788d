package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.scheduler.Schedulers;

/** A pause of this process, such as one for garbage collection, does not count as a failure of Redis. */
class ResilientStoreProcessPauseTest {

    /** Also the time in which Redis has to answer after the pause, with other tests on all cores. */
    private static final Duration DEADLINE = Duration.ofMillis(1_500);

    private static final int REQUESTS = 100;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final Queue<Decision> decisions = new ConcurrentLinkedQueue<>();
    private RedisClient client;
    private RateLimiter limiter;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        limiter = RateLimiter.builder("api")
                .store(RedisStore.create(client))
                .deadline(DEADLINE)
                .limit(Limit.perHour(1_000))
                .build();
        await().until(() -> limiter.peek("a").block().source() == Source.REDIS);
    }

    @AfterEach
    void shutdown() {
        limiter.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    @Test
    void aPauseOfTheProcessDoesNotOpenTheBreaker() {
        redis.pause();
        acquireMany();
        blockTheScheduler(redis::resume);
        await().until(() -> decisions.size() == REQUESTS);
        assertThat(decisions).allMatch(Decision::isAllowed);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().problem()).isEmpty();
        await().until(() -> limiter.tryAcquire("b").block().source() == Source.REDIS);
        // All are charged once: late replies cancel local grants, and the others are reconciled.
        await().until(() -> limiter.state().toReconcile() == 0);
        await().until(() -> limiter.peek("a").block().limits().get(0).used() == REQUESTS);
    }

    @Test
    void theBreakerOpensIfRedisHangsBeyondAPauseOfTheProcess() {
        redis.pause();
        acquireMany();
        blockTheScheduler(() -> {});
        await().until(() -> decisions.size() == REQUESTS);
        await().until(() -> limiter.state().breaker() == Breaker.OPEN);
        assertThat(limiter.state().problem())
                .hasValueSatisfying(problem -> assertThat(problem).contains("did not reply within 1500 ms"));
        assertThat(limiter.tryAcquire("b").block().source()).isEqualTo(Source.LOCAL);
    }

    private void acquireMany() {
        for (int i = 0; i < REQUESTS; i++) {
            limiter.tryAcquire("a").subscribe(decisions::add);
        }
    }

    /** Blocks all threads of Reactor for two deadlines and until the action has run. */
    private static void blockTheScheduler(Runnable duringThePause) {
        int tasks = 4 * Schedulers.DEFAULT_POOL_SIZE;
        long until = System.nanoTime() + DEADLINE.plusMillis(300).toNanos();
        CountDownLatch happened = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(tasks);
        for (int i = 0; i < tasks; i++) {
            Schedulers.parallel().schedule(() -> {
                while (System.nanoTime() - until < 0 || happened.getCount() > 0) {
                    // Keeps the thread busy.
                }
                over.countDown();
            });
        }
        await().until(() -> System.nanoTime() - until > 0);
        duringThePause.run();
        happened.countDown();
        await().until(() -> over.getCount() == 0);
    }
}
