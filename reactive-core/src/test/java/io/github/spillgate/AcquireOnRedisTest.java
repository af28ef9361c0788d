package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.SignalType;
import reactor.core.scheduler.Schedulers;

/** Waiting for permits of a real Redis, on its clock. */
class AcquireOnRedisTest {

    private static final AtomicInteger NAMES = new AtomicInteger();
    private static final Duration LONG = Duration.ofMinutes(5);

    private static RedisClient client;

    @BeforeAll
    static void connect() {
        client = RedisClient.create(RedisForTests.first().uri());
    }

    @AfterAll
    static void disconnect() {
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    private final String name = "waiting-" + NAMES.incrementAndGet() + "-" + System.nanoTime();

    @Test
    void manyWaitersAreServedInOrderAndNoWindowIsUnused() {
        assertServedInOrderInEveryWindow(700);
    }

    @Thorough
    @Test
    void aThousandWaitersAreServedInOrderAndNoWindowIsUnused() {
        assertServedInOrderInEveryWindow(1_000);
    }

    private void assertServedInOrderInEveryWindow(int callers) {
        Limit limit = Limit.perSecond(400);
        CountingStore store = new CountingStore(
                RedisStore.builder(client).deliverOn(Schedulers.single()).build());
        RateLimiter limiter = limiter(store, limit);
        List<Integer> served = Collections.synchronizedList(new ArrayList<>());
        List<Decision> decisions = Flux.range(0, callers)
                .flatMap(i -> limiter.acquire("a", LONG).doOnNext(decision -> served.add(i)), callers)
                // On the thread of the decisions: two threads that serve waiters could swap what they add.
                .subscribeOn(Schedulers.single())
                .collectList()
                .block(LONG);
        assertThat(decisions).hasSize(callers).allMatch(Decision::isAllowed);
        assertThat(served)
                .containsExactlyElementsOf(IntStream.range(0, callers).boxed().toList());
        assertThat(store.takes()).as("attempts for %d permits", callers).isLessThan(2 * callers);
        assertNoWindowHoldsMore(limit, decisions);
        long[] at = instants(decisions);
        for (int i = 400; i < at.length; i++) {
            assertThat(at[i] - at[i - 400])
                    .as("a window between %d and %d", i - 400, i)
                    .isLessThan(2 * limit.window().toMillis());
        }
        await().atMost(LONG).untilAsserted(() -> assertNoWaiterIsLeft(limiter));
    }

    /** The second instance learns of a pause, and of its end by a call, from the replies of Redis alone. */
    @Test
    void waitersOfAllInstancesWaitForTheEndOfAPause() {
        List<RateLimiter> limiters = List.of(pausable(RedisStore.create(client)), pausable(RedisStore.create(client)));
        limiters.get(0).pause("a", Duration.ofSeconds(1)).block();
        long from = System.nanoTime();
        List<Decision> decisions = Flux.range(0, 20)
                .flatMap(i -> limiters.get(i % 2).acquire("a", LONG), 20)
                .collectList()
                .block(LONG);
        assertThat(decisions).hasSize(20).allMatch(Decision::isAllowed);
        assertThat(Duration.ofNanos(System.nanoTime() - from)).isGreaterThan(Duration.ofMillis(900));
    }

    @Test
    void aPardonEndsTheWaitOfAllInstances() {
        List<RateLimiter> limiters = List.of(pausable(RedisStore.create(client)), pausable(RedisStore.create(client)));
        limiters.get(0).pause("a", Duration.ofHours(1)).block();
        assertThat(limiters.get(1)
                        .acquire("a", Duration.ofSeconds(1))
                        .block(LONG)
                        .retryAfter()
                        .get())
                .isGreaterThan(Duration.ofMinutes(59));
        List<Decision> decisions = Collections.synchronizedList(new ArrayList<>());
        limiters.forEach(limiter -> limiter.acquire("a", Duration.ofHours(2)).subscribe(decisions::add));
        await().until(() ->
                limiters.stream().allMatch(limiter -> limiter.queues().reserved() == 1));
        limiters.get(0).pardon("a").block();
        await().atMost(Duration.ofSeconds(30)).until(() -> decisions.size() == 2);
        assertThat(decisions).allMatch(Decision::isAllowed);
    }

    /** Also if a concurrency limit denies as well. */
    @Test
    void aPardonEndsTheWaitForAPauseAndForAHolder() {
        Limit[] limits = {Limit.concurrent(1), Limit.pausable()};
        List<RateLimiter> limiters = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            limiters.add(RateLimiter.builder(name)
                    .store(RedisStore.create(client))
                    .limit(limits[0])
                    .limit(limits[1])
                    .build());
        }
        limiters.forEach(limiter -> limiter.ready().block());
        Decision holder = limiters.get(0).tryAcquire("a").block();
        limiters.get(0).pause("a", Duration.ofHours(1)).block();
        List<Decision> decisions = Collections.synchronizedList(new ArrayList<>());
        limiters.get(1).acquire("a", Duration.ofHours(2)).subscribe(decisions::add);
        await().until(() -> limiters.get(1).queues().reserved() == 1);
        limiters.get(0).release(holder).block();
        limiters.get(0).pardon("a").block();
        await().atMost(Duration.ofSeconds(30)).until(() -> decisions.size() == 1);
        assertThat(decisions).allMatch(Decision::isAllowed);
    }

    private RateLimiter pausable(RedisStore store) {
        RateLimiter limiter = RateLimiter.builder(name)
                .store(store)
                .limit(Limit.perSecond(100))
                .limit(Limit.pausable())
                .build();
        limiter.ready().block();
        return limiter;
    }

    /** An instance with a faster network gets more of a burst, but each waiting instance gets some permits. */
    @ParameterizedTest
    @CsvSource("1, 15, 3")
    void neitherOfTwoInstancesStarvesIfOneHasASlowerNetwork(int permits, int windowMillis, int delayMillis) {
        assertNeitherStarves(permits, windowMillis, delayMillis);
    }

    @Thorough
    @ParameterizedTest
    @CsvSource({"1, 15, 0", "20, 50, 0", "20, 50, 3"})
    void neitherOfTwoInstancesStarvesForAnyNumberOfPermits(int permits, int windowMillis, int delayMillis) {
        assertNeitherStarves(permits, windowMillis, delayMillis);
    }

    private void assertNeitherStarves(int permits, int windowMillis, int delayMillis) {
        Limit limit = Limit.of(permits, Duration.ofMillis(windowMillis));
        int windows = 30;
        int calls = windows * permits;
        RedisClient other = RedisClient.create(RedisForTests.first().uri());
        CountingStore near = new CountingStore(RedisStore.create(client));
        CountingStore far =
                new CountingStore(new DelayedStore(RedisStore.create(other), Duration.ofMillis(delayMillis)));
        ConcurrentLinkedQueue<String> order = new ConcurrentLinkedQueue<>();
        List<Decision> decisions = Flux.merge(
                        calls(limiter(near, limit), calls).doOnNext(decision -> order.add("near")),
                        calls(limiter(far, limit), calls).doOnNext(decision -> order.add("far")))
                .collectList()
                .block(LONG);
        assertThat(decisions).hasSize(2 * calls).allMatch(Decision::isAllowed);
        assertNoWindowHoldsMore(limit, decisions);
        List<String> whileBothWait = order.stream().limit(calls).toList();
        assertThat(Collections.frequency(whileBothWait, "far")).isGreaterThan(windows / 10);
        assertThat(Collections.frequency(whileBothWait, "near")).isGreaterThan(windows / 10);
        assertThat(near.takes() + far.takes())
                .as("attempts for %d permits", 2 * calls)
                .isLessThan(2 * calls * 5);
        other.shutdown(0, 1, TimeUnit.SECONDS);
    }

    @Test
    void noPermitIsLostIfManyWaitersCancel() throws InterruptedException {
        assertNoPermitIsLost();
    }

    @Thorough
    @RepeatedTest(4)
    void noPermitIsLostIfManyWaitersCancelLongRun() throws InterruptedException {
        assertNoPermitIsLost();
    }

    private void assertNoPermitIsLost() throws InterruptedException {
        Limit limit = Limit.of(400, Duration.ofHours(1));
        RateLimiter limiter = limiter(RedisStore.create(client), limit);
        AtomicInteger granted = new AtomicInteger();
        AtomicInteger ended = new AtomicInteger();
        int threads = 4;
        int each = 300;
        CountDownLatch done = new CountDownLatch(threads);
        for (int t = 0; t < threads; t++) {
            Schedulers.boundedElastic().schedule(() -> {
                for (int i = 0; i < each; i++) {
                    BaseSubscriber<Decision> one = new BaseSubscriber<>() {
                        @Override
                        protected void hookOnNext(Decision decision) {
                            if (decision.isAllowed()) {
                                granted.addAndGet(
                                        (int) DecidedClaims.of(decision).get(0).permits());
                            }
                        }

                        @Override
                        protected void hookFinally(SignalType type) {
                            ended.incrementAndGet();
                        }
                    };
                    ThreadLocalRandom random = ThreadLocalRandom.current();
                    limiter.acquire(
                                    List.of(Charge.of("a", 1 + random.nextInt(2))),
                                    Duration.ofMillis(random.nextInt(100)))
                            .subscribe(one);
                    if (random.nextBoolean()) {
                        Schedulers.parallel().schedule(one::cancel, random.nextInt(400), TimeUnit.MICROSECONDS);
                    }
                }
                done.countDown();
            });
        }
        done.await();
        await().atMost(LONG).until(() -> ended.get() == threads * each);
        await().atMost(LONG).untilAsserted(() -> assertNoWaiterIsLeft(limiter));
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(
                                limiter.peek("a").block().limits().get(0).used())
                        .isEqualTo(granted.get()));
    }

    @Test
    void manyStreamsOnManyThreadsComplete() {
        Limit limit = Limit.of(300, Duration.ofMillis(50));
        RateLimiter limiter = limiter(RedisStore.create(client), limit);
        List<Integer> ends = Flux.range(0, 40)
                .flatMap(
                        stream -> Flux.range(0, 50)
                                .publishOn(Schedulers.parallel(), 1 + stream % 5)
                                .transform(limiter.throttle("a", element -> element % 3))
                                .publishOn(Schedulers.parallel(), 1 + stream % 7)
                                .collectList()
                                .doOnNext(list -> assertThat(list)
                                        .containsExactlyElementsOf(
                                                IntStream.range(0, 50).boxed().toList()))
                                .map(List::size),
                        40)
                .collectList()
                .block(LONG);
        assertThat(ends).hasSize(40).containsOnly(50);
        await().atMost(LONG).untilAsserted(() -> assertNoWaiterIsLeft(limiter));
    }

    private Flux<Decision> calls(RateLimiter limiter, int number) {
        return Flux.range(0, number).flatMap(i -> limiter.acquire("a", LONG), number);
    }

    private RateLimiter limiter(LimitStore store, Limit limit) {
        return RateLimiter.builder(name)
                .store(new Unprotected(store))
                .limit(limit)
                .waiters(2_000, 10_000)
                .build();
    }

    private static void assertNoWindowHoldsMore(Limit limit, List<Decision> decisions) {
        int permits = (int) limit.permits();
        long[] at = instants(decisions);
        for (int i = permits; i < at.length; i++) {
            assertThat(at[i] - at[i - permits])
                    .as("between %d and %d", i - permits, i)
                    .isGreaterThanOrEqualTo(limit.window().toMillis());
        }
    }

    private static long[] instants(List<Decision> decisions) {
        return decisions.stream()
                .mapToLong(decision -> decision.at().toEpochMilli())
                .sorted()
                .toArray();
    }

    /** A store that counts the attempts. */
    private static final class CountingStore extends Unprotected {

        private final AtomicInteger takes = new AtomicInteger();

        CountingStore(LimitStore store) {
            super(store);
        }

        int takes() {
            return takes.get();
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return super.take(claims).doOnSubscribe(any -> takes.incrementAndGet());
        }
    }

    /** A store with network delay. */
    private static final class DelayedStore extends Unprotected {

        private final Duration delay;

        DelayedStore(LimitStore store, Duration delay) {
            super(store);
            this.delay = delay;
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return delay.isZero()
                    ? super.take(claims)
                    : Mono.delay(delay).then(super.take(claims)).delayElement(delay);
        }
    }
}
