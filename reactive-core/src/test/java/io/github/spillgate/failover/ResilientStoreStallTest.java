package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.scheduler.Schedulers;

/**
 * Redis stalls for about as long as the deadline, again and again, so that it answers some of the concurrent callers in
 * time and the fallback answers the others. One instance never grants more than the limit.
 *
 * <p>Each round has a seed of its own, which a failure reports. {@code -Dspillgate.stops=1000} runs a thousand rounds.
 */
@ParameterizedClass
@EnumSource(CallerThreads.Kind.class)
class ResilientStoreStallTest {

    private static final int ROUNDS = Integer.getInteger("spillgate.stops", 25);
    private static final int FEW_ROUNDS = 8;
    private static final int REQUESTS = 150;
    private static final int MILLIS = 150;
    private static final int DEADLINE = 40;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Limit LOG = Limit.perHour(30);
    private static final Limit OTHER = Limit.perDay(50);
    private static final Limit COUNTER = Limit.perHour(30).counter();
    private static final Limit ALIGNED = Limit.perDay(30).counter().alignedToClock();
    private static final Limit SHORT = Limit.of(15, Duration.ofMillis(400));

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final CallerThreads threads;
    private final RedisStore redisStore;
    private final Admissions ledger = new Admissions();
    private final Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
    private final Queue<Source> sources = new ConcurrentLinkedQueue<>();
    private ResilientStore store;
    private RateLimiter limiter;

    ResilientStoreStallTest(CallerThreads.Kind threads) {
        this.threads = new CallerThreads(threads);
        this.redisStore = this.threads.store(client, redis.uri());
    }

    @BeforeEach
    void begin() {
        store = ResilientStore.builder(redisStore)
                .fallback(Fallback.local(10_000))
                .deadline(Duration.ofMillis(DEADLINE))
                .breaker(settings -> settings.waitIntervalFunctionInOpenState(IntervalFunction.of(30)))
                .build();
        limiter = RateLimiter.builder("stops").store(store).build();
        await().until(() -> limiter.peek(Charge.of("first", LOG)).block().source() == Source.REDIS);
        threads.awaitLanes(limiter);
    }

    @AfterEach
    void end() {
        limiter.closeLater().block(PATIENCE);
        redisStore.close();
        threads.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    @Test
    void aFewStallsNeverLetOneInstanceGrantMoreThanTheLimit() throws InterruptedException {
        for (int round = 0; round < FEW_ROUNDS || (round < ROUNDS && !sources.contains(Source.LOCAL)); round++) {
            stall(round, round % 2 == 0 ? 1 : 4);
        }
        assertAllIsReconciledAndCharged();
    }

    /** Decisions over one permit are batched on their way to Redis; decisions over several permits are not. */
    @Thorough
    @ParameterizedTest
    @ValueSource(ints = {1, 4})
    void manyStallsNeverLetOneInstanceGrantMoreThanTheLimit(int mostPermits) throws InterruptedException {
        for (int round = 0; round < ROUNDS; round++) {
            stall(round, mostPermits);
        }
        assertAllIsReconciledAndCharged();
    }

    private void stall(int round, int mostPermits) throws InterruptedException {
        long seed = new Random().nextLong();
        stall(new Random(seed), "-" + round, mostPermits);
        assertThat(errors).as("seed %d", seed).isEmpty();
        try {
            ledger.assertBothStoresTogetherKeptTheLimit();
        } catch (AssertionError e) {
            throw new AssertionError("seed " + seed, e);
        }
    }

    private void assertAllIsReconciledAndCharged() {
        assertThat(sources).contains(Source.REDIS, Source.LOCAL);
        awaitReconciled();
        assertThat(limiter.state().lost()).isZero();
        assertThat(limiter.state().unknown()).isZero();
        assertRedisHoldsExactlyWhatWasGranted();
    }

    private void awaitReconciled() {
        await().atMost(PATIENCE.plusSeconds(15))
                .untilAsserted(() -> assertThat(limiter.state().toReconcile())
                        .as(limiter.state().toString())
                        .isZero());
    }

    /** Draws all times of a round from the random numbers before it starts. */
    private void stall(Random random, String round, int mostPermits) throws InterruptedException {
        CountDownLatch open = new CountDownLatch(REQUESTS + 1);
        stall(random, open);
        for (int i = 0; i < REQUESTS; i++) {
            List<Charge> charges = charges(random, round, mostPermits);
            scheduleAtRandom(random, () -> acquire(charges, open));
        }
        assertThat(open.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
    }

    private void scheduleAtRandom(Random random, Runnable what) {
        threads.schedule(what, random.nextInt(MILLIS));
    }

    private void stall(Random random, CountDownLatch open) {
        int stop = random.nextInt(MILLIS / 2);
        int go = stop + DEADLINE / 2 + random.nextInt(2 * DEADLINE);
        Schedulers.boundedElastic().schedule(() -> pauseAndResume(go - stop, open), stop, TimeUnit.MILLISECONDS);
    }

    /** One task starts the other: a busy machine may run two timers in the wrong order, and Redis would not resume. */
    private void pauseAndResume(int millis, CountDownLatch open) {
        redis.pause();
        Schedulers.boundedElastic()
                .schedule(
                        () -> {
                            redis.resume();
                            open.countDown();
                        },
                        millis,
                        TimeUnit.MILLISECONDS);
    }

    private static List<Charge> charges(Random random, String round, int mostPermits) {
        int permits = 1 + random.nextInt(mostPermits);
        return switch (random.nextInt(6)) {
            case 0, 1 -> List.of(Charge.of("log" + round, LOG).permits(permits));
            case 2 -> List.of(Charge.of("counter" + round, COUNTER).permits(permits));
            case 3 -> List.of(Charge.of("aligned" + round, ALIGNED).permits(permits));
            case 4 -> List.of(Charge.of("short", SHORT).permits(permits));
            default ->
                List.of(
                        Charge.of("log" + round, LOG, OTHER).permits(permits),
                        Charge.of("counter" + round, COUNTER).permits(permits));
        };
    }

    private void acquire(List<Charge> charges, CountDownLatch open) {
        long requestedAt = System.nanoTime();
        limiter.tryAcquire(charges.toArray(Charge[]::new))
                .doFinally(end -> open.countDown())
                .subscribe(decision -> record(decision, requestedAt), errors::add);
    }

    private void record(Decision decision, long requestedAt) {
        sources.add(decision.source());
        ledger.add(decision, requestedAt, System.nanoTime());
    }

    private void assertRedisHoldsExactlyWhatWasGranted() {
        RateLimiter exact =
                RateLimiter.builder("stops").store(new Unprotected(redisStore)).build();
        await().atMost(PATIENCE).untilAsserted(() -> {
            for (Admissions.CountGrants count : ledger.lasting()) {
                Charge charge = Charge.of(count.claim().key(), count.claim().limit());
                assertThat(exact.peek(charge).block(PATIENCE).limits().get(0).used())
                        .as("used of %s", count)
                        .isEqualTo(ledger.leastChargedInRedis(count));
            }
        });
    }
}
