package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Requests that reach Redis before and after their deadline, by Redis's clock. */
class RedisStoreDeadlineTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final RedisStore store = RedisStore.create(client);
    private final RateLimiter limiter = Unprotected.limiter(store);

    @BeforeEach
    void connect() {
        store.prepare("").retry(3).block(LONG);
    }

    @AfterEach
    void shutdown() {
        store.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    static Stream<List<Limit>> limits() {
        return Stream.of(
                List.of(Limit.parse("10/1h")),
                List.of(Limit.parse("10/1h counter")),
                List.of(Limit.parse("10/1d counter aligned")),
                List.of(Limit.parse("10/1h counting-denied")),
                List.of(Limit.parse("10/1h"), Limit.parse("20/1d counter")));
    }

    @ParameterizedTest
    @MethodSource("limits")
    void aRequestThatRedisGetsToAfterItsDeadlineTakesNothing(List<Limit> limits) {
        assertThat(take(limits, in(LONG)).block(LONG).isAllowed()).isTrue();
        redis.pause();
        long deadline = in(Duration.ofMillis(50));
        List<CompletableFuture<StoreDecision>> late = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            late.add(take(limits, deadline).toFuture());
        }
        awaitThat(deadline);
        redis.resume();
        late.forEach(RedisStoreDeadlineTest::assertTooLate);
        assertThat(used(limits)).allMatch(used -> used == 1);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void onlyEqualRequestsPastTheirDeadlineAreRefused(boolean lateFirst) throws Exception {
        List<Limit> limits = List.of(Limit.parse("10/1h"));
        assertThat(take(limits, in(LONG)).block(LONG).isAllowed()).isTrue();
        redis.pause();
        // It is in flight, so the others are sent together when Redis has answered it.
        CompletableFuture<StoreDecision> first = take(limits, in(LONG)).toFuture();
        long early = in(Duration.ofMillis(50));
        CompletableFuture<StoreDecision> one =
                take(limits, lateFirst ? early : in(LONG)).toFuture();
        CompletableFuture<StoreDecision> other =
                take(limits, lateFirst ? in(LONG) : early).toFuture();
        awaitThat(early);
        redis.resume();
        assertThat(first.get(30, TimeUnit.SECONDS).isAllowed()).isTrue();
        assertTooLate(lateFirst ? one : other);
        assertThat((lateFirst ? other : one).get(30, TimeUnit.SECONDS).isAllowed())
                .isTrue();
        assertThat(used(limits)).containsExactly(3L);
    }

    /** Several threads ask about one key; the deadlines of some have nearly passed, or have. */
    @Test
    void everyRequestOnAHotKeyIsAnsweredOnceAndChargedIfAllowed() throws Exception {
        List<Limit> limits = List.of(Limit.parse("1000000/1h"));
        AtomicInteger answered = new AtomicInteger();
        AtomicInteger allowed = new AtomicInteger();
        int asked = 30_000;
        CountDownLatch all = new CountDownLatch(asked);
        Flux.range(0, asked)
                .parallel(3)
                .runOn(Schedulers.boundedElastic())
                .flatMap(
                        n -> take(limits, in(Duration.ofMillis(n % 20 == 0 ? -1 : n % 20 == 1 ? 1 : 8)))
                                .doOnNext(decision -> allowed.incrementAndGet())
                                .onErrorResume(Kind.LATE::isOf, late -> Mono.empty())
                                .doFinally(end -> {
                                    answered.incrementAndGet();
                                    all.countDown();
                                }),
                        false,
                        200)
                .subscribe();
        assertThat(all.await(60, TimeUnit.SECONDS))
                .as("%d answered", answered.get())
                .isTrue();
        assertThat(answered).hasValue(asked);
        assertThat(allowed.get()).isPositive();
        assertThat(used(limits)).containsExactly(allowed.longValue());
    }

    @ParameterizedTest
    @MethodSource("limits")
    void aResetThatRedisGetsToAfterItsDeadlineClearsNothing(List<Limit> limits) {
        StoreDecision taken = take(limits, in(LONG)).block(LONG);
        redis.pause();
        long deadline = in(Duration.ofMillis(50));
        CompletableFuture<Void> late = reset(limits, deadline).toFuture();
        awaitThat(deadline);
        redis.resume();
        assertTooLate(late);
        assertThat(used(limits)).allMatch(used -> used == 1);
        StoreForTests.refund(store, taken).block(LONG);
        assertThat(used(limits)).as("used after a refund").allMatch(used -> used == 0);
    }

    @Test
    void aResetIsRetriedIfTheServersClockHasStepped() {
        String clock = "local micros = time[1] * 1000000 + time[2]";
        RedisStore stepping = RedisStore.builder(client)
                .scripts(text -> text.replace(clock, clock + " + (redis.call('GET', 'step') or 0)"))
                .build();
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new Until(stepping, in(LONG)))
                .limit(Limit.perDay(10))
                .build();
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
            connection.sync().set("step", Long.toString(TimeUnit.HOURS.toMicros(1)));
            limiter.reset("a").block(LONG);
            assertThat(limiter.peek("a").block(LONG).remaining()).isEqualTo(10);
        } finally {
            stepping.close();
        }
    }

    private static long in(Duration time) {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS) + time.toNanos();
    }

    /** Waits until a deadline has passed by Redis's clock too; the two clocks are of the same machine. */
    private static void awaitThat(long deadline) {
        await().until(() ->
                Schedulers.parallel().now(TimeUnit.NANOSECONDS) - deadline > TimeUnit.MILLISECONDS.toNanos(20));
    }

    private static void assertTooLate(CompletableFuture<?> failed) {
        assertThat(failed).failsWithin(LONG).withThrowableThat().havingCause().is(kind(Kind.LATE));
    }

    private Mono<StoreDecision> take(List<Limit> limits, long deadline) {
        return RateLimiter.builder("api")
                .store(new Until(store, deadline))
                .build()
                .tryAcquire(charge(limits))
                .cast(StoreDecision.class);
    }

    private Mono<Void> reset(List<Limit> limits, long deadline) {
        return RateLimiter.builder("api")
                .store(new Until(store, deadline))
                .build()
                .reset(charge(limits));
    }

    private static Charge charge(List<Limit> limits) {
        return Charge.of("key", limits.toArray(Limit[]::new));
    }

    private List<Long> used(List<Limit> limits) {
        return limiter.peek(charge(limits)).block(LONG).limits().stream()
                .map(Decision.Usage::used)
                .toList();
    }

    /** A store that takes and resets until a deadline. */
    private static final class Until extends Unprotected {

        private final RedisStore store;
        private final long deadline;

        Until(RedisStore store, long deadline) {
            super(store);
            this.store = store;
            this.deadline = deadline;
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return store.take(StoreRequest.take(claims, deadline));
        }

        @Override
        public Mono<Void> reset(List<Claim> claims, long ignored) {
            return store.reset(claims, deadline);
        }
    }
}
