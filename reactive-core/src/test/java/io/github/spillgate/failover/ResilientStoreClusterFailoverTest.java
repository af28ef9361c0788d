package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * A primary of a cluster fails while decisions are made. Writes that have not reached its replica are lost, as always
 * in Redis; so a test that counts permits first waits for replication.
 */
@Thorough
class ResilientStoreClusterFailoverTest {

    private static final Duration LONG = Duration.ofSeconds(60);

    /** On a busy machine a node that works may be slow. */
    private static final Duration DEADLINE = Duration.ofSeconds(10);

    /** A call that ends at its deadline takes no longer, on a busy machine either. */
    private static final Duration BOUND = Duration.ofSeconds(40);

    private static final List<String> KEYS =
            IntStream.range(0, 60).mapToObj(i -> "key-" + i).toList();

    /** Without full coverage, the other nodes serve their slots while those of the failed node have no primary. */
    private final RedisClusterForTests cluster = RedisClusterForTests.start(
            RedisBinary.first(),
            3,
            1,
            "--cluster-require-full-coverage",
            "no",
            // A node that works does not become a dead one on a busy machine.
            "--cluster-node-timeout",
            "5000");

    private final RedisNode failing = cluster.nodes().get(0);
    private final Load load = new Load();
    private RedisClusterClient client;
    private RateLimiter limiter;

    @BeforeEach
    void connect() {
        client = RedisClusterClient.create(cluster.uris());
        limiter = RateLimiter.builder("failover")
                .store(RedisStore.create(client))
                .deadline(DEADLINE)
                .limit(Limit.perHour(1_000_000))
                .build();
        await().atMost(LONG).untilAsserted(() -> assertThat(sources(KEYS)).containsOnly(Source.REDIS));
    }

    @AfterEach
    void stop() {
        load.stop();
        limiter.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
        cluster.close();
    }

    @Test
    void theNewOwnerOfTheSlotsDecidesAfterAPrimaryIsKilled() {
        load.start();
        failing.kill();
        RedisNode next = cluster.awaitNewPrimaryOf(0, failing);
        awaitRedis();
        load.stop();
        assertThat(load.errors).hasValue(0);
        assertThat(load.longest()).isLessThan(BOUND);
        assertThat(load.bySource(true)).containsKeys(Source.REDIS, Source.LOCAL);
        assertThat(load.bySource(false)).as("of the nodes that went on").containsOnlyKeys(Source.REDIS);
        assertThat(next.commands().info("commandstats")).contains("cmdstat_evalsha");
        next.commands()
                .keys("spillgate:*")
                .forEach(key -> assertThat(next.commands().pttl(key)).as(key).isPositive());
        awaitNoProblem();
    }

    /** The name of this limiter is on another node, so its registration does not find the new owner. */
    @Test
    void theOutageOfAKilledPrimaryEndsWithoutRequests() {
        assertThat(isOnFailingNode("idle")).isFalse();
        String key = KEYS.stream()
                .filter(ResilientStoreClusterFailoverTest::isOnFailingNode)
                .findFirst()
                .orElseThrow();
        try (RateLimiter idle = RateLimiter.builder("idle")
                .store(RedisStore.create(client))
                .limit(Limit.perHour(10))
                .deadline(DEADLINE)
                .build()) {
            await().atMost(LONG).until(() -> idle.peek(key).block(LONG).source() == Source.REDIS);
            failing.kill();
            await().atMost(LONG).until(() -> {
                idle.peek(key).block(LONG);
                return idle.state().isFallbackActive();
            });
            cluster.awaitNewPrimaryOf(0, failing);
            await().atMost(LONG).until(() -> !idle.state().isFallbackActive());
        }
    }

    @Test
    @DisabledOnOs(value = OS.WINDOWS, disabledReason = "Windows has no SIGSTOP")
    void theNewOwnerOfTheSlotsDecidesAfterAPrimaryHangs() {
        load.start();
        failing.pause();
        cluster.awaitNewPrimaryOf(0, failing);
        awaitRedis();
        failing.resume();
        await().atMost(LONG).until(() -> !failing.isPrimary());
        awaitRedis();
        load.stop();
        assertThat(load.errors).hasValue(0);
        assertThat(load.longest()).isLessThan(BOUND);
        assertThat(load.bySource(false)).as("of the nodes that went on").containsOnlyKeys(Source.REDIS);
        awaitNoProblem();
    }

    @Test
    void theStateNamesTheUnavailableNode() {
        cluster.replicasOf(failing).forEach(RedisNode::kill);
        failing.kill();
        await().atMost(LONG).untilAsserted(() -> {
            sources(KEYS);
            assertThat(limiter.state().breaker()).isNotEqualTo(Breaker.CLOSED);
        });
        assertThat(limiter.state().source()).isEqualTo(Source.REDIS);
        assertThat(limiter.state().problem())
                .hasValueSatisfying(problem -> assertThat(problem).contains(Integer.toString(failing.port())));
        assertThat(sources(KEYS.stream().filter(key -> !isOnFailingNode(key)).toList()))
                .containsOnly(Source.REDIS);
    }

    @Test
    void localGrantsOfAnOutageAreChargedAtTheNewPrimary() {
        String key = KEYS.stream()
                .filter(ResilientStoreClusterFailoverTest::isOnFailingNode)
                .findFirst()
                .orElseThrow();
        long before = limiter.peek(key).block(LONG).limits().get(0).used();
        assertThat(failing.commands().waitForReplication(1, 20_000)).isEqualTo(1);
        failing.kill();
        AtomicLong granted = new AtomicLong();
        await().atMost(LONG).until(() -> {
            granted.addAndGet(granted(limiter, key, 1));
            return limiter.peek(key).block(LONG).source() == Source.REDIS
                    && limiter.state().toReconcile() == 0;
        });
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(
                                limiter.peek(key).block(LONG).limits().get(0).used())
                        .isEqualTo(before + granted.get()));
    }

    @Test
    void failuresAcrossSlotsNeverCauseOverAdmission() {
        RateLimiter pairs = RateLimiter.builder("pairs")
                .store(new Unprotected(RedisStore.create(client)))
                .limit(Limit.perHour(2_000))
                .build();
        List<AtomicLong> granted = KEYS.stream().map(key -> new AtomicLong()).toList();
        AtomicLong errors = new AtomicLong();
        AtomicBoolean over = new AtomicBoolean();
        Random random = new Random(7);
        Mono<Void> asking = Flux.range(0, 20)
                .flatMap(one -> Mono.defer(() -> {
                            int[] some = random.ints(0, KEYS.size())
                                    .distinct()
                                    .limit(3)
                                    .toArray();
                            Charge[] charges = IntStream.of(some)
                                    .mapToObj(key -> Charge.of(KEYS.get(key)))
                                    .toArray(Charge[]::new);
                            return pairs.tryAcquire(charges)
                                    .doOnNext(decision -> {
                                        if (decision.isAllowed()) {
                                            IntStream.of(some)
                                                    .forEach(key ->
                                                            granted.get(key).incrementAndGet());
                                        }
                                    })
                                    .doOnError(error -> errors.incrementAndGet())
                                    .onErrorResume(error ->
                                            Mono.delay(Duration.ofMillis(5)).then(Mono.empty()));
                        })
                        .repeat(() -> !over.get()))
                .then()
                .cache();
        asking.subscribe();
        await().atMost(LONG).until(() -> granted.get(0).get() > 20);
        failing.kill();
        await().atMost(LONG).until(() -> errors.get() > 0);
        cluster.awaitNewPrimaryOf(0, failing);
        long then = granted.get(0).get();
        await().atMost(LONG)
                .until(() -> granted.get(0).get() > then + 20 || granted.get(0).get() >= 1_500);
        over.set(true);
        asking.block(LONG);
        for (int key = 0; key < KEYS.size(); key++) {
            // Writes that the killed node had not replicated are lost.
            if (!isOnFailingNode(KEYS.get(key))) {
                long used =
                        pairs.peek(KEYS.get(key)).block(LONG).limits().get(0).used();
                assertThat(granted.get(key).get())
                        .as(KEYS.get(key))
                        .isPositive()
                        .isLessThanOrEqualTo(used);
                assertThat(used).isLessThanOrEqualTo(2_000);
            }
        }
        pairs.close();
    }

    private static long granted(RateLimiter limiter, String key, int times) {
        return Flux.range(0, times)
                .concatMap(i -> limiter.tryAcquire(key))
                .filter(Decision::isAllowed)
                .count()
                .block(LONG);
    }

    private void awaitRedis() {
        await().atMost(LONG).untilAsserted(() -> assertThat(sources(KEYS)).containsOnly(Source.REDIS));
    }

    /** Keeps requests going, because the gate of an unused part is forgotten. */
    private void awaitNoProblem() {
        await().atMost(LONG).untilAsserted(() -> {
            sources(KEYS);
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
            // A connection that was replaced may be closed only now; that is a problem until the next decision.
            assertThat(limiter.state().problem()).isEmpty();
        });
    }

    private List<Source> sources(List<String> keys) {
        return Flux.fromIterable(keys)
                .flatMap(limiter::tryAcquire)
                .map(Decision::source)
                .distinct()
                .collectList()
                .block(LONG);
    }

    private static boolean isOnFailingNode(String key) {
        return SlotHash.getSlot(key) < SlotHash.SLOT_COUNT / 3;
    }

    /** Ten callers without a pause, and the sources of their decisions. */
    private final class Load {

        private final AtomicBoolean over = new AtomicBoolean();
        private final AtomicLong errors = new AtomicLong();
        private final AtomicLong longest = new AtomicLong();
        private final Map<Source, AtomicLong> onFailingNode = new ConcurrentHashMap<>();
        private final Map<Source, AtomicLong> onOtherNodes = new ConcurrentHashMap<>();
        private Mono<Void> all = Mono.empty();
        private Disposable running = () -> {};

        void start() {
            all = Flux.range(0, 10)
                    .flatMap(one -> Mono.defer(() -> ask(KEYS.get((int) (Math.random() * KEYS.size()))))
                            .repeat(() -> !over.get()))
                    .then()
                    .cache();
            running = all.subscribe();
        }

        private Mono<Void> ask(String key) {
            long since = System.nanoTime();
            return limiter.tryAcquire(key)
                    .doOnNext(decision -> (isOnFailingNode(key) ? onFailingNode : onOtherNodes)
                            .computeIfAbsent(decision.source(), source -> new AtomicLong())
                            .incrementAndGet())
                    .doOnError(error -> errors.incrementAndGet())
                    .onErrorComplete()
                    .doFinally(end -> longest.accumulateAndGet(System.nanoTime() - since, Math::max))
                    .then(Mono.delay(Duration.ofMillis(1)))
                    .then();
        }

        Map<Source, AtomicLong> bySource(boolean wanted) {
            return wanted ? onFailingNode : onOtherNodes;
        }

        Duration longest() {
            return Duration.ofNanos(longest.get());
        }

        void stop() {
            over.set(true);
            all.block(LONG);
            running.dispose();
        }
    }
}
