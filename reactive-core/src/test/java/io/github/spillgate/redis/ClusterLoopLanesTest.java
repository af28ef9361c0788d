package io.github.spillgate.redis;

import static io.github.spillgate.testkit.LoopRequests.isEmittedOnLoop;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.KillArgs;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Decisions in a cluster that are requested on an event loop of an application. */
class ClusterLoopLanesTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int PRIMARIES = 3;

    /** More than the pause between two refreshes. */
    private static final long LONGER_THAN_A_PAUSE = TimeUnit.MILLISECONDS.toNanos(1_500);

    private final RedisClusterForTests cluster = RedisClusterForTests.shared();
    private final RedisClusterClient client = RedisClusterClient.create(cluster.uris());
    private final RedisStore store =
            RedisStore.builder(client).nodes(cluster.uris()).build();
    private final RateLimiter limiter = RateLimiter.builder("cluster-loops")
            .store(new Unprotected(store))
            .limit(Limit.perHour(1_000_000))
            .build();
    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
    private final EventLoop loop = loops.next();

    /** One key on each primary, by the place of their slots. */
    private final List<String> keys = IntStream.range(0, PRIMARIES)
            .mapToObj(primary -> Stream.iterate(0, i -> i + 1)
                    .map(i -> "key-" + i)
                    .filter(key -> SlotHash.getSlot(key) * PRIMARIES / SlotHash.SLOT_COUNT == primary)
                    .findFirst()
                    .orElseThrow())
            .toList();

    @AfterEach
    void shutdown() {
        store.closeLater().block(LONG);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        Future<?> unused = loops.shutdownGracefully(0, 5, TimeUnit.SECONDS);
    }

    @Test
    void lostConnectionsThatOnlyOtherThreadsUseStartNoRefresh() {
        Map<RedisNode, List<String>> ofTheStore = new HashMap<>();
        for (String key : keys) {
            RedisNode node = cluster.primaryOf(key);
            List<String> before = connectionsTo(node);
            limiter.tryAcquire(key).block(LONG);
            List<String> opened = connectionsTo(node);
            opened.removeAll(before);
            assertThat(opened).isNotEmpty();
            ofTheStore.put(node, opened);
        }
        assertThat(ofTheStore).hasSize(PRIMARIES);
        await().atMost(LONG).until(this::areEmittedOnTheLoop);
        // Within a pause of the refresh that found the cluster, nothing would start another one.
        decideForLongerThanAPause();
        long refreshes = refreshes();
        ofTheStore.forEach(
                (node, ids) -> ids.forEach(id -> node.commands().clientKill(KillArgs.Builder.id(Long.parseLong(id)))));
        decideForLongerThanAPause();
        assertThat(refreshes()).isEqualTo(refreshes);
    }

    private void decideForLongerThanAPause() {
        long end = System.nanoTime() + LONGER_THAN_A_PAUSE;
        while (System.nanoTime() - end < 0) {
            assertThat(areEmittedOnTheLoop()).isTrue();
        }
    }

    private boolean areEmittedOnTheLoop() {
        return keys.stream().allMatch(key -> isEmittedOnLoop(loop, limiter, key));
    }

    private List<String> connectionsTo(RedisNode node) {
        return new ArrayList<>(node.commands()
                .clientList()
                .lines()
                .map(line -> line.replaceAll("id=(\\d+) .*", "$1"))
                .toList());
    }

    private long refreshes() {
        return cluster.nodes().stream()
                .mapToLong(node -> Keyspace.callsOf("cluster", node.commands()))
                .sum();
    }
}
