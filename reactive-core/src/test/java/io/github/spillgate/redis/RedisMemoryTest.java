package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** What a count costs, as Redis itself says with MEMORY USAGE: key, value and its place in the table. */
class RedisMemoryTest {

    /** The head of a log, and its entries with the spare ones. */
    private static final long LONGEST_STRING = 44 + 9L * (Limit.MOST_LOG_ENTRIES + 256);

    RedisForTests redis = RedisForTests.first();

    private RedisClient client;
    private Keyspace keyspace;
    private ScriptedClock scripted;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        keyspace = new Keyspace(client);
        scripted = new ScriptedClock(client);
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    @Test
    void tenThousandRecordedHitsCostAtMostElevenBytesEach() {
        RateLimiter limiter = limiter(Limit.perHour(10_000), Duration.ofMillis(1));
        hits(limiter, 10_000, 1);
        assertThat(limiter.peek("a").block().remaining()).isZero();
        assertThat(keyspace.memoryOf(keyspace.onlyKey())).isLessThanOrEqualTo(11 * 10_000);
    }

    @Test
    void aLogThatIsFullAndSlidesStaysAsSmall() {
        RateLimiter limiter = limiter(Limit.of(2_001, Duration.ofSeconds(2)), Duration.ofMillis(1));
        hits(limiter, 7_000 - 1, 1);
        assertThat(limiter.tryAcquire("a").block().limits().get(0).used()).isEqualTo(2_001);
        assertThat(keyspace.memoryOf(keyspace.onlyKey())).isLessThanOrEqualTo(13 * 2_000);
    }

    @Test
    void aThousandPermitsInOneCostAreOneEntry() {
        RateLimiter limiter = limiter(Limit.perHour(10_000), Duration.ofMillis(1));
        limiter.tryAcquire(Charge.of("a", 1)).block();
        // Not the memory, which varies by a few bytes with the allocator of the C library.
        long one = keyspace.commands().strlen(keyspace.onlyKey());
        keyspace.keys().forEach(keyspace.commands()::del);
        limiter.tryAcquire(Charge.of("a", 1_000)).block();
        assertThat(keyspace.commands().strlen(keyspace.onlyKey())).isEqualTo(one);
    }

    /** Redis needs the same memory for values of up to 28 bytes, and of up to 44. Buckets: {@link BucketExpiryTest}. */
    @Test
    void aCounterHasAtMost28BytesAndALogOfOneHitAtMost44() {
        limiter(Limit.perHour(9).counter(), Duration.ofMillis(1))
                .tryAcquire("a")
                .block();
        assertThat(keyspace.commands().strlen(keyspace.onlyKey())).isLessThanOrEqualTo(28);
        keyspace.keys().forEach(keyspace.commands()::del);
        limiter(Limit.perHour(9), Duration.ofMillis(1)).tryAcquire("a").block();
        assertThat(keyspace.commands().strlen(keyspace.onlyKey())).isLessThanOrEqualTo(44);
    }

    @Test
    void countersAndBucketsCostAtMost160BytesForAKeyOf24() {
        for (Limit limit : List.of(
                Limit.perMinute(100).burst(20),
                Limit.bucket(1, Duration.ofDays(366), 100),
                Limit.perMinute(100).counter(),
                Limit.perDay(10_000).counter().alignedToClock(),
                Limit.counter(Limit.MOST_COUNTER_PERMITS, Duration.ofDays(366)))) {
            String key = "customer:0123456789abcde";
            assertThat(key).hasSize(24);
            RateLimiter limiter = Unprotected.limiter(
                    RedisStore.builder(client).namespace("spillgate").build(), limit);
            Decision decision =
                    limiter.tryAcquire(Charge.of(key, limit.capacity())).block();
            String stored = "spillgate:3:" + DecidedClaims.of(decision).get(0).identity();
            assertThat(keyspace.memoryOf(stored)).as(stored).isLessThanOrEqualTo(160);
            limiter.reset(key).block();
        }
    }

    @Test
    void aHolderCostsAtMost32Bytes() {
        String key = "customer:0123456789abcde";
        RateLimiter limiter = Unprotected.limiter(
                RedisStore.builder(client).namespace("spillgate").build(), Limit.concurrent(1_000));
        limiter.reset(key).block();
        Decision first = limiter.tryAcquire(key).block();
        String stored = "spillgate:3:" + DecidedClaims.of(first).get(0).identity();
        long one = keyspace.memoryOf(stored);
        assertThat(one).isLessThanOrEqualTo(200);
        Flux.range(0, 999).flatMap(i -> limiter.tryAcquire(key)).blockLast();
        assertThat(limiter.peek(key).block().limits().get(0).used()).isEqualTo(1_000);
        assertThat(keyspace.memoryOf(stored) - one).isLessThanOrEqualTo(999 * 32);
        limiter.reset(key).block();
    }

    @Test
    void tenMillionADayStayUnder150KilobytesAndUnder16WithAThousandSlots() {
        Limit day = Limit.perDay(10_000_000);
        assertThat(fullest(day)).isLessThan(150 * 1_000);
        keyspace.keys().forEach(keyspace.commands()::del);
        assertThat(fullest(day.resolution(day.window().dividedBy(1_000)))).isLessThan(16 * 1_000);
    }

    /** Returns the highest memory usage of a log with hits in every slot of more than a window. */
    private long fullest(Limit limit) {
        RateLimiter limiter = limiter(limit, limit.resolution());
        hits(limiter, (int) limit.window().dividedBy(limit.resolution()), 900);
        String key = keyspace.onlyKey();
        long most = 0;
        for (int i = 0; i < 300; i++) {
            hits(limiter, 1, 900);
            most = Math.max(most, keyspace.memoryOf(key));
            assertThat(keyspace.commands().strlen(key)).isLessThanOrEqualTo(LONGEST_STRING);
        }
        return most;
    }

    /** A limiter on a clock that advances by one tick per decision. */
    private RateLimiter limiter(Limit limit, Duration tick) {
        return Unprotected.limiter(scripted.storeOfTicks(client, keyspace.namespace(), tick), limit);
    }

    /** Takes this number of times, each at another instant. */
    private static void hits(RateLimiter limiter, int number, long cost) {
        assertThat(Flux.range(0, number)
                        .flatMap(i -> limiter.tryAcquire(Charge.of("a", cost)))
                        .all(Decision::isAllowed)
                        .block())
                .isTrue();
    }
}
