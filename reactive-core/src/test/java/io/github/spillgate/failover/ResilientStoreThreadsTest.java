package io.github.spillgate.failover;

import static io.github.spillgate.testkit.LoopRequests.awaitLane;
import static io.github.spillgate.testkit.LoopRequests.request;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookup;
import io.github.spillgate.LimitLookup.Otherwise;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.HeldThreads;
import io.github.spillgate.testkit.RedisForTests;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Callers that need the threads of {@code Schedulers.parallel()} all the time, and other callers. */
class ResilientStoreThreadsTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int IN_FLIGHT = 256;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisStore store = RedisStore.create(redis.uri());
    private final RateLimiter limiter = RateLimiter.builder("threads")
            .store(store)
            .cacheDenials(Duration.ofMinutes(1))
            .limit(Limit.perHour(1_000_000_000))
            .build();
    private final Disposable.Composite streams = Disposables.composite();

    @AfterEach
    void close() {
        streams.dispose();
        redis.resume();
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        redis.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, IN_FLIGHT})
    void streamsOfCachedDenialsLeaveThreadsToOtherCallers(int inFlight) {
        limiter.ready().retry(3).block(LONG);
        Charge exhausted = Charge.of("exhausted", Limit.perHour(1));
        while (limiter.tryAcquire(exhausted).block(LONG).isAllowed()) {
            assertThat(limiter.state().source()).isEqualTo(Source.REDIS);
        }
        startStreams(inFlight, i -> limiter.tryAcquire(exhausted));
        for (int i = 0; i < 10; i++) {
            assertThat(limiter.tryAcquire("other").block(LONG)).isNotNull();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, IN_FLIGHT})
    void streamsOfLocalDecisionsLetTheStoreDecideAgain(int inFlight) {
        limiter.ready().retry(3).block(LONG);
        redis.pause();
        startStreams(inFlight, i -> limiter.tryAcquire("key " + i % 10_000));
        await().atMost(LONG).until(() -> limiter.state().isFallbackActive());
        redis.resume();
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(limiter.tryAcquire("other").block(LONG))
                        .extracting(Decision::source)
                        .isEqualTo(Source.REDIS));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, IN_FLIGHT})
    void streamsOfALocalStoreLeaveThreadsToOtherCallers(int inFlight) {
        RateLimiter local = RateLimiter.builder("local")
                .store(LocalStore.bounded(1_000))
                .limit(Limit.perHour(1_000_000_000))
                .build();
        startStreams(inFlight, i -> local.tryAcquire("key"));
        for (int i = 0; i < 10; i++) {
            Mono<Decision> other = local.tryAcquire("other").subscribeOn(Schedulers.parallel());
            assertThat(other.block(LONG)).isNotNull();
        }
    }

    @Test
    void streamsThatNoLimitAppliesToLeaveThreadsToOtherCallers() {
        RateLimiter free = RateLimiter.builder("free")
                .store(LocalStore.bounded(1_000))
                .lookup(LimitLookup.of(key -> Mono.<List<Limit>>empty()).whenEmpty(Otherwise.allow()))
                .limit(Limit.perHour(1))
                .build();
        startStreams(IN_FLIGHT, i -> free.tryAcquire("key"));
        for (int i = 0; i < 10; i++) {
            Mono<Decision> other = free.tryAcquire("other").subscribeOn(Schedulers.parallel());
            assertThat(other.block(LONG)).isNotNull();
        }
    }

    /** Callers that block the threads, which they must not do. */
    @Nested
    class IfCallersHoldAllThreads {

        private final EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
        private final EventLoop loop = group.next();

        private @Nullable HeldThreads held;

        @BeforeEach
        void hold() throws InterruptedException {
            awaitLane(loop, limiter);
            held = new HeldThreads();
        }

        @AfterEach
        void release() {
            if (held != null) {
                held.close();
            }
            Future<?> unused = group.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        }

        @Test
        void aCallerOnAnEventLoopGetsALocalDecisionByTheDeadline() {
            redis.pause();
            // Far less than the time after which a silent connection is closed.
            assertThat(request(loop, limiter.tryAcquire("a")))
                    .succeedsWithin(Duration.ofSeconds(2))
                    .extracting(Decision::source)
                    .isEqualTo(Source.LOCAL);
        }

        @Test
        void anOutageEndsWithoutRequests() {
            redis.kill();
            // Without a connection, the decision waits for one of the threads.
            await().atMost(LONG).until(() -> {
                CompletableFuture<Decision> unused = request(loop, limiter.tryAcquire("a"));
                return limiter.state().isFallbackActive();
            });
            redis.restart();
            await().atMost(LONG).until(() -> !limiter.state().isFallbackActive());
        }
    }

    /** Starts endless streams, so many that each thread has one. */
    private void startStreams(int inFlight, Function<Integer, Mono<Decision>> decide) {
        int number = 2 * Schedulers.DEFAULT_POOL_SIZE;
        for (int i = 0; i < number; i++) {
            AtomicInteger decided = new AtomicInteger();
            streams.add(Flux.<Integer>generate(sink -> sink.next(decided.incrementAndGet()))
                    .subscribeOn(Schedulers.parallel())
                    .flatMap(decide, inFlight)
                    .subscribe());
        }
    }
}
