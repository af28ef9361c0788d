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

    static final Duration DEADLINE = Duration.ofMillis(100);

    /** The margin beside late timers, for 200 callers that share two processors with Redis. */
    private static final Duration MARGIN = Duration.ofMillis(250);

    /** The thorough tier and the proof test with the default breaker and at full length. */
    static final boolean FULL = Boolean.getBoolean("tests.full");

    /** The most that late timers excuse. */
    private static final Duration MOST_LATE = Duration.ofSeconds(2);

    static final Duration PATIENCE = Duration.ofSeconds(60);

    private static final int CALLERS = 200;
    private static final boolean TELLS = Boolean.getBoolean("spillgate.chaos.tell");
    private static final IntervalFunction SHORT_WAIT = IntervalFunction.ofRandomized(Duration.ofMillis(200), 0.3);

    private final @Nullable RedisForTests redis;
    private final @Nullable BadNetwork network;
    private final RedisClient client;
    private final RedisClient ofTheTest;
    private final RedisStore redisStore;
    private final LocalFallback local;
    private final ResilientStore store;
    private final RateLimiter limiter;
    private final Admissions ledger = new Admissions();
    private final LoadGenerator traffic;
    private final StallMeter stalls = StallMeter.start();
    private @Nullable StatefulRedisConnection<String, String> connection;
    private long repairedAt;

    /** A limiter that asks Redis itself. */
    Chaos(RedisForTests redis) {
        this(redis, redis.uri(), null, 1);
    }

    Chaos(RedisForTests redis, double share) {
        this(redis, redis.uri(), null, share);
    }

    /** A limiter whose client has a URI of its own. */
    Chaos(RedisForTests redis, RedisURI asked) {
        this(redis, asked, null, 1);
    }

    /** A limiter that asks Redis through a network. */
    Chaos(RedisForTests redis, BadNetwork network) {
        this(redis, network.uri(), network, 1);
    }

    /** A limiter whose Redis is several, which the test starts and closes itself. */
    Chaos(RedisURI asked) {
        this(null, asked, null, 1);
    }

    private Chaos(@Nullable RedisForTests redis, RedisURI asked, @Nullable BadNetwork network, double share) {
        this.redis = redis;
        this.network = network;
        this.client = RedisClient.create(asked);
        this.ofTheTest = RedisClient.create(redis == null ? asked : redis.uri());
        this.redisStore = RedisStore.create(client);
        this.local = Fallback.local(100_000).share(share);
        this.store = ResilientStore.builder(redisStore)
                .fallback(local)
                .breaker(settings -> FULL || TELLS ? settings : settings.waitIntervalFunctionInOpenState(SHORT_WAIT))
                .build();
        this.limiter = RateLimiter.builder("chaos").store(store).build();
        this.traffic = new LoadGenerator(limiter, ledger);
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

    // What happens.

    /** Lets the callers come, and waits until Redis has decided for them for a while. */
    Chaos begin() {
        traffic.start(CALLERS);
        awaitMoreFrom(Source.REDIS, FULL ? 5_000 : 2_000);
        return this;
    }

    /** Keeps no account of what is granted: it would grow with the time. */
    Chaos withoutLedger() {
        ledger.close();
        return this;
    }

    /** Lets the callers come. */
    Chaos beginWithoutRedis() {
        traffic.start(CALLERS);
        return this;
    }

    /** Waits until so many more decisions have been made there. */
    void awaitMoreFrom(Source source, int decisions) {
        long before = traffic.decidedBy(source);
        await().atMost(PATIENCE).until(() -> traffic.decidedBy(source) >= before + decisions);
    }

    /** Causes a fault, and again each second, until so many more decisions have been made there. */
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

    /** Waits until Redis is given up, and has been for so long. */
    void awaitOutage(Duration atLeast) {
        await().atMost(PATIENCE).until(() -> state().isFallbackActive());
        long from = System.nanoTime();
        await().atMost(PATIENCE).until(() -> System.nanoTime() - from >= atLeast.toNanos());
        awaitMoreFrom(Source.LOCAL, 1_000);
    }

    /** Kills Redis, and all that it knows. */
    void kill() {
        redis().kill();
        ledger.redisIsGone();
    }

    /** Starts it again, empty. */
    void restart() {
        ledger.redisComesBackEmpty();
        redis().restart();
    }

    /** From now on it is asked how long it takes until Redis decides again. */
    void repaired() {
        repairedAt = System.nanoTime();
    }

    /** Waits until Redis decides again, without being told to. */
    void awaitRedisDecides() {
        long before = traffic.decidedBy(Source.REDIS);
        await().atMost(PATIENCE)
                .until(() -> traffic.decidedBy(Source.REDIS) > before && state().breaker() == Breaker.CLOSED);
        tell("Redis decides again after", Duration.ofNanos(System.nanoTime() - repairedAt));
        awaitMoreFrom(Source.REDIS, 1_000);
    }

    /** Waits until Redis has been charged with all that was granted in its place. */
    void awaitNothingToReconcile() {
        await().atMost(PATIENCE)
                .untilAsserted(() ->
                        assertThat(state().toReconcile()).as("to reconcile").isZero());
    }

    /** Over a connection of the test's own; whoever pauses Redis or makes it refuse should think of that. */
    void command(Consumer<RedisCommands<String, String>> command) {
        if (connection == null) {
            connection = ofTheTest.connect();
        }
        command.accept(connection.sync());
    }

    // What must be true.

    /** Lets the callers go, and waits until the store has nothing open and owes nothing. */
    Chaos end() {
        traffic.stop();
        await().atMost(PATIENCE).until(traffic::isOver);
        await().atMost(PATIENCE)
                .untilAsserted(
                        () -> assertThat(openQuestions()).as("open questions").isZero());
        tell("state", state());
        awaitNothingToReconcile();
        tell("state", state());
        return this;
    }

    /** How many questions are open, or leave something in doubt; none, when all is over. */
    int openQuestions() {
        return 10_000
                - store.failover().gates().whole().freePlaces()
                + store.failover().grants().unanswered().size();
    }

    /** Every decision has ended, none with an error, none late, and nobody has got too much. */
    Chaos assertNobodyNoticed() {
        assertAllWereAnsweredInTime();
        ledger.assertRedisHasNeverGrantedTooMuch();
        ledger.assertTheLocalStoreHasNeverGrantedTooMuch(local.share(), repairedAt);
        ledger.assertTheLocalStoreHasForgottenNothing(local.share());
        if (local.share() == 1) {
            ledger.assertTogetherTheyHaveNeverGrantedTooMuch();
        }
        assertThat(state().lost()).as("lost").isZero();
        return this;
    }

    /** No call failed, and none took longer than the deadline, but for timers that this process fired late. */
    void assertAllWereAnsweredInTime() {
        tell("closed or half open", traffic.notOpen());
        tell("open", traffic.open());
        tell("peek, refund, reset", traffic.others());
        tell("acquire", traffic.waits());
        assertThat(traffic.errors()).isEmpty();
        tell("longest stall", stalls.longest());
        // Twice: the timer fires late, and the thread that hands out the results starts late.
        Duration late = stalls.longest().multipliedBy(2);
        Duration longest = DEADLINE.plus(MARGIN).plus(late.compareTo(MOST_LATE) < 0 ? late : MOST_LATE);
        assertThat(traffic.notOpen().longest()).isLessThan(longest);
        assertThat(traffic.open().longest()).isLessThan(longest);
        assertThat(traffic.others().longest()).isLessThan(longest);
        assertThat(traffic.waits().longest()).isLessThan(longest.plus(LoadGenerator.LONGEST_WAIT));
    }

    /** Redis holds what callers were granted: all of it, and nothing else. */
    void assertRedisHoldsExactlyWhatWasGranted() {
        assertThat(state().unknown()).as("unknown").isZero();
        withUnprotected(exact -> await().atMost(PATIENCE).untilAsserted(() -> {
            for (Admissions.Page page : ledger.lasting()) {
                assertThat(used(exact, page)).as("used of %s", page).isEqualTo(ledger.owedToRedis(page));
            }
        }));
    }

    /** Redis holds what callers were granted since it was started, and nothing but what they were granted. */
    void assertTheNewRedisHoldsWhatWasGranted() {
        withUnprotected(exact -> await().atMost(PATIENCE).untilAsserted(() -> {
            for (Admissions.Page page : ledger.lasting()) {
                assertThat(used(exact, page))
                        .as("used of %s", page)
                        .isBetween(ledger.owedToRedis(page), ledger.grantedAtMost(page));
            }
        }));
    }

    /** Redis holds what callers were granted, and perhaps what it has granted to nobody who heard of it. */
    void assertRedisHoldsAtLeastWhatWasGranted() {
        withUnprotected(exact -> {
            for (Admissions.Page page : ledger.lasting()) {
                assertThat(used(exact, page)).as("used of %s", page).isGreaterThanOrEqualTo(ledger.owedToRedis(page));
            }
        });
    }

    private void withUnprotected(Consumer<RateLimiter> check) {
        try (RedisStore asItIs = RedisStore.create(ofTheTest)) {
            check.accept(
                    RateLimiter.builder("chaos").store(new Unprotected(asItIs)).build());
        }
    }

    private static long used(RateLimiter exact, Admissions.Page page) {
        Charge charge = Charge.of(page.claim().key(), page.claim().limit());
        return exact.peek(charge).block(PATIENCE).limits().get(0).used();
    }

    static void tell(String what, Object value) {
        if (TELLS) {
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
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        ofTheTest.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        if (network != null) {
            network.close();
        }
        if (redis != null) {
            redis.close();
        }
    }
}
