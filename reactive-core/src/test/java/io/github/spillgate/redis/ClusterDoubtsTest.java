package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** What nodes of a cluster say that is not often said. */
class ClusterDoubtsTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Limit LIMIT = Limit.perHour(1_000);

    private @Nullable RedisClusterForTests cluster;
    private @Nullable RedisClusterClient client;
    private @Nullable RedisStore store;

    private RateLimiter limiter(RedisClusterForTests nodes) {
        cluster = nodes;
        client = RedisClusterClient.create(nodes.uris().subList(0, 1));
        store = RedisStore.create(client);
        return RateLimiter.builder("api")
                .store(new Unprotected(store))
                .limit(LIMIT)
                .build();
    }

    @AfterEach
    void close() {
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

    @Test
    void aNodeWhoseHostNameNobodyKnowsIsFoundByItsAddress() {
        RedisBinary binary = RedisBinary.first();
        Assumptions.assumeTrue(binary.name().contains(" 7.") || binary.name().contains(" 8."), binary.name());
        RateLimiter limiter =
                limiter(RedisClusterForTests.start(binary, 3, 0, "--cluster-preferred-endpoint-type", "hostname"));
        assertThat(decisions(limiter)).isEqualTo(200);
        // Somebody else is asked then who has its slots.
        long start = System.nanoTime();
        await().atMost(LONG).pollInterval(Duration.ofMillis(50)).until(() -> {
            cluster.nodes().get(0).commands().clientKill(KillArgs.Builder.typeNormal());
            decisions(limiter);
            return System.nanoTime() - start > 3_000_000_000L;
        });
        await().atMost(Duration.ofSeconds(10)).until(() -> decisions(limiter) == 200);
    }

    /** As behind a balancer: the others are where the one is that was asked, and only their ports are told. */
    @Test
    void nodesThatDoNotSayWhereTheyAreAreWhereTheOneIsThatWasAsked() {
        RedisBinary binary = RedisBinary.first();
        Assumptions.assumeTrue(binary.name().contains(" 7.") || binary.name().contains(" 8."), binary.name());
        cluster = RedisClusterForTests.start(binary, 3, 0, "--cluster-preferred-endpoint-type", "unknown-endpoint");
        List<RedisURI> nodes = cluster.uris().subList(0, 1);
        client = RedisClusterClient.create(nodes);
        store = RedisStore.builder(client).nodes(nodes).build();
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new Unprotected(store))
                .limit(LIMIT)
                .build();
        assertThat(decisions(limiter)).isEqualTo(200);
        int slot = SlotHash.getSlot("key-1");
        RedisNode source = cluster.primaryOf(slot);
        RedisNode target = cluster.nodes().stream()
                .filter(node -> node != source)
                .findFirst()
                .orElseThrow();
        cluster.migrateSlot(
                slot,
                target,
                () -> assertThat(used(limiter, Charge.of("key-1"))).as("ASK").isEqualTo(1));
        assertThat(limiter.tryAcquire("key-1").block(LONG).limits().get(0).used())
                .as("MOVED")
                .isEqualTo(2);
    }

    @Test
    void whoWaitsForANodeThatIsReplacedIsToldThatAnotherTryHelps() {
        RateLimiter limiter = limiter(RedisClusterForTests.start(3, 1));
        assertThat(decisions(limiter)).isEqualTo(200);
        cluster.nodes().get(0).pause();
        Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
        await().atMost(LONG).pollInterval(Duration.ofMillis(50)).until(() -> {
            AtomicInteger allowed = new AtomicInteger();
            for (int i = 0; i < 200; i++) {
                limiter.tryAcquire("key-" + i).subscribe(decision -> allowed.incrementAndGet(), errors::add);
            }
            await().pollDelay(Duration.ZERO)
                    .during(Duration.ofMillis(300))
                    .atMost(Duration.ofSeconds(1))
                    .until(() -> true);
            return allowed.get() == 200;
        });
        assertThat(errors)
                .isNotEmpty()
                .allSatisfy(error -> assertThat(error)
                        .isInstanceOf(LimitStoreUnavailableException.class)
                        .hasMessageNotContaining("the store is closed"));
    }

    @Test
    void aNodeThatIsNamedAndStandsStillIsToldOf() {
        cluster = RedisClusterForTests.start(3, 0);
        List<RedisURI> nodes = cluster.uris().subList(0, 1);
        client = RedisClusterClient.create(nodes);
        store = RedisStore.builder(client).nodes(nodes).build();
        cluster.nodes().get(0).pause();
        assertThatThrownBy(() -> store.prepare().block(LONG))
                .isInstanceOf(LimitStoreUnreachableException.class)
                .hasMessage("Redis cannot be asked: " + nodes.get(0).getHost() + ":"
                        + nodes.get(0).getPort()
                        + " has not said within 1 s which node of the cluster has which slot");
    }

    /** What was handed over for it would be held up as long. */
    @Test
    void whoPreparesForANodeThatHasGoneWaitsForNoNodeThatStandsStill() {
        assertThat(decisions(limiter(RedisClusterForTests.start(3, 0)))).isEqualTo(200);
        cluster.nodes().get(1).pause();
        store.prepare("127.0.0.1:1").block(Duration.ofSeconds(15));
    }

    private static int decisions(RateLimiter limiter) {
        List<Decision> decisions = Flux.range(0, 200)
                .flatMap(i -> limiter.tryAcquire("key-" + i).onErrorResume(e -> Mono.empty()))
                .collectList()
                .block(LONG);
        return decisions.size();
    }

    @Test
    void whatIsGivenBackWhileItsCountsAreOnTwoNodesIsGivenBack() {
        RateLimiter limiter = limiter(RedisClusterForTests.start(3, 0));
        String tag = "torn";
        int slot = SlotHash.getSlot(tag);
        // Of before a reset and of after it, all is in the same window.
        Limit limit = Limit.perDay(10).counter().alignedToClock();
        Charge[] charges = {
            Charge.of("one", limit).group(tag), Charge.of("two", limit).group(tag)
        };
        limiter.tryAcquire(charges).block(LONG);
        Decision second = limiter.tryAcquire(charges).block(LONG);
        Decision third = limiter.tryAcquire(charges).block(LONG);
        RedisNode source = cluster.primaryOf(slot);
        RedisNode target = cluster.nodes().stream()
                .filter(node -> node != source)
                .findFirst()
                .orElseThrow();
        cluster.beginMigration(slot, target);
        String first = source.commands().clusterGetKeysInSlot(slot, 1).get(0);
        source.commands().migrate("127.0.0.1", target.port(), first, 0, LONG.toMillis());
        limiter.refund(third).block(LONG);
        limiter.refund(charges).block(LONG);
        assertThat(used(limiter, charges[0])).isEqualTo(1);
        assertThat(used(limiter, charges[1])).isEqualTo(1);
        limiter.reset(charges[0]).block(LONG);
        limiter.reset(charges[1]).block(LONG);
        assertThat(used(limiter, charges[0])).isZero();
        assertThat(used(limiter, charges[1])).isZero();

        limiter.tryAcquire(charges[0].permits(2)).block(LONG);
        limiter.tryAcquire(charges[1].permits(2)).block(LONG);
        limiter.refund(second).block(LONG);
        assertThat(used(limiter, charges[0])).isEqualTo(2);
        assertThat(used(limiter, charges[1])).isEqualTo(2);
    }

    private static long used(RateLimiter limiter, Charge charge) {
        return limiter.peek(charge).block(LONG).limits().get(0).used();
    }
}
