package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.scheduler.Schedulers;

/** A caller that keeps the event loop of the store busy for longer than the deadline. */
class ResilientStoreBusyDeliveryTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    /** More than fill the window of the breaker. */
    private static final int REQUESTS = 40;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> admin = client.connect();
    private final RedisStore store =
            RedisStore.builder(redis.uri()).deliverOn(Schedulers.immediate()).build();
    private final RateLimiter limiter = RateLimiter.builder("busy")
            .store(store)
            .deadline(Duration.ofSeconds(1))
            .limit(Limit.perHour(1_000_000))
            .build();

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    @Test
    void redisHasTheWholeDeadlineForRequestsThatCouldNotBeSentBefore() throws Exception {
        limiter.ready().block(LONG);
        limiter.tryAcquire("first").block(LONG);
        CountDownLatch isHeld = new CountDownLatch(1);
        CountDownLatch isOver = new CountDownLatch(1);
        limiter.tryAcquire("slow").subscribe(decision -> {
            isHeld.countDown();
            holdUntil(isOver);
        });
        isHeld.await();
        List<CompletableFuture<Decision>> peeks = IntStream.range(0, REQUESTS)
                .mapToObj(i -> limiter.peek("user:" + i).toFuture())
                .toList();
        assertThat(peeks).allSatisfy(peek -> assertThat(peek.get().source()).isEqualTo(Source.LOCAL));
        admin.sync().clientPause(200);
        isOver.countDown();
        assertThat(limiter.tryAcquire("last").block(LONG).source()).isEqualTo(Source.REDIS);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    /** Holds the thread without blocking. */
    private static void holdUntil(CountDownLatch isOver) {
        boolean isHeld;
        do {
            isHeld = isOver.getCount() > 0;
        } while (isHeld);
    }
}
