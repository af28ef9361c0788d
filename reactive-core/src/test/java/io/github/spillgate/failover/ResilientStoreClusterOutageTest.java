package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** Nodes of a cluster hang, die or forget their cluster: which keys the fallback decides on, and for how long. */
@Thorough
class ResilientStoreClusterOutageTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    /** Longer than a node takes that works, on a busy machine. */
    private static final Duration DEADLINE = Duration.ofSeconds(2);

    /** Shorter than a minute, after which Lettuce gives up a command. */
    private static final Duration BOUND = Duration.ofSeconds(45);

    private static final Limit LIMIT = Limit.perHour(100_000);
    private static final AtomicInteger KEYS = new AtomicInteger();

    private @Nullable RedisClusterForTests cluster;
    private @Nullable RedisClusterClient client;
    private @Nullable RedisStore store;
    private @Nullable RateLimiter limiter;

    private RateLimiter limiter(RedisClusterForTests nodes) {
        return limiter(nodes, Fallback.local(10_000));
    }

    private RateLimiter limiter(RedisClusterForTests nodes, LimitStore fallback) {
        cluster = nodes;
        client = RedisClusterClient.create(nodes.uris().subList(0, 1));
        store = RedisStore.create(client);
        limiter = RateLimiter.builder("api")
                .store(store)
                .fallback(fallback)
                .deadline(DEADLINE)
                .limit(LIMIT)
                .build();
        return limiter;
    }

    @AfterEach
    void close() {
        if (limiter != null) {
            limiter.close();
        }
        if (store != null) {
            store.close();
        }
        if (client != null) {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
        if (cluster != null) {
            cluster.close();
        }
    }

    private static Source sourceOf(RateLimiter limiter, String key) {
        return limiter.tryAcquire(key).block(LONG).source();
    }

    private static long used(RateLimiter limiter, String key) {
        return limiter.peek(key).block(LONG).limits().get(0).used();
    }

    /** A key of each of three nodes. */
    private static List<String> keys() {
        return List.of(newKey(0), newKey(1), newKey(2));
    }

    /** Returns an unused key in the initial slots of this node. */
    private static String newKey(int node) {
        String key;
        do {
            key = "key-" + KEYS.incrementAndGet();
        } while (SlotHash.getSlot(key) * 3 / SlotHash.SLOT_COUNT != node);
        return key;
    }

    @Test
    void aDeadNodeDoesNotDelayTheReconciliationOfOtherNodes() {
        RateLimiter limiter =
                limiter(RedisClusterForTests.start(RedisBinary.first(), 3, 0, "--cluster-require-full-coverage", "no"));
        List<String> keys = keys();
        for (String key : keys) {
            await().atMost(LONG).until(() -> sourceOf(limiter, key) == Source.REDIS);
        }
        List<RedisNode> nodes = cluster.nodes();
        nodes.forEach(RedisNode::pause);
        // Until all three breakers are open.
        for (int node = 0; node < 3; node++) {
            int hanging = node;
            // Requested together, because each is answered only at the deadline.
            assertThat(Flux.range(0, 12)
                            .flatMap(i -> limiter.tryAcquire(newKey(hanging)))
                            .map(Decision::source)
                            .collectList()
                            .block(LONG))
                    .hasSize(12)
                    .containsOnly(Source.LOCAL);
        }
        // A breaker learns of a missed deadline after its caller.
        await().atMost(LONG).until(() -> limiter.state().breaker() == Breaker.OPEN);
        // These are not in flight to Redis; some of the earlier ones may be.
        for (String key : keys) {
            IntStream.range(0, 50).forEach(i -> sourceOf(limiter, key));
        }
        nodes.get(2).kill();
        nodes.get(0).resume();
        nodes.get(1).resume();
        for (String key : keys.subList(0, 2)) {
            await().atMost(BOUND)
                    .pollInterval(Duration.ofMillis(200))
                    .until(() -> sourceOf(limiter, key) == Source.REDIS);
        }
        for (String key : keys.subList(0, 2)) {
            assertThat(used(limiter, key)).isGreaterThan(50);
        }
        // Local grants for the dead node must not affect the others.
        IntStream.range(0, 5).forEach(i -> sourceOf(limiter, keys.get(2)));
        for (String key : keys.subList(0, 2)) {
            assertThat(IntStream.range(0, 20).mapToObj(i -> sourceOf(limiter, key)))
                    .containsOnly(Source.REDIS);
        }
    }

    @Test
    void aPrimaryThatLeftItsClusterIsReplaced() {
        RateLimiter limiter = limiter(RedisClusterForTests.start(3, 1), Fallback.deny());
        List<String> keys = keys();
        for (String key : keys) {
            await().atMost(LONG).until(() -> sourceOf(limiter, key) == Source.REDIS);
        }
        RedisNode empty = cluster.nodes().get(0);
        empty.commands().flushall();
        empty.commands().clusterReset(true);
        String key = keys.get(0);
        RedisNode replica = cluster.nodes().get(3);
        await().atMost(LONG).until(() -> sourceOf(limiter, key) != Source.REDIS);
        replica.commands().clusterFailover(false, true);
        await().atMost(LONG).until(replica::isPrimary);
        await().atMost(BOUND).pollInterval(Duration.ofMillis(200)).until(() -> sourceOf(limiter, key) == Source.REDIS);
    }

    @Test
    void aNewPrimaryIsFoundAfterFailedTopologyRefreshes() {
        RateLimiter limiter = limiter(RedisClusterForTests.start(3, 1));
        List<String> keys = keys();
        for (String key : keys) {
            await().atMost(LONG).until(() -> sourceOf(limiter, key) == Source.REDIS);
        }
        List<RedisNode> nodes = cluster.nodes();
        nodes.forEach(RedisNode::pause);
        long start = System.nanoTime();
        await().atMost(LONG).pollInterval(Duration.ofMillis(100)).until(() -> {
            IntStream.range(0, 3).forEach(node -> sourceOf(limiter, newKey(node)));
            return System.nanoTime() - start > 5_000_000_000L;
        });
        nodes.subList(1, 6).forEach(RedisNode::resume);
        await().atMost(LONG).until(nodes.get(3)::isPrimary);
        long then = System.nanoTime();
        for (int i = 0; i < 3; i++) {
            int node = i;
            await().atMost(LONG)
                    .pollInterval(Duration.ofMillis(100))
                    .until(() -> sourceOf(limiter, newKey(node)) == Source.REDIS);
        }
        assertThat(System.nanoTime() - then).isLessThan(BOUND.toNanos());
    }
}
