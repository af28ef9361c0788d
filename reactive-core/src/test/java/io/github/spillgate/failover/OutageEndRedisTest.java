package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * What several instances admit together when Redis returns to all of them at the same time. The traffic of all limits
 * runs at once, once as high as the limit, and once ten times as high.
 */
@Proof
class OutageEndRedisTest {

    private static final List<String> LIMITS = List.of("60/3s", "10/1s", "100/10s", "20/1s burst=30");
    private static final List<Integer> LOADS = List.of(1, 10);
    private static final int KEYS = 5;

    /** The longest window, and what instances need to know of each other. */
    private static final Duration BEFORE = Duration.ofSeconds(12);

    private static final Duration AFTER = Duration.ofSeconds(12);
    private static final long TICK = 1_000_000;

    @ParameterizedTest
    @CsvSource({
        "2, 700, false, false",
        "4, 700, false, false",
        "2, 3000, false, false",
        "4, 3000, false, false",
        "2, 15000, true, false",
        "4, 15000, true, false",
        "4, 3000, false, true"
    })
    void togetherTheyStayNearTheLimit(int instances, int millis, boolean isKilled, boolean isAllAtOne) {
        try (RedisForTests redis = RedisForTests.startOwn()) {
            List<Instance> all = IntStream.range(0, instances)
                    .mapToObj(i -> new Instance(redis, instances))
                    .toList();
            List<Stream> streams = streams();
            long start = System.nanoTime();
            run(streams, all, isAllAtOne, start, BEFORE);
            all.forEach(Instance::assertKnowsTheOthers);
            streams.forEach(Stream::forgetTheStart);
            Duration outage = Duration.ofMillis(millis);
            during(redis, isKilled, () -> run(streams, all, isAllAtOne, start, BEFORE.plus(outage)));
            long back = System.currentTimeMillis();
            run(streams, all, isAllAtOne, start, BEFORE.plus(outage).plus(AFTER));
            all.forEach(Instance::close);
            String what = "%d instances, %s %d ms%s"
                    .formatted(instances, isKilled ? "kill" : "stop", millis, isAllAtOne ? ", all traffic at one" : "");
            streams.forEach(one -> one.report(what, back));
            if (!isAllAtOne) {
                streams.forEach(one -> one.check(what));
            }
        }
    }

    private static List<Stream> streams() {
        List<Stream> streams = new ArrayList<>();
        for (int load : LOADS) {
            LIMITS.forEach(limit -> streams.add(new Stream(Limit.parse(limit), load)));
        }
        return streams;
    }

    private static void during(RedisForTests redis, boolean isKilled, Runnable work) {
        if (isKilled) {
            redis.kill();
        } else {
            redis.pause();
        }
        work.run();
        if (isKilled) {
            redis.restart();
        } else {
            redis.resume();
        }
    }

    private static void run(
            List<Stream> streams, List<Instance> instances, boolean isAllAtOne, long start, Duration until) {
        for (long passed = 0; passed < until.toNanos(); passed = System.nanoTime() - start) {
            for (int i = 0; i < streams.size(); i++) {
                streams.get(i).send(i, instances, isAllAtOne, passed);
            }
            LockSupport.parkNanos(TICK);
        }
    }

    private static final class Instance {

        private final int instances;
        private final RedisClient client;
        private final RedisStore redis;
        private final ResilientStore store;
        private final List<RateLimiter> limiters = new ArrayList<>();

        Instance(RedisForTests server, int instances) {
            this.instances = instances;
            client = RedisClient.create(server.uri());
            redis = RedisStore.create(client);
            store = ResilientStore.builder(redis).build();
            for (Stream stream : streams()) {
                limiters.add(RateLimiter.builder(stream.name())
                        .store(store)
                        .limit(stream.limit)
                        .build());
            }
        }

        void assertKnowsTheOthers() {
            for (int load : LOADS) {
                assertThat(store.failover().grants().instances("load" + load))
                        .as("known instances")
                        .isEqualTo(instances);
            }
        }

        void close() {
            store.close();
            redis.close();
            client.shutdown();
        }
    }

    /** The requests for one limit. */
    private static final class Stream {

        private final Limit limit;
        private final int load;
        private final double perSecond;
        private final Queue<Grant> grants = new ConcurrentLinkedQueue<>();
        private long sent;

        private record Grant(int key, long at) {}

        Stream(Limit limit, int load) {
            this.limit = limit;
            this.load = load;
            this.perSecond = 1e9 * limit.permits() / limit.window().toNanos() * KEYS * load;
        }

        String name() {
            return "load" + load;
        }

        void send(int limiter, List<Instance> instances, boolean isAllAtOne, long nanos) {
            for (; sent < perSecond * nanos / 1e9; sent++) {
                int key = (int) (sent % KEYS);
                Consumer<Decision> note = decision -> {
                    if (decision.isAllowed()) {
                        grants.add(new Grant(key, decision.at().toEpochMilli()));
                    }
                };
                long instance = isAllAtOne ? 0 : sent / KEYS % instances.size();
                instances
                        .get((int) instance)
                        .limiters
                        .get(limiter)
                        .tryAcquire("key" + key)
                        .subscribe(note, error -> {});
            }
        }

        /** Forgets what instances granted before they knew of each other, up to a window ago. */
        void forgetTheStart() {
            long since = System.currentTimeMillis() - limit.window().toMillis();
            grants.removeIf(grant -> grant.at < since);
        }

        private List<Double> worst() {
            return IntStream.range(0, KEYS)
                    .mapToObj(key -> {
                        GrantedPermits permits = new GrantedPermits(limit);
                        grants.stream()
                                .filter(grant -> grant.key == key)
                                .sorted(Comparator.comparingLong(Grant::at))
                                .forEach(grant -> permits.take(grant.at, 1));
                        return permits.most() / (double) limit.burst();
                    })
                    .sorted()
                    .toList();
        }

        void report(String what, long back) {
            List<Double> worst = worst();
            long after = grants.stream()
                    .filter(grant -> grant.at >= back && grant.at < back + 10_000)
                    .count();
            Chaos.report(
                    "end of outage",
                    "%s, %s, load %d: worst window, median %.2f, highest %.2f of the limit; after it %.2f of the rate"
                            .formatted(
                                    what,
                                    limit,
                                    load,
                                    worst.get(KEYS / 2),
                                    worst.get(KEYS - 1),
                                    after / (10.0 * perSecond / load)));
        }

        void check(String what) {
            assertThat(worst().get(KEYS / 2))
                    .as("%s, %s, load %d", what, limit, load)
                    .isLessThanOrEqualTo(1.25);
        }
    }
}
