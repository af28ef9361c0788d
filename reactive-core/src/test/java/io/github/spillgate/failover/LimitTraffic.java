package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimiterForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;

/** The requests for several keys under one limit at a steady rate, spread over instances, and all that was granted. */
final class LimitTraffic {

    private static final long TICK = 1_000_000;

    private final Limit limit;
    private final int load;
    private final int keys;
    private final double perSecond;
    private final Queue<Grant> grants = new ConcurrentLinkedQueue<>();
    private long sent;

    /**
     * Creates traffic.
     *
     * @param load the number of requests for a key, in multiples of the limit
     */
    LimitTraffic(Limit limit, int load, int keys) {
        this.limit = limit;
        this.load = load;
        this.keys = keys;
        this.perSecond = 1e9 * limit.permits() / limit.window().toNanos() * keys * load;
    }

    /**
     * A grant.
     *
     * @param at the time of the decision
     * @param arrivedAt the time at which the caller got it
     */
    private record Grant(int key, long at, long arrivedAt) {}

    Limit limit() {
        return limit;
    }

    int load() {
        return load;
    }

    String limiter() {
        return "load" + load;
    }

    /** Sends all traffic to instances in turn, or to the first one, until a time after the start. */
    static void run(List<LimitTraffic> all, List<Instance> instances, boolean isAllAtOne, long start, Duration until) {
        for (long passed = 0; passed < until.toNanos(); passed = System.nanoTime() - start) {
            for (int i = 0; i < all.size(); i++) {
                all.get(i).send(i, instances, isAllAtOne, passed);
            }
            LockSupport.parkNanos(TICK);
        }
    }

    private void send(int limiter, List<Instance> instances, boolean isAllAtOne, long nanos) {
        for (; sent < perSecond * nanos / 1e9; sent++) {
            int key = (int) (sent % keys);
            Consumer<Decision> note = decision -> {
                if (decision.isAllowed()) {
                    grants.add(new Grant(key, decision.at().toEpochMilli(), System.currentTimeMillis()));
                }
            };
            int instance = isAllAtOne ? 0 : (int) (sent / keys % instances.size());
            instances
                    .get(instance)
                    .limiters
                    .get(limiter)
                    .tryAcquire("key" + key)
                    .subscribe(note, error -> {});
        }
    }

    /**
     * Returns the most that was in use of each key at any moment of a span of time, as a part of the limit, in
     * ascending order: the permits of a window, or the level of a token bucket. If this process stalls, decisions
     * arrive late, and permits that had expired by then were granted again: so this is the lower one of two numbers, by
     * the times of decisions, and by the times at which they arrived.
     */
    List<Double> worst(long from, long to) {
        return IntStream.range(0, keys)
                .mapToObj(key -> Math.min(worst(key, from, to, Grant::at), worst(key, from, to, Grant::arrivedAt))
                        / (double) limit.capacity())
                .sorted()
                .toList();
    }

    private long worst(int key, long from, long to, ToLongFunction<Grant> time) {
        GrantedPermits permits = new GrantedPermits(limit);
        List<Grant> all = grants.stream()
                .filter(grant -> grant.key == key && time.applyAsLong(grant) < to)
                .sorted(Comparator.comparingLong(time))
                .toList();
        for (Grant grant : all) {
            long at = time.applyAsLong(grant);
            permits.take(at, 1);
            if (at < from) {
                permits.forgetMost();
            }
        }
        return permits.most();
    }

    /** Returns what was granted in a span of time, as a part of what the limit allows. */
    double granted(long from, long to) {
        long granted = grants.stream()
                .filter(grant -> grant.at >= from && grant.at < to)
                .count();
        return granted * 1e3 / (to - from) / (perSecond / load);
    }

    @Override
    public String toString() {
        return limit + ", load " + load;
    }

    /** An instance of a service on a Redis, with a limiter for each kind of traffic. */
    static final class Instance implements AutoCloseable {

        private final RedisClient client;
        private final RedisStore redis;
        private final ResilientStore store;
        private final List<RateLimiter> limiters = new ArrayList<>();

        Instance(RedisURI uri, List<LimitTraffic> all) {
            this(uri, all, UnaryOperator.identity());
        }

        /** Creates an instance with a store that a test has changed. */
        Instance(RedisURI uri, List<LimitTraffic> all, UnaryOperator<LimitStore> change) {
            client = RedisClient.create(uri);
            redis = RedisStore.create(client);
            store = ResilientStore.builder(change.apply(redis)).build();
            for (LimitTraffic traffic : all) {
                limiters.add(RateLimiter.builder(traffic.limiter())
                        .store(store)
                        .limit(traffic.limit)
                        .build());
            }
        }

        /** Returns the limiters, in the order of the traffic. */
        List<RateLimiter> limiters() {
            return limiters;
        }

        Instance awaitReady() {
            limiters.forEach(LimiterForTests::awaitReady);
            return this;
        }

        void assertKnows(int instances) {
            limiters.forEach(limiter -> assertThat(store.failover().grants().instances(limiter.name()))
                    .as("known instances")
                    .isEqualTo(instances));
        }

        /** Ends without handing over what it has granted. */
        void abort() {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
            close();
        }

        @Override
        public void close() {
            store.close();
            redis.close();
            client.shutdown();
        }
    }
}
