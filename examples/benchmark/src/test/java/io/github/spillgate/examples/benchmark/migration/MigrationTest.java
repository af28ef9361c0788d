package io.github.spillgate.examples.benchmark.migration;

import static org.assertj.core.api.Assertions.assertThat;

import es.moki.ratelimitj.core.limiter.request.RequestLimitRule;
import es.moki.ratelimitj.core.time.TimeSupplier;
import es.moki.ratelimitj.redis.request.RedisSlidingWindowRequestRateLimiter;
import io.github.bucket4j.Bucket;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.TimeMeter;
import io.github.bucket4j.distributed.AsyncBucketProxy;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.github.resilience4j.ratelimiter.RateLimiterConfig;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.examples.benchmark.measure.RedisServer;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Mono;

/** The statements of docs/migration.md about other limiters and ours, on a real Redis. */
final class MigrationTest {

    private static final String KEY = "user:42";

    private RedisServer server;
    private RedisClient client;

    @BeforeEach
    void start() throws IOException {
        server = RedisServer.start();
        client = RedisClient.create("redis://127.0.0.1:" + server.port());
    }

    @AfterEach
    void stop() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        server.close();
    }

    @Test
    void allLimitersAdmitTenOfFifteen() {
        var bucket4j = Migration.withBucket4j(client);
        var rateLimitJ = Migration.withRateLimitJ(client);
        var resilience4j = Migration.withResilience4j();
        try (RateLimiter limiter = Migration.withSpillgate(client)) {
            var spillgate = Migration.asked(limiter);
            settle(limiter);
            assertThat(allowedOf(15, key -> get(bucket4j.apply(key)))).isEqualTo(10);
            // It stores a hash under the plain key, where Bucket4j stores a string.
            assertThat(IntStream.range(0, 15)
                            .filter(i -> rateLimitJ.apply("old").block())
                            .count())
                    .isEqualTo(10);
            assertThat(allowedOf(15, key -> resilience4j.getAsBoolean())).isEqualTo(10);
            assertThat(allowedOf(15, key -> spillgate.apply(key).block())).isEqualTo(10);
        }
    }

    @Test
    void theirKeysAndOursDoNotCollide() {
        get(Migration.withBucket4j(client).apply(KEY));
        Migration.withRateLimitJ(client).apply("old").block();
        try (RateLimiter limiter = Migration.withSpillgate(client);
                StatefulRedisConnection<String, String> connection = client.connect()) {
            settle(limiter);
            limiter.tryAcquire(KEY).block();
            List<String> keys = new ArrayList<>(connection.sync().keys("*"));
            assertThat(keys).contains(KEY, "old");
            keys.removeAll(List.of(KEY, "old"));
            assertThat(keys).isNotEmpty().allMatch(key -> key.startsWith("spillgate:"));
        }
    }

    @Test
    void aBucketExceedsItsCapacityWithinAWindowAndALogDoesNot() {
        Duration window = Duration.ofSeconds(20);
        AsyncBucketProxy bucket = Bucket4jLettuce.casBasedBuilder(
                        client.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE)))
                .build()
                .asAsync()
                .getProxy(
                        KEY,
                        () -> CompletableFuture.completedFuture(BucketConfiguration.builder()
                                .addLimit(limit -> limit.capacity(10).refillGreedy(10, window))
                                .build()));
        RedisStore store = RedisStore.create(client);
        try (RateLimiter limiter = RateLimiter.builder("log")
                .store(store)
                .deadline(Duration.ofSeconds(5))
                .limit(Limit.of(10, window))
                .build()) {
            settle(limiter);
            long began = System.nanoTime();
            assertThat(allowedOf(10, key -> get(bucket.tryConsume(1)))).isEqualTo(10);
            assertThat(allowedOf(10, key -> limiter.tryAcquire(key).block().isAllowed()))
                    .isEqualTo(10);
            while (!get(bucket.tryConsume(1))) {
                Mono.delay(Duration.ofMillis(50)).block();
            }
            Decision eleventh = limiter.tryAcquire(KEY).block();
            assertThat(System.nanoTime() - began).as("both within one window").isLessThan(window.toNanos());
            assertThat(eleventh.isAllowed()).isFalse();
        } finally {
            store.close();
        }
    }

    /** Takes the whole bucket, and then one permit whenever one has returned. A window denies a part of these. */
    @ParameterizedTest
    @CsvSource({"10, 10", "10, 20", "3, 5", "7, 30"})
    void aSteadyClientOfBucket4jKeepsAllItsRequests(long rate, long capacity) {
        AtomicLong nanos = new AtomicLong();
        TimeMeter meter = new TimeMeter() {
            @Override
            public long currentTimeNanos() {
                return nanos.get();
            }

            @Override
            public boolean isWallClockBased() {
                return false;
            }
        };
        Bucket bucket = Bucket.builder()
                .withCustomTimePrecision(meter)
                .addLimit(limit -> limit.capacity(capacity).refillGreedy(rate, Duration.ofSeconds(1)))
                .build();
        LocalStore store = LocalStore.bounded(16, () -> Instant.ofEpochMilli(nanos.get() / 1_000_000));
        try (RateLimiter ours = limiter(store, Limit.perSecond(rate).burst(capacity));
                RateLimiter window = limiter(store, Limit.perSecond(rate))) {
            for (int i = 0; i < capacity; i++) {
                assertThat(bucket.tryConsume(1)).isTrue();
                assertThat(ours.tryAcquire(KEY).block().isAllowed()).isTrue();
                window.tryAcquire(KEY).block();
            }
            int theirs = 0;
            int kept = 0;
            int keptByWindow = 0;
            for (int i = 0; i < 60; i++) {
                // In whole milliseconds, rounded up: the time at which a permit has returned.
                nanos.set((((i + 1) * 1_000L + rate - 1) / rate) * 1_000_000);
                theirs += bucket.tryConsume(1) ? 1 : 0;
                kept += ours.tryAcquire(KEY).block().isAllowed() ? 1 : 0;
                keptByWindow += window.tryAcquire(KEY).block().isAllowed() ? 1 : 0;
            }
            assertThat(theirs).isEqualTo(60);
            assertThat(kept).isEqualTo(60);
            assertThat(keptByWindow).isLessThan(60);
        }
    }

    private static RateLimiter limiter(LocalStore store, Limit limit) {
        return RateLimiter.builder("steady").store(store).limit(limit).build();
    }

    /** Permits of a cycle that has ended are lost, and those of the next one are all there at its start. */
    @Test
    void aCycleOfResilience4jStartsWithAllItsPermits() {
        var limiter = io.github.resilience4j.ratelimiter.RateLimiter.of(
                "api",
                RateLimiterConfig.custom()
                        .limitForPeriod(10)
                        .limitRefreshPeriod(Duration.ofSeconds(5))
                        .timeoutDuration(Duration.ZERO)
                        .build());
        assertThat(allowedOf(15, any -> limiter.acquirePermission())).isEqualTo(10);
        while (!limiter.acquirePermission()) {
            Mono.delay(Duration.ofMillis(10)).block();
        }
        assertThat(allowedOf(15, any -> limiter.acquirePermission())).isEqualTo(9);
    }

    @Test
    void withoutAPrecisionTheWindowOfRateLimitJIsFixed() {
        AtomicLong second = new AtomicLong(59);
        RequestLimitRule tenAMinute = RequestLimitRule.of(Duration.ofMinutes(1), 10);
        assertThat(aroundTheMinute(tenAMinute, "fixed", second)).isEqualTo(20);
        assertThat(aroundTheMinute(tenAMinute.withPrecision(Duration.ofSeconds(1)), "sliding", second))
                .isEqualTo(10);
    }

    @Test
    void theOldLimiterDecidesInTheShadowPhase() {
        List<String> compared = new ArrayList<>();
        try (RateLimiter limiter = Migration.withSpillgate(client)) {
            settle(limiter);
            List<Boolean> answers = IntStream.range(0, 12)
                    .mapToObj(i -> Migration.both(
                                    Mono.just(true),
                                    limiter,
                                    KEY,
                                    (old, decision) -> compared.add(old + " " + decision.isAllowed()))
                            .block())
                    .toList();
            assertThat(answers).hasSize(12).containsOnly(true);
            assertThat(compared.subList(0, 10)).containsOnly("true true");
            assertThat(compared.subList(10, 12)).containsOnly("true false");
        }
    }

    @Test
    void theOldLimiterDecidesIfTheNewOneFails() {
        RateLimiter closed = Migration.withSpillgate(client);
        closed.close();
        assertThat(Migration.both(Mono.just(true), closed, KEY, (old, decision) -> {})
                        .block())
                .isTrue();
        assertThat(Migration.both(Mono.just(false), closed, KEY, (old, decision) -> {})
                        .block())
                .isFalse();
    }

    /** Returns how many are allowed of ten requests in the last second of a minute and ten in the first of the next. */
    private long aroundTheMinute(RequestLimitRule rule, String key, AtomicLong second) {
        StatefulRedisConnection<String, String> connection = client.connect();
        RedisSlidingWindowRequestRateLimiter limiter = new RedisSlidingWindowRequestRateLimiter(
                connection.reactive(), connection.reactive(), Set.of(rule), new TimeSupplier() {
                    @Override
                    public Mono<Long> getReactive() {
                        return Mono.just(second.get());
                    }

                    @Override
                    @SuppressWarnings("deprecation") // of the interface, and never called
                    public CompletableFuture<Long> getAsync() {
                        return CompletableFuture.completedFuture(second.get());
                    }

                    @Override
                    public long get() {
                        return second.get();
                    }
                });
        second.set(59);
        long before = allowedOf(
                10, any -> !limiter.overLimitWhenIncrementedReactive(key).block());
        second.set(60);
        return before
                + allowedOf(
                        10,
                        any -> !limiter.overLimitWhenIncrementedReactive(key).block());
    }

    /** Waits until Redis decides, with a charge of 0: until it is connected, a limiter decides locally. */
    private static void settle(RateLimiter limiter) {
        while (limiter.tryAcquire("probe", 0).block().source() != Source.REDIS) {
            Mono.delay(Duration.ofMillis(20)).block();
        }
    }

    private static long allowedOf(int asked, Predicate<String> limiter) {
        return IntStream.range(0, asked).filter(i -> limiter.test(KEY)).count();
    }

    private static boolean get(CompletableFuture<Boolean> answer) {
        return answer.orTimeout(30, TimeUnit.SECONDS).join();
    }
}
