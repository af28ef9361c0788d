package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import reactor.blockhound.BlockingOperationError;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** BlockHound is active in all tests of this module. This one checks that it detects blocking calls. */
class NonBlockingTest {

    @Test
    void aBlockingCallIsDetected() {
        assertThatThrownBy(() -> Mono.fromCallable(() -> new CountDownLatch(1).await(1, TimeUnit.MILLISECONDS))
                        .subscribeOn(Schedulers.parallel())
                        .block())
                .hasRootCauseInstanceOf(BlockingOperationError.class);
    }

    @Test
    void theLocalStoreDoesNotBlockEvenDuringEvictions() {
        RateLimiter limiter = RateLimiter.builder("test")
                .store(LocalStore.bounded(64))
                .limit(Limit.perMinute(20))
                .limit(Limit.perDay(1_000).counter())
                .build();
        Long decisions = Flux.range(0, 100_000)
                .parallel()
                .runOn(Schedulers.parallel())
                .flatMap(i -> limiter.tryAcquire(i % 3 == 0 ? "hot" : "key-" + i % 500))
                .sequential()
                .count()
                .block(Duration.ofMinutes(1));
        assertThat(decisions).isEqualTo(100_000);
    }

    @Test
    void theRedisStoreDoesNotBlockFromTheFirstRequestOn() {
        RedisClient client = RedisClient.create(RedisForTests.first().uri());
        RateLimiter limiter = RateLimiter.builder("test-" + System.nanoTime())
                .store(RedisStore.create(client))
                .limit(Limit.perMinute(20))
                .limit(Limit.perDay(1_000).counter())
                .build();
        Long decisions = Flux.range(0, 20_000)
                .parallel()
                .runOn(Schedulers.parallel())
                .flatMap(i -> limiter.tryAcquire(i % 3 == 0 ? "hot" : "key-" + i % 500))
                .flatMap(decision -> limiter.refund(decision).thenReturn(decision))
                .sequential()
                .count()
                .block(Duration.ofMinutes(1));
        assertThat(decisions).isEqualTo(20_000);
        limiter.reset("hot").subscribeOn(Schedulers.parallel()).block();
        client.shutdown();
    }
}
