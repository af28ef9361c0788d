package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Limited work that is retried after denials, in pipelines that are cancelled at random moments, on a real Redis. */
class LimitedRetryOnRedisTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Limit RUNNING = Limit.concurrent(3)
            .hold(Duration.ofHours(1))
            .retryAfter(Limit.SHORTEST_RETRY)
            .named("running");
    private static final Limit RATE = Limit.of(100, Duration.ofMillis(500)).named("rate");

    private final RedisStore store = RedisStore.create(RedisForTests.first().uri());
    private final RedisStore otherStore =
            RedisStore.create(RedisForTests.first().uri());
    private final String name = "retry-" + UUID.randomUUID();
    private final List<RateLimiter> limiters = List.of(limiter(store), limiter(otherStore));
    private final AtomicInteger running = new AtomicInteger();
    private final AtomicInteger most = new AtomicInteger();
    private final AtomicInteger completed = new AtomicInteger();
    private final AtomicInteger denied = new AtomicInteger();

    private RateLimiter limiter(RedisStore on) {
        return RateLimiter.builder(name)
                .store(new Unprotected(on))
                .limit(RUNNING)
                .limit(RATE)
                .build();
    }

    @AfterEach
    void close() {
        limiters.forEach(RateLimiter::close);
        store.close();
        otherStore.close();
    }

    @Test
    void cancelledPipelinesLeakNoPermit() {
        Flux.range(0, 600)
                .flatMap(i -> cancelled(limiters.get(i % 2), new Random(i)), 24)
                .blockLast(LONG);
        assertThat(completed).hasPositiveValue();
        assertThat(denied).hasPositiveValue();
        assertThat(most).hasValueBetween(1, 3);
        await().atMost(LONG).untilAsserted(() -> assertThat(used()).isZero());
        assertThat(limiters).extracting(RateLimiter::holders).containsOnly(0);
    }

    private Mono<Void> cancelled(RateLimiter limiter, Random random) {
        Mono<Void> work = Mono.defer(() -> {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            // The end is noted before the permit is released.
            Runnable end = running::decrementAndGet;
            return Mono.delay(Duration.ofMillis(random.nextInt(20)))
                    .then()
                    .doOnTerminate(end)
                    .doOnCancel(end);
        });
        return Mono.from(work.transform(limiter.limited("a")))
                .doOnError(RateLimitedException.class, error -> denied.incrementAndGet())
                .retryWhen(RateLimitedException.retry(3, Duration.ofSeconds(2)))
                .doOnSuccess(done -> completed.incrementAndGet())
                .takeUntilOther(Mono.delay(Duration.ofMillis(random.nextInt(300))))
                .onErrorComplete(RateLimitedException.class);
    }

    private long used() {
        return limiters.get(0).peek("a").block(LONG).limits().stream()
                .filter(usage -> usage.limit().equals(RUNNING))
                .findFirst()
                .orElseThrow()
                .used();
    }
}
