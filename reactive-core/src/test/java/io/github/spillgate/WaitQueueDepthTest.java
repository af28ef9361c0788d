package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The depth of the stack does not grow with the number of callers that return to a wait queue. */
class WaitQueueDepthTest {

    private static final int MANY = 1_000;
    private static final int DEEP = 1_000;
    private static final Limit LIMIT = Limit.of(10_000, Duration.ofMillis(100));
    private static final Duration LONG = Duration.ofMinutes(1);

    private final AtomicInteger deepest = new AtomicInteger();

    @Test
    void manyStreamsOnOneKey() {
        RateLimiter limiter = limiter(LocalStore.bounded(100));
        limiter.tryAcquire(Charge.of("a", 10_000)).block();
        List<Long> ends = Flux.range(0, MANY)
                .flatMap(
                        i -> Flux.range(0, 3)
                                .transform(limiter.throttle("a"))
                                .doOnNext(e -> recordDepth())
                                .count(),
                        MANY)
                .collectList()
                .block(LONG);
        assertThat(ends).hasSize(MANY).containsOnly(3L);
        assertThat(deepest.get()).isLessThan(DEEP);
    }

    @Test
    void callersThatWaitAgainWhenServed() {
        RateLimiter limiter = limiter(LocalStore.bounded(100));
        limiter.tryAcquire(Charge.of("a", 10_000)).block();
        Flux.range(0, MANY)
                .flatMap(
                        i -> limiter.acquire("a", LONG)
                                .doOnNext(decision -> recordDepth())
                                .flatMap(first -> limiter.acquire("a", LONG)),
                        MANY)
                .doOnNext(decision -> assertThat(decision.isAllowed()).isTrue())
                .blockLast(LONG);
        assertThat(deepest.get()).isLessThan(DEEP);
    }

    @Test
    void callersThatRetryAfterAnError() {
        AtomicInteger asked = new AtomicInteger();
        RateLimiter limiter = limiter(new Unprotected(LocalStore.bounded(100)) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                Mono<StoreDecision> answer = asked.getAndIncrement() == 0
                        ? Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"))
                        : super.take(claims);
                return Mono.delay(Duration.ofMillis(20)).then(answer);
            }
        });
        Flux.range(0, MANY)
                .flatMap(
                        i -> limiter.acquire("a", LONG)
                                .doOnError(e -> recordDepth())
                                .retry(1),
                        MANY)
                .doOnNext(decision -> assertThat(decision.isAllowed()).isTrue())
                .blockLast(LONG);
        assertThat(deepest.get()).isPositive().isLessThan(DEEP);
    }

    private void recordDepth() {
        int frames = StackWalker.getInstance().walk(all -> (int) all.count());
        deepest.accumulateAndGet(frames, Math::max);
    }

    private static RateLimiter limiter(LimitStore store) {
        return RateLimiter.builder("test")
                .store(store)
                .limit(LIMIT)
                .waiters(20_000, 20_000)
                .build();
    }
}
