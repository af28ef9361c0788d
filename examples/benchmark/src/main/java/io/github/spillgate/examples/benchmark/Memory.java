package io.github.spillgate.examples.benchmark;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.examples.benchmark.contender.Topology;
import io.github.spillgate.examples.benchmark.measure.RedisServer;
import io.github.spillgate.examples.benchmark.measure.Servers;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.PrintStream;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Measures the memory of keys in Redis, after a limiter has taken permits: by MEMORY USAGE, which excludes the tables
 * of keys and expiries, and by the growth of used memory, which includes everything.
 */
final class Memory {

    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final Duration HOUR = Duration.ofHours(1);
    private static final int IN_FLIGHT = 256;
    private static final int RECONCILED_AT_ONCE = 64;

    /**
     * With fewer keys, the memory of connections, which varies by about ten thousand bytes, would distort the figures.
     */
    private static final int FEWEST = 500;

    /** More than the resolution of a log, so that no two hits of a key share an entry. */
    private static final long APART = TimeUnit.MICROSECONDS.toNanos(2_100);

    private final Servers servers;
    private final PrintStream out;
    private final boolean quick;

    /**
     * Creates a measurement.
     *
     * @param quick whether to use a hundredth of the keys, but at least {@link #FEWEST}, and at most a hundred hits
     */
    Memory(Servers servers, PrintStream out, boolean quick) {
        this.servers = servers;
        this.out = out;
        this.quick = quick;
    }

    void show() {
        out.println();
        out.println("| | keys | MEMORY USAGE, bytes a key | all memory, bytes a key | the same, in a cluster |");
        out.println("|---|---:|---:|---:|---:|");
        Limit counter = Limit.perHour(10_000).counter();
        show("counter", counter, 1_000_000, 1);
        // At a low rate, because the key of an empty bucket expires.
        show("bucket", Limit.bucket(100, HOUR, 1_000_000), 100_000, 1);
        Limit log = Limit.perHour(10_000);
        show("log, 1 hit", log, 1_000_000, 1);
        show("log, 2 hits", log, 200_000, 2);
        show("log, 10 hits", log, 50_000, 10);
        show("log, 100 hits", log, 5_000, 100);
        if (!quick) {
            show("log, 1,000 hits", log, 500, 1_000);
            show("log, 10,000 hits", log, 50, 10_000);
        }
        Limit concurrent = Limit.concurrent(Limit.MOST_CONCURRENT_PERMITS).hold(HOUR);
        show("concurrency, 1 holder", concurrent, 100_000, 1);
        show("concurrency, 20 holders", concurrent, 10_000, 20);
        if (!quick) {
            show("concurrency, 500 holders", concurrent, 500, 500);
        }
        int reconciled = number(100_000);
        row(
                "the mark of a reconciliation",
                reconciled,
                marks(Topology.ALONE, reconciled),
                marks(Topology.CLUSTER_OF_ONE, reconciled));
    }

    private void show(String what, Limit limit, int keys, int hits) {
        int number = number(keys);
        row(
                what,
                number,
                hits(Topology.ALONE, limit, number, hits),
                hits(Topology.CLUSTER_OF_ONE, limit, number, hits));
    }

    private int number(int keys) {
        return quick ? Math.max(keys / 100, FEWEST) : keys;
    }

    private void row(String what, int keys, Taken alone, Taken inCluster) {
        out.printf(
                Locale.ROOT,
                "| %s | %,d | %,.0f | %,.0f | %,.0f |%n",
                what,
                keys,
                alone.aKey,
                alone.all,
                inCluster.all);
    }

    private Taken hits(Topology topology, Limit limit, int keys, int hits) {
        return taken(topology, keys, limit, key -> true, (store, limiter) -> {
            long before = servers.redis(topology).usedMemory();
            take(limiter, keys, hits);
            return before;
        });
    }

    private Taken marks(Topology topology, int keys) {
        return taken(topology, keys, Limit.perHour(10_000).counter(), key -> key.contains("!"), (store, limiter) -> {
            take(limiter, keys, 1);
            RedisServer redis = servers.redis(topology);
            long before = redis.usedMemory();
            long now = InstantSource.system().millis();
            Flux.range(0, keys)
                    .concatMap(i -> limiter.peek(key(i))
                            .map(decision -> reconciliation(
                                    i, now, ((StoreDecision) decision).claims().get(0))))
                    .buffer(RECONCILED_AT_ONCE)
                    .concatMap(store::correct)
                    .blockLast();
            return before;
        });
    }

    private static Reconciliation reconciliation(int number, long now, Claim claim) {
        return Reconciliation.of(
                "1y2p0ij32e8e7", number, claim, List.of(new Grants(now, now, 1)), List.of(), InstantSource.system());
    }

    /** Fills an empty Redis, and measures its memory. */
    private Taken taken(Topology topology, int keys, Limit limit, Predicate<String> such, Filling filling) {
        RedisServer redis = servers.redis(topology);
        redis.empty();
        String uri = "redis://127.0.0.1:" + redis.port();
        AbstractRedisClient client =
                topology == Topology.ALONE ? RedisClient.create(uri) : RedisClusterClient.create(uri);
        try {
            RedisStore store = client instanceof RedisClusterClient cluster
                    ? RedisStore.create(cluster)
                    : RedisStore.create((RedisClient) client);
            store.prepare("").block(TIMEOUT);
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(store)
                    .deadline(TIMEOUT)
                    .limit(limit)
                    .build();
            // Connect first, so that the memory of the connection is not counted.
            limiter.peek("ready").block();
            long before = filling.fill(store, limiter);
            Taken taken = new Taken(redis.memoryOf(such), (redis.usedMemory() - before) / (double) keys);
            limiter.closeLater().block(TIMEOUT);
            return taken;
        } finally {
            client.shutdown();
        }
    }

    private static void take(RateLimiter limiter, int keys, int hits) {
        long next = System.nanoTime();
        for (int hit = 0; hit < hits; hit++) {
            LockSupport.parkNanos(next - System.nanoTime());
            next = System.nanoTime() + APART;
            Flux.range(0, keys)
                    .flatMap(i -> limiter.tryAcquire(key(i)), IN_FLIGHT)
                    .flatMap(decision -> decision.isAllowed() && decision.source() == Source.REDIS
                            ? Mono.empty()
                            : Mono.error(new IllegalStateException("not taken in Redis: " + decision)))
                    .then()
                    .block();
        }
    }

    private static String key(int number) {
        return String.format(Locale.ROOT, "user:%07d", number);
    }

    /** Fills an empty Redis, and returns the memory used before. */
    private interface Filling {
        long fill(RedisStore store, RateLimiter limiter);
    }

    /** The bytes of one key, without and with the tables that contain it. */
    private record Taken(double aKey, double all) {}
}
