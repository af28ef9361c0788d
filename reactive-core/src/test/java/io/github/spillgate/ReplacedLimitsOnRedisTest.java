package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.failover.Fallback;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import reactor.core.scheduler.Schedulers;

/** Limits that are replaced while a real Redis decides. */
class ReplacedLimitsOnRedisTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final AtomicInteger NAMES = new AtomicInteger();

    private static RedisStore store;

    private final String name = "replaced-" + NAMES.incrementAndGet() + "-" + System.nanoTime();

    @BeforeAll
    static void connect() {
        store = RedisStore.create(RedisForTests.first().uri());
    }

    @AfterAll
    static void disconnect() {
        store.close();
    }

    /** Callers wait and cancel while limits with the same and with other counts replace each other. */
    @Test
    void underContentionNoWaiterIsLostAndNoLimitExceeded() throws InterruptedException {
        List<List<Limit>> limits = List.of(
                List.of(Limit.perDay(100)),
                List.of(Limit.perDay(150)),
                List.of(Limit.perDay(200), Limit.perHour(200)),
                List.of(Limit.perDay(250).named("day"), Limit.perDay(300)));
        try (RateLimiter limiter = limiter(Limit.perDay(100))) {
            int callers = 400;
            CountDownLatch ended = new CountDownLatch(callers);
            AtomicInteger allowed = new AtomicInteger();
            AtomicInteger denied = new AtomicInteger();
            for (int i = 0; i < callers; i++) {
                boolean cancels = i % 4 == 0;
                Schedulers.parallel()
                        .schedule(() -> limiter.acquire("a", Duration.ofDays(1_000))
                                .transform(decision -> cancels ? decision.timeout(Duration.ofMillis(5)) : decision)
                                .doFinally(end -> ended.countDown())
                                .subscribe(
                                        decision -> (decision.isAllowed() ? allowed : denied).incrementAndGet(),
                                        error -> {}));
            }
            for (int i = 0; i < 40; i++) {
                limiter.replaceLimits(limits.get(i % limits.size()));
            }
            limiter.replaceLimits(List.of(Limit.perDay(1_000)));
            assertThat(ended.await(LONG.toSeconds(), TimeUnit.SECONDS))
                    .as("every caller ends")
                    .isTrue();
            assertThat(denied).hasValue(0);
            await().atMost(LONG).untilAsserted(() -> assertNoWaiterIsLeft(limiter));
            await().atMost(LONG)
                    .untilAsserted(() -> assertThat(limiter.peek("a")
                                    .block(LONG)
                                    .limits()
                                    .get(0)
                                    .used())
                            .as("permits in use were granted to callers, or to callers that were cancelled late")
                            .isGreaterThanOrEqualTo(allowed.get())
                            .isLessThanOrEqualTo(callers));
        }
    }

    private RateLimiter limiter(Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder(name)
                .store(store)
                .fallback(Fallback.error())
                .deadline(Duration.ofSeconds(30));
        for (Limit limit : limits) {
            builder.limit(limit);
        }
        RateLimiter limiter = builder.build();
        LimiterForTests.awaitReady(limiter);
        return limiter;
    }
}
