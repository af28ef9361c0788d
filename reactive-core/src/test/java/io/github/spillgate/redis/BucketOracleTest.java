package io.github.spillgate.redis;

import static io.github.spillgate.redis.StoreOracleTest.PEEK;
import static io.github.spillgate.redis.StoreOracleTest.TAKE;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.redis.StoreOracleTest.Action;
import io.github.spillgate.redis.StoreOracleTest.ChargeSpec;
import io.github.spillgate.redis.StoreOracleTest.Refund;
import io.github.spillgate.redis.StoreOracleTest.RefundOldest;
import io.github.spillgate.redis.StoreOracleTest.Subject;
import io.github.spillgate.redis.StoreOracleTest.Take;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/**
 * Token buckets with windows of 1 ms to 366 d, and with up to the most permits and the highest burst that a limit may
 * have. The model, the local store and the scripts must agree in every field.
 */
class BucketOracleTest {

    private static final List<Long> WINDOWS = List.of(1L, 2L, 7L, 1_000L, 60_000L, 86_400_000L, 366 * 86_400_000L);

    /** A mark in Redis is 34 years old at most, so a history is shorter. */
    private static final long LONGEST_PAUSE = Duration.ofDays(200).toMillis();

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final ScriptedClock scripted = new ScriptedClock(client);

    @AfterEach
    void shutdown() {
        scripted.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void modelJavaAndLuaAgreeOnBucketsOfEverySize() {
        agree(0, 60);
    }

    @Test
    @Thorough
    void modelJavaAndLuaAgreeOnManyBuckets() {
        agree(60, 1_000);
    }

    @Test
    @Proof
    void modelJavaAndLuaAgreeOnVeryManyBuckets() {
        agree(1_000, 20_000);
    }

    /** Its permits count again, because the clock was wrong before or is wrong now. */
    @Test
    void aRefundOfAnEmptyBucketChangesNothingIfTheClockIsSetBack() {
        List<Limit> limits = List.of(Limit.parse("1/1ms burst=1"));
        try (RedisStore lua = scripted.store(client, false)) {
            ManualClock clock = new ManualClock();
            for (LimitStore store : List.of(new StoreModel(clock), LocalStore.bounded(100, clock), lua)) {
                Subject subject = new Subject("api", store, clock, 1);
                scripted.show(clock);
                subject.apply(TAKE, limits).block();
                clock.advanceMillis(10);
                scripted.show(clock);
                subject.apply(new RefundOldest(new ChargeSpec(0, 1, 1)), limits).block();
                clock.advanceMillis(-10);
                scripted.show(clock);
                assertThat(subject.apply(TAKE, limits).block())
                        .as("on %s", store)
                        .startsWith("denied");
            }
        }
    }

    @Test
    void noPermitIsLostToRounding() {
        takeAndWait(10_000);
    }

    @Test
    @Proof
    void noPermitIsLostToRoundingInAMillionDecisions() {
        takeAndWait(1_000_000);
    }

    private void agree(int from, int to) {
        try (RedisStore lua = scripted.store(client, false)) {
            for (int seed = from; seed < to; seed++) {
                Random random = new Random(seed);
                ManualClock clock = new ManualClock();
                Limit limit = anyBucket(random);
                List<Subject> subjects = List.of(
                        new Subject("model-" + seed, new StoreModel(clock), clock, 1),
                        new Subject("java-" + seed, LocalStore.bounded(100, clock), clock, 1),
                        new Subject("lua-" + seed, lua, clock, 1));
                scripted.show(clock);
                for (int step = 0; step < 40; step++) {
                    if (random.nextInt(5) < 2) {
                        clock.advanceMillis(pause(random, limit));
                        scripted.show(clock);
                    }
                    Action action = action(random, limit);
                    List<String> answers = Flux.fromIterable(subjects)
                            .concatMap(subject -> subject.apply(action, List.of(limit))
                                    .flatMap(answer ->
                                            subject.apply(PEEK, List.of(limit)).map(answer::concat)))
                            .collectList()
                            .block();
                    assertThat(answers)
                            .as("seed %d, step %d, %s, at %d, of %s", seed, step, action, clock.millis(), limit)
                            .containsOnly(answers.get(0));
                }
            }
        }
    }

    static Limit anyBucket(Random random) {
        long window = WINDOWS.get(random.nextInt(WINDOWS.size()));
        long mostExact = (1L << 53) - 1;
        long permits = upTo(random, Math.min(Limit.MOST_BUCKET_PERMITS, mostExact / window));
        double filled = (double) Limit.LONGEST_FILL.toMillis() * permits / window;
        long burst = (long) Math.min(filled, (double) Math.min(Limit.MOST_BUCKET_PERMITS, mostExact / window));
        return Limit.bucket(permits, Duration.ofMillis(window), upTo(random, burst));
    }

    /** Returns a number of any order of magnitude, and in one of four cases the highest. */
    private static long upTo(Random random, long most) {
        return random.nextInt(4) == 0
                ? most
                : 1 + (long) Math.min((double) (most - 1), Math.exp(random.nextDouble() * Math.log((double) most)));
    }

    static long pause(Random random, Limit limit) {
        long longest = Math.min(2 * LimitKind.reach(limit) + 2, LONGEST_PAUSE);
        long some = upTo(random, longest);
        return random.nextInt(6) == 0 ? -some / 4 : some;
    }

    private static Action action(Random random, Limit limit) {
        ChargeSpec asked = new ChargeSpec(0, 1, upTo(random, limit.capacity()));
        int which = random.nextInt(1_000);
        return switch (random.nextInt(8)) {
            case 0, 1 -> new Refund(which);
            case 2 -> new RefundOldest(asked);
            default -> new Take(List.of(asked));
        };
    }

    /** The level is computed here from all decisions, in units that need no rounding. */
    private void takeAndWait(int decisions) {
        Random random = new Random(7);
        for (String text :
                List.of("7/30ms burst=4", "1/366d burst=99", "999983/7d burst=1000003", "3/1ms burst=1000")) {
            Limit limit = Limit.parse(text);
            ManualClock clock = new ManualClock();
            RateLimiter limiter = Unprotected.limiter(LocalStore.bounded(100, clock));
            long window = limit.window().toMillis();
            long permitReturns = (window + limit.permits() - 1) / limit.permits();
            long level = 0;
            int denied = 0;
            for (int i = 0; i < decisions / 4; i++) {
                long passed = random.nextLong(1 + permitReturns);
                clock.advanceMillis(passed);
                level = Math.max(0, level - passed * limit.permits());
                long most = random.nextInt(20) == 0 ? limit.capacity() : Math.min(3, limit.capacity());
                long units = (1 + random.nextLong(most)) * window;
                boolean isAllowed = level + units <= limit.capacity() * window;
                assertThat(limiter.tryAcquire(Charge.of("a", limit).permits(units / window))
                                .block()
                                .isAllowed())
                        .as("decision %d of %s", i, text)
                        .isEqualTo(isAllowed);
                level += isAllowed ? units : 0;
                denied += isAllowed ? 0 : 1;
            }
            assertThat(denied).isPositive();
        }
    }
}
