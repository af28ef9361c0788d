package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.LimitTraffic.Instance;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;

/**
 * What several instances admit together if Redis loses its data under traffic, and that they restore nothing if it has
 * lost none. The traffic of all limits runs at once, once as high as the limit, and once five times as high.
 */
@Proof
class DataLossRedisTest {

    private static final List<String> LIMITS = List.of("10/1s", "60/3s", "100/10s", "60/3s counter", "20/1s burst=30");
    private static final List<Integer> LOADS = List.of(1, 5);
    private static final int KEYS = 20;
    private static final int WRITES = 5_000;

    /** Of this length, nearly all that is lost is restored in the same window. */
    private static final Duration LONG_WINDOW = Duration.ofSeconds(10);

    /** The longest window, and what instances need to know of each other. */
    private static final Duration BEFORE = Duration.ofSeconds(12);

    private static final Duration AFTER = Duration.ofSeconds(12);
    private static final Duration SHORT = Duration.ofMillis(300);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> connection = client.connect();
    private final RedisCommands<String, String> admin = connection.sync();
    private final List<LimitTraffic> traffic = new ArrayList<>();
    private final List<Instance> instances = new ArrayList<>();
    private long start;

    /** How Redis loses its data, and what else happens. */
    private enum Loss {
        FLUSH,
        TWO_FLUSHES,
        RESTART,
        DELETIONS,
        EVICTION,
        FLUSH_AND_ONE_REPLACED,

        /** A new instance that has never reached Redis takes itself for the only one. */
        OUTAGE_AND_ONE_REPLACED;

        /**
         * Returns what half of the keys get at most in a window, as a part of the limit. A stall of a busy machine may
         * be as long as a short window.
         */
        double most(Limit limit) {
            if (this == OUTAGE_AND_ONE_REPLACED) {
                return 3;
            }
            return limit.window().compareTo(LONG_WINDOW) < 0 ? 2.25 : 1.15;
        }
    }

    @AfterEach
    void close() {
        instances.forEach(Instance::close);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    @ParameterizedTest
    @CsvSource({
        "FLUSH, 1",
        "FLUSH, 2",
        "FLUSH, 4",
        "TWO_FLUSHES, 2",
        "RESTART, 2",
        "RESTART, 4",
        "DELETIONS, 2",
        "EVICTION, 2",
        "FLUSH_AND_ONE_REPLACED, 2",
        "OUTAGE_AND_ONE_REPLACED, 2"
    })
    void togetherTheyStayNearTheLimit(Loss loss, int number) {
        addTraffic();
        startInstances(number);
        instances.forEach(Instance::awaitReady);
        start = System.nanoTime();
        runFor(BEFORE);
        instances.forEach(one -> one.assertKnows(number));
        long lostAt = System.currentTimeMillis();
        lose(loss);
        runFor(AFTER);
        long end = System.currentTimeMillis();
        traffic.forEach(one -> report("%s, %d instances, %s".formatted(loss, number, one), one, lostAt, end));
        for (LimitTraffic one : traffic) {
            assertThat(one.worst(lostAt, end).get(KEYS / 2))
                    .as("%s, %s", loss, one)
                    .isLessThanOrEqualTo(loss.most(one.limit()));
        }
    }

    private static void report(String what, LimitTraffic traffic, long lostAt, long end) {
        List<Double> before = traffic.worst(0, lostAt);
        List<Double> after = traffic.worst(lostAt, end);
        Chaos.report(
                "data loss",
                "%s: worst window, median %.2f, highest %.2f of the limit; before %.2f, %.2f; then %.2f of the rate"
                        .formatted(
                                what,
                                after.get(KEYS / 2),
                                after.get(KEYS - 1),
                                before.get(KEYS / 2),
                                before.get(KEYS - 1),
                                traffic.granted(lostAt, end)));
    }

    /** Another one writes each key many times while an instance does not look at it. */
    @ParameterizedTest
    @ValueSource(strings = {"100000/1h", "100000/1h resolution=1m", "100000/1h counter", "10/1h burst=100000"})
    void manyWritesByAnotherInstanceAreNoLoss(String limit) {
        traffic.add(new LimitTraffic(Limit.parse(limit), 1, KEYS));
        startInstances(2);
        instances.forEach(Instance::awaitReady);
        try (LogForTests log = LogForTests.listen()) {
            takeOfEachKey(0, 1);
            takeOfEachKey(1, WRITES);
            takeOfEachKey(0, 1);
            assertNothingIsRestored(log);
        }
        RateLimiter limiter = instances.get(0).limiters().get(0);
        for (int key = 0; key < KEYS; key++) {
            Decision peeked = Objects.requireNonNull(limiter.peek("key" + key).block());
            assertThat(peeked.limits().get(0).used()).isEqualTo(WRITES + 2);
            assertThat(peeked.source()).isEqualTo(Source.REDIS);
        }
    }

    private void takeOfEachKey(int instance, int times) {
        RateLimiter limiter = instances.get(instance).limiters().get(0);
        Flux.range(0, times)
                .concatMap(i -> Flux.range(0, KEYS).flatMap(key -> limiter.tryAcquire("key" + key)))
                .blockLast();
    }

    @Test
    void resetsAndRefundsByAnotherInstanceAreNoLoss() {
        addTraffic();
        startInstances(3);
        instances.forEach(Instance::awaitReady);
        Random random = new Random(7);
        try (LogForTests log = LogForTests.listen();
                Instance other = instances.remove(2)) {
            List<RateLimiter> limiters = other.limiters();
            start = System.nanoTime();
            for (int i = 0; i < 2_000; i++) {
                RateLimiter limiter = limiters.get(random.nextInt(limiters.size()));
                Charge charge = Charge.of("key" + random.nextInt(KEYS));
                (random.nextBoolean() ? limiter.reset(charge) : limiter.refund(charge.permits(1 + random.nextInt(5))))
                        .subscribe();
                runFor(Duration.ofMillis(5));
            }
            assertNothingIsRestored(log);
        }
    }

    private void assertNothingIsRestored(LogForTests log) {
        assertThat(log.lines("has lost data")).isEmpty();
        assertThat(admin.keys("*!!")).isEmpty();
        instances.forEach(one -> one.limiters()
                .forEach(limiter -> assertThat(limiter.state().lost()).isZero()));
    }

    private void lose(Loss loss) {
        switch (loss) {
            case FLUSH -> admin.flushall();
            case TWO_FLUSHES -> {
                admin.flushall();
                runFor(SHORT);
                admin.flushall();
            }
            case RESTART -> redis.restart();
            case DELETIONS -> deleteEachCount();
            case EVICTION -> evictSome();
            case FLUSH_AND_ONE_REPLACED -> {
                replaceOne();
                instances.get(1).awaitReady();
                admin.flushall();
            }
            case OUTAGE_AND_ONE_REPLACED -> {
                redis.kill();
                replaceOne();
                runFor(Duration.ofSeconds(1));
                redis.restart();
            }
        }
    }

    private void deleteEachCount() {
        List<String> counts = counts();
        assertThat(counts).hasSizeGreaterThan(traffic.size() * KEYS / 2);
        for (String count : counts) {
            admin.del(count);
            runFor(Duration.ofMillis(20));
        }
    }

    /** Lets Redis evict about half of all keys. */
    private void evictSome() {
        IntStream.range(0, 1_000).forEach(i -> admin.set("other" + i, "x".repeat(1_000)));
        int before = counts().size();
        long used = memory();
        admin.configSet("maxmemory-policy", "allkeys-random");
        admin.configSet("maxmemory", Long.toString(used - 600_000));
        while (memory() > used - 500_000) {
            runFor(Duration.ofMillis(1));
        }
        admin.configSet("maxmemory", "0");
        Chaos.report("data loss", "EVICTION: of %d counts %d are left".formatted(before, counts().size()));
    }

    private List<String> counts() {
        return admin.keys("spillgate:*").stream()
                .filter(key -> !key.contains("!") && admin.type(key).equals("string"))
                .toList();
    }

    private long memory() {
        return admin.info("memory")
                .lines()
                .filter(line -> line.startsWith("used_memory:"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf(':') + 1)))
                .sum();
    }

    private void replaceOne() {
        instances.remove(1).abort();
        startInstances(1);
    }

    private void addTraffic() {
        LOADS.forEach(load -> LIMITS.forEach(limit -> traffic.add(new LimitTraffic(Limit.parse(limit), load, KEYS))));
    }

    private void startInstances(int number) {
        IntStream.range(0, number).forEach(i -> instances.add(new Instance(redis.uri(), traffic)));
    }

    private void runFor(Duration time) {
        LimitTraffic.run(
                traffic,
                instances,
                false,
                start,
                Duration.ofNanos(System.nanoTime() - start).plus(time));
    }
}
