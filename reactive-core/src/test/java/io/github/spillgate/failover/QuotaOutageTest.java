package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.redis.ScriptedClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.time.InstantSource;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Two instances, with clocks that differ by minutes from each other and from that of Redis, which does not reply from
 * one second before the boundary of a quota until one second after it.
 */
@Thorough
class QuotaOutageTest {

    private static final String SHIFT = "shift";
    private static final int KEYS = 10;

    /** Decisions of an instance on each key, in each second. */
    private static final int RATE = 50;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final List<Instance> instances = new ArrayList<>();

    @AfterEach
    void close() {
        instances.forEach(Instance::close);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    /**
     * The demand in each period is 400 permits of a key.
     *
     * @param ahead by how much the clock of Redis is ahead of that of this machine, in milliseconds
     */
    @ParameterizedTest
    @CsvSource({"0, 60", "0, 300", "1_200_000, 300"})
    void instancesTogetherKeepToTheQuotaOfEachPeriod(long ahead, int permits) {
        client.connect().sync().set(SHIFT, Long.toString(ahead));
        for (long wrong : new long[] {0, -420_000}) {
            instances.add(new Instance(wrong, ahead));
        }
        await().atMost(Duration.ofSeconds(30)).until(() -> instances.stream().allMatch(Instance::knowsTheOther));
        // The boundary of this zone is in four to five seconds.
        long boundary = (System.currentTimeMillis() + ahead) / 1_000 * 1_000 + 5_000;
        int ofDay = (int) (boundary / 1_000 % 86_400);
        ZoneOffset zone = ZoneOffset.ofTotalSeconds(ofDay <= 64_800 ? -ofDay : 86_400 - ofDay);
        Limit limit = Limit.daily(permits).in(zone);
        List<Disposable> traffic = instances.stream()
                .map(instance -> instance.traffic(limit).subscribe())
                .toList();
        awaitTime(boundary - ahead - 1_000);
        redis.pause();
        awaitTime(boundary - ahead + 1_000);
        redis.resume();
        awaitTime(boundary - ahead + 4_000);
        traffic.forEach(Disposable::dispose);
        // Of the other period, the end is a day later.
        Map<Boolean, List<Granted>> byPeriod = instances.stream()
                .flatMap(instance -> instance.granted.stream())
                .collect(Collectors.partitioningBy(one -> one.end > boundary + 60_000));
        List<Granted> before = byPeriod.get(false);
        List<Granted> after = byPeriod.get(true);
        long late = before.stream().mapToLong(one -> one.at - boundary).max().orElseThrow();
        long early = after.stream().mapToLong(one -> boundary - one.at).max().orElseThrow();
        String what = "%s, %d ms ahead: most before %.3f, after %.3f; %d ms late, %d ms early; local %d"
                .formatted(limit, ahead, most(before, limit), most(after, limit), late, early, local(after));
        Chaos.report("quota", what);
        assertThat(local(after)).as(what).isPositive();
        assertThat(Math.max(most(before, limit), most(after, limit))).as(what).isLessThanOrEqualTo(1.1);
        assertThat(most(after, limit)).as(what).isGreaterThan(Math.min(1, 400.0 / permits) * 0.8);
        // A reply may be late on a busy machine. Times are rounded.
        assertThat(late).as(what).isLessThan(1_000);
        assertThat(early).as(what).isLessThan(5);
    }

    private static long local(List<Granted> some) {
        return some.stream().filter(one -> one.source == Source.LOCAL).count();
    }

    /** Returns the most that a key got, as a part of the limit. */
    private static double most(List<Granted> some, Limit limit) {
        return some.stream().collect(Collectors.groupingBy(Granted::key, Collectors.counting())).values().stream()
                .mapToDouble(permits -> (double) permits / limit.permits())
                .max()
                .orElseThrow();
    }

    /** The outage is at a time, so this test waits for it. */
    private static void awaitTime(long time) {
        Mono.delay(Duration.ofMillis(Math.max(0, time - System.currentTimeMillis())))
                .block();
    }

    /** A grant, by the clock of Redis. */
    private record Granted(String key, Source source, long at, long end) {}

    private final class Instance {

        private final RedisStore store;
        private final ResilientStore resilient;
        private final RateLimiter limiter;
        private final long ahead;
        private final Queue<Granted> granted = new ConcurrentLinkedQueue<>();

        /**
         * Creates an instance.
         *
         * @param wrong by how much the clock of the instance is ahead of that of this machine
         * @param ahead by how much that of Redis is
         */
        Instance(long wrong, long ahead) {
            InstantSource clock = InstantSource.offset(InstantSource.system(), Duration.ofMillis(wrong));
            this.ahead = ahead - wrong;
            // Of a shifted store, keys do not expire: the count keeps its life over the boundary.
            store = ahead == 0 ? RedisStore.create(redis.uri()) : ScriptedClock.shifted(redis.uri(), SHIFT);
            resilient = ResilientStore.builder(store)
                    .fallback(Fallback.local(10_000, clock))
                    .build();
            limiter = RateLimiter.builder("api").store(resilient).build();
        }

        boolean knowsTheOther() {
            limiter.peek(Charge.of("first", Limit.perHour(1))).block();
            return resilient.failover().grants().instances(limiter.name()) == 2;
        }

        Flux<Decision> traffic(Limit limit) {
            return Flux.interval(Duration.ofNanos(1_000_000_000L / (RATE * KEYS)))
                    .onBackpressureBuffer()
                    .flatMap(i -> limiter.tryAcquire(Charge.of("key-" + i % KEYS, limit)), 10_000)
                    .filter(Decision::isAllowed)
                    .doOnNext(decision -> granted.add(granted(decision)));
        }

        private Granted granted(Decision decision) {
            long toRedis = decision.source() == Source.LOCAL ? ahead : 0;
            Decision.Usage usage = decision.limits().get(0);
            return new Granted(
                    usage.key(),
                    decision.source(),
                    decision.at().toEpochMilli() + toRedis,
                    usage.wholeAt().toEpochMilli() + toRedis);
        }

        void close() {
            limiter.closeLater().block();
            store.close();
        }
    }
}
