package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.resilience4j.core.IntervalFunction;
import io.github.spillgate.Charge;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A limiter on a Redis of its own, with 200 callers that never pause, for tests that break Redis and watch the callers.
 * A ledger records every grant; at the end it is compared with the counts in Redis.
 *
 * <p>In the fast tier the breaker waits about 200 ms before it tries Redis again, otherwise the default of 1 s. With
 * {@code -Dspillgate.chaos.tell=true} it is the default as well, and the test prints how long decisions took and how
 * long it took until Redis decided again.
 */
final class Chaos implements AutoCloseable {

    private static final Duration DEADLINE = Duration.ofMillis(100);

    /** For several servers on one machine: with a shorter deadline, a busy one opens the breaker again and again. */
    private static final Duration DEADLINE_OF_SEVERAL = Duration.ofSeconds(1);

    /** The margin beside late timers, for 200 callers that share two processors with Redis. */
    private static final Duration MARGIN = Duration.ofMillis(250);

    /** The thorough tier and the proof test with the default breaker and at full length. */
    static final boolean FULL = Boolean.getBoolean("tests.full");

    /** The longest timer delay that is added to the deadline. */
    private static final Duration MOST_LATE = Duration.ofSeconds(2);

    static final Duration PATIENCE = Duration.ofMinutes(3);

    private static final int CALLERS = 200;
    private static final boolean REPORTS = Boolean.getBoolean("spillgate.chaos.tell");
    private static final IntervalFunction SHORT_WAIT = IntervalFunction.ofRandomized(Duration.ofMillis(200), 0.3);

    private final CallerThreads threads;
    private final Duration deadline;
    private final @Nullable RedisForTests redis;
    private final @Nullable BadNetwork network;
    private final RedisClient client;
    private final RedisClient directClient;
    private final RedisStore redisStore;
    private final LocalFallback local;
    private final ResilientStore store;
    private final RateLimiter limiter;
    private final Admissions ledger = new Admissions();
    private final LoadGenerator traffic;
    private final StallMeter stalls = StallMeter.start();
    private @Nullable StatefulRedisConnection<String, String> connection;
    private long repairedAt;

    /** A limiter connected directly to Redis. */
    Chaos(CallerThreads.Kind threads, RedisForTests redis) {
        this(threads, redis, redis.uri(), null, 1);
    }

    Chaos(CallerThreads.Kind threads, RedisForTests redis, double share) {
        this(threads, redis, redis.uri(), null, share);
    }

    /** A limiter with a client that has a URI of its own. */
    Chaos(CallerThreads.Kind threads, RedisForTests redis, RedisURI uri) {
        this(threads, redis, uri, null, 1);
    }

    /** A limiter connected to Redis through a faulty network. */
    Chaos(CallerThreads.Kind threads, RedisForTests redis, BadNetwork network) {
        this(threads, redis, network.uri(), network, 1);
    }

    /** A limiter on several Redis servers, which the test starts and closes. */
    Chaos(CallerThreads.Kind threads, RedisURI uri) {
        this(threads, null, uri, null, 1);
    }

    private Chaos(
            CallerThreads.Kind threads,
            @Nullable RedisForTests redis,
            RedisURI uri,
            @Nullable BadNetwork network,
            double share) {
        this.threads = new CallerThreads(threads);
        this.deadline = redis == null ? DEADLINE_OF_SEVERAL : DEADLINE;
        this.redis = redis;
        this.network = network;
        this.client = RedisClient.create(uri);
        this.directClient = RedisClient.create(redis == null ? uri : redis.uri());
        this.redisStore = this.threads.store(client, uri);
        this.local = Fallback.local(100_000).share(share);
        this.store = ResilientStore.builder(redisStore)
                .fallback(local)
                .deadline(deadline)
                .breaker(settings -> FULL || REPORTS ? settings : settings.waitIntervalFunctionInOpenState(SHORT_WAIT))
                .build();
        this.limiter = RateLimiter.builder("chaos").store(store).build();
        this.traffic = new LoadGenerator(limiter, ledger, this.threads::execute);
    }

    RedisForTests redis() {
        return Objects.requireNonNull(redis, "of several the test knows which one it means");
    }

    Admissions ledger() {
        return ledger;
    }

    ResilientStore store() {
        return store;
    }

    StoreState state() {
        return limiter.state();
    }

    // Actions

    /** Starts the callers and waits until Redis has made some decisions. */
    Chaos begin() {
        traffic.start(CALLERS);
        awaitMoreFrom(Source.REDIS, FULL ? 5_000 : 2_000);
        threads.awaitLanes(limiter);
        return this;
    }

    /** Records no grants: in a long test the ledger would grow without bound. */
    Chaos withoutLedger() {
        ledger.close();
        return this;
    }

    /** Starts the callers. */
    Chaos beginWithoutRedis() {
        traffic.start(CALLERS);
        return this;
    }

    /** Waits for this many further decisions of the source. */
    void awaitMoreFrom(Source source, int decisions) {
        long before = traffic.decidedBy(source);
        await().atMost(PATIENCE).until(() -> traffic.decidedBy(source) >= before + decisions);
    }

    /** Causes a fault, and again each second, until a source has made this many more decisions. */
    void repeatUntilMoreFrom(Source source, int decisions, Runnable fault) {
        long before = traffic.decidedBy(source);
        AtomicLong next = new AtomicLong(System.nanoTime());
        await().atMost(PATIENCE).until(() -> {
            if (System.nanoTime() - next.get() >= 0) {
                fault.run();
                next.addAndGet(Duration.ofSeconds(1).toNanos());
            }
            return traffic.decidedBy(source) >= before + decisions;
        });
    }

    /** Waits until the fallback has been active for this long. */
    void awaitOutage(Duration atLeast) {
        await().atMost(PATIENCE).until(() -> state().isFallbackActive());
        long from = System.nanoTime();
        await().atMost(PATIENCE).until(() -> System.nanoTime() - from >= atLeast.toNanos());
        awaitMoreFrom(Source.LOCAL, 1_000);
    }

    /** Kills Redis; its data is lost. */
    void kill() {
        redis().kill();
        ledger.recordDataLoss();
    }

    /** Restarts Redis without data. */
    void restart() {
        ledger.recordEmptyRestart();
        redis().restart();
    }

    /** Waits until Redis, which works again from now on, decides again by itself. */
    void awaitRecovery() {
        markRepaired();
        awaitRedisDecides();
    }

    /** Starts to measure the time until Redis decides again. */
    void markRepaired() {
        repairedAt = System.nanoTime();
    }

    /** Waits until Redis decides again by itself. */
    void awaitRedisDecides() {
        long before = traffic.decidedBy(Source.REDIS);
        await().atMost(PATIENCE)
                .until(() -> traffic.decidedBy(Source.REDIS) > before && state().breaker() == Breaker.CLOSED);
        report("Redis decides again after", Duration.ofNanos(System.nanoTime() - repairedAt));
        awaitMoreFrom(Source.REDIS, 1_000);
    }

    /** Waits until all local grants have been charged in Redis. */
    void awaitNothingToReconcile() {
        await().atMost(PATIENCE)
                .untilAsserted(() ->
                        assertThat(state().toReconcile()).as("to reconcile").isZero());
    }

    /** Runs a command on a separate connection, which a paused Redis also holds up. */
    void command(Consumer<RedisCommands<String, String>> command) {
        if (connection == null) {
            connection = directClient.connect();
        }
        command.accept(connection.sync());
    }

    // Assertions

    /** Stops the callers, and waits until no call is in flight and nothing is to reconcile. */
    Chaos end() {
        traffic.stop();
        await().atMost(PATIENCE).until(traffic::isOver);
        await().atMost(PATIENCE)
                .untilAsserted(
                        () -> assertThat(callsInFlight()).as("calls in flight").isZero());
        report("state", state());
        awaitNothingToReconcile();
        report("state", state());
        threads.awaitLanes(limiter);
        return this;
    }

    int callsInFlight() {
        return 10_000 - store.failover().gates().whole().freeCapacity();
    }

    /** Asserts that no call failed or was late, and that no limit was exceeded. */
    Chaos assertCallersUnaffected() {
        assertLatencies();
        ledger.assertRedisNeverExceededTheLimit();
        ledger.assertLocalStoreKeptItsShare(local.share().orElse(1), repairedAt);
        ledger.assertLocalStoreCountedAllKnownGrants(local.share().orElse(1));
        if (local.share().orElse(1) == 1) {
            ledger.assertBothStoresTogetherKeptTheLimit();
        }
        assertThat(state().lost()).as("lost").isZero();
        return this;
    }

    /** Asserts that no call failed or exceeded the deadline by more than the delay of this process's timers. */
    void assertLatencies() {
        report("closed or half open", traffic.notOpen());
        report("open", traffic.open());
        report("peek, refund, reset", traffic.others());
        report("acquire", traffic.waits());
        assertThat(traffic.errors()).isEmpty();
        report("longest stall", stalls.longest());
        // Twice: the timer fires late, and the thread that hands out the results starts late.
        Duration late = stalls.longest().multipliedBy(2);
        Duration longest = deadline.plus(MARGIN).plus(late.compareTo(MOST_LATE) < 0 ? late : MOST_LATE);
        assertThat(traffic.notOpen().longest()).isLessThan(longest);
        assertThat(traffic.open().longest()).isLessThan(longest);
        assertThat(traffic.others().longest()).isLessThan(longest);
        assertThat(traffic.waits().longest()).isLessThan(longest.plus(LoadGenerator.LONGEST_WAIT));
    }

    /** Asserts that Redis holds exactly the permits that callers were granted. */
    void assertRedisHoldsExactlyWhatWasGranted() {
        assertThat(state().unknown()).as("unknown").isZero();
        withUnprotected(exact -> await().atMost(PATIENCE).untilAsserted(() -> {
            for (Admissions.CountGrants count : ledger.lasting()) {
                assertThat(used(exact, count)).as("used of %s", count).isEqualTo(ledger.leastChargedInRedis(count));
            }
        }));
    }

    /**
     * Asserts that the restarted Redis holds all grants since its start, and nothing that was not granted. What the old
     * one had charged without a reply that arrived may be restored, and is granted locally as well.
     */
    void assertTheNewRedisHoldsWhatWasGranted() {
        withUnprotected(exact -> await().atMost(PATIENCE).untilAsserted(() -> {
            for (Admissions.CountGrants count : ledger.lasting()) {
                assertThat(used(exact, count))
                        .as("used of %s", count)
                        .isBetween(
                                ledger.leastChargedInRedis(count),
                                ledger.mostChargedInRedis(count) + state().unknown());
            }
        }));
    }

    /** Asserts that Redis holds all grants; charges with lost replies may be in addition. */
    void assertRedisHoldsAtLeastWhatWasGranted() {
        withUnprotected(exact -> {
            for (Admissions.CountGrants count : ledger.lasting()) {
                assertThat(used(exact, count))
                        .as("used of %s", count)
                        .isGreaterThanOrEqualTo(ledger.leastChargedInRedis(count));
            }
        });
    }

    private void withUnprotected(Consumer<RateLimiter> check) {
        try (RedisStore asItIs = RedisStore.create(directClient)) {
            check.accept(
                    RateLimiter.builder("chaos").store(new Unprotected(asItIs)).build());
        }
    }

    private static long used(RateLimiter exact, Admissions.CountGrants count) {
        Charge charge = Charge.of(count.claim().key(), count.claim().limit());
        return exact.peek(charge).block(PATIENCE).limits().get(0).used();
    }

    static void report(String what, Object value) {
        if (REPORTS) {
            System.out.println(String.format(Locale.ROOT, "[chaos] %s: %s", what, value));
        }
    }

    @Override
    public void close() {
        stalls.close();
        traffic.stop();
        limiter.close();
        store.close();
        redisStore.close();
        threads.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        directClient.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        if (network != null) {
            network.close();
        }
        if (redis != null) {
            redis.close();
        }
    }
}
