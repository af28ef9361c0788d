package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.testkit.VirtualTime;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** One queue for each node of a store; they are closed together. */
class OutboxTest {

    private static final int ROUNDS = 30;
    private static final int KEYS = 200;
    private static final Duration LONG = Duration.ofSeconds(30);

    /** A queue that is never closed would retry once a second for ever. */
    @Test
    void nothingIsSentAfterTheEndEvenIfAddedDuringIt() throws InterruptedException {
        List<UnreachableStore> stores = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            UnreachableStore store = new UnreachableStore();
            stores.add(store);
            ResilientStore resilient = ResilientStore.of(store);
            RateLimiter limiter = RateLimiter.builder("api")
                    .store(resilient)
                    .limit(Limit.perHour(10))
                    .build();
            CountDownLatch halfway = new CountDownLatch(KEYS / 2);
            Thread granting = new Thread(() -> IntStream.range(0, KEYS).forEach(key -> {
                limiter.tryAcquire("key-" + key).block(LONG);
                halfway.countDown();
            }));
            granting.start();
            halfway.await();
            Mono<Void> end = resilient.closeLater();
            end.subscribe();
            granting.join();
            end.block(LONG);
            assertThat(resilient.state().toReconcile()).isEqualTo(KEYS);
            store.hasEnded = true;
        }
        await().during(Duration.ofMillis(1_500))
                .atMost(LONG)
                .untilAsserted(() -> assertThat(stores)
                        .allSatisfy(store -> assertThat(store.callsAfterTheEnd).hasValue(0)));
    }

    /** In virtual time. */
    @Nested
    class OneQueueForEachNode {

        @AutoClose
        private final VirtualTime time = new VirtualTime();

        private final ControlledStore remote = new ControlledStore(time);
        private final Map<String, String> nodes = new HashMap<>();
        private final RateLimiter limiter = RateLimiter.builder("api")
                .store(ResilientStore.builder(new PartitionedStore())
                        .fallback(Fallback.local(10_000, time))
                        .build())
                .limit(Limit.perHour(10))
                .build();

        @Test
        void eachPartIsReconciledSeparately() {
            nodes.putAll(Map.of("a", "one", "b", "one", "c", "other", "d", ""));
            remote.fails();
            for (String key : List.of("a", "b", "c", "d")) {
                take(key);
            }
            remote.isAvailable();
            time.pass(Duration.ofSeconds(5));
            assertThat(limiter.state().reconciled()).isEqualTo(4);
            assertThat(remote.batches())
                    .extracting(OutboxTest::keys)
                    .containsExactlyInAnyOrder(Set.of("a", "b"), Set.of("c"), Set.of("d"));
        }

        @ParameterizedTest
        @ValueSource(strings = {"other", ""})
        void aGrantOfAMovedCountIsReconciledInItsNewPart(String to) {
            nodes.put("a", "one");
            remote.fails();
            take("a");
            nodes.put("a", to);
            remote.isAvailable();
            time.pass(Duration.ofSeconds(5));
            assertThat(limiter.state().reconciled()).isEqualTo(1);
        }

        /** At first after 25 ms, and then after twice as long each time, up to a second. */
        @Test
        void aNodeThatFailsIsAskedLessOften() {
            nodes.put("a", "one");
            remote.fails();
            take("a");
            remote.isAvailable();
            remote.reconciles(charged -> Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "not yet")));
            time.pass(Duration.ofSeconds(60));
            assertThat(remote.batches()).hasSizeBetween(40, 70);
        }

        @Test
        void aPartDoesNotDecideBeforeItsReconciliation() {
            nodes.putAll(Map.of("a", "one", "b", "other"));
            remote.fails();
            take("a");
            remote.isAvailable();
            remote.reconciles(charged -> Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "not yet")));
            time.passMillis(1_010);
            assertThat(remote.batches()).hasSize(1);
            assertThat(take("a").source()).isEqualTo(Source.LOCAL);
            assertThat(take("b").source()).isEqualTo(Source.OTHER);
        }

        @Test
        void nodesBeyondAThousandAreReconciledTogether() {
            remote.fails();
            for (int i = 0; i < 1_005; i++) {
                nodes.put("key-" + i, "node-" + i);
                take("key-" + i);
            }
            remote.isAvailable();
            time.pass(Duration.ofSeconds(5));
            assertThat(limiter.state().reconciled()).isEqualTo(1_005);
            assertThat(remote.batches()).extracting(List::size).containsOnlyOnce(5);
        }

        private Decision take(String key) {
            return limiter.tryAcquire(key).block(Duration.ZERO);
        }

        /** A store that maps each key to a node. */
        private final class PartitionedStore extends WithoutDeadline {

            PartitionedStore() {
                super(remote);
            }

            @Override
            public String node(List<Claim> claims) {
                return nodes.get(claims.get(0).key());
            }
        }
    }

    /** What throws while a queue runs must not stop it for ever. In real time. */
    @Nested
    class AfterErrors {

        private volatile boolean fails = true;
        private volatile boolean throwsOnCorrect;
        private volatile boolean throwsOnNode;
        private volatile boolean isForeign;

        private final WithoutDeadline store = new WithoutDeadline(LocalStore.bounded(1_000)) {
            @Override
            protected <T> Mono<T> around(Mono<T> operation) {
                return fails ? Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail")) : operation;
            }

            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                if (isForeign) {
                    throwsOnNode = true;
                    return Mono.just(Collections.nCopies(
                            corrections.size(), Corrected.of(Corrected.CorrectionOutcome.NOT_POSSIBLE)));
                }
                if (throwsOnCorrect) {
                    throw new NoClassDefFoundError("told to fail");
                }
                return super.correct(corrections);
            }

            @Override
            public String node(List<Claim> claims) {
                if (throwsOnNode) {
                    throw new IllegalStateException("told to fail");
                }
                return claims.isEmpty() ? "" : claims.get(0).key();
            }
        };

        @Test
        void aQueueGoesOnAfterASettingOfTheBreakerHasThrown() {
            boolean[] isBroken = {false};
            try (ResilientStore resilient = ResilientStore.builder(store)
                    .breaker(settings -> {
                        if (isBroken[0]) {
                            throw new IllegalStateException("broken");
                        }
                        return settings;
                    })
                    .build()) {
                RateLimiter limiter = on(resilient);
                isBroken[0] = true;
                limiter.tryAcquire("a").block(LONG);
                await().pollDelay(Duration.ofMillis(200)).until(() -> true);
                isBroken[0] = false;
                fails = false;
                awaitReconciled(limiter);
            }
        }

        @Test
        void aQueueGoesOnAfterALinkageError() {
            try (ResilientStore resilient =
                    ResilientStore.builder(store).maxInFlight(10).build()) {
                RateLimiter limiter = on(resilient);
                throwsOnCorrect = true;
                limiter.tryAcquire("a").block(LONG);
                await().pollDelay(Duration.ofMillis(200)).until(() -> true);
                throwsOnCorrect = false;
                fails = false;
                awaitReconciled(limiter);
                assertThat(resilient.failover().gates().to("a").freeCapacity()).isEqualTo(10);
            }
        }

        @Test
        void grantsAreChargedAlthoughTheStoreCouldNotNameTheNodeOfAForeignValue() {
            try (ResilientStore resilient = ResilientStore.builder(store).build()) {
                RateLimiter limiter = on(resilient);
                isForeign = true;
                limiter.tryAcquire("a").block(LONG);
                fails = false;
                await().atMost(LONG).until(() -> throwsOnNode);
                isForeign = false;
                throwsOnNode = false;
                awaitReconciled(limiter);
            }
        }

        @Test
        void aCostIsSettledAlthoughTheStoreCannotNameANode() {
            try (ResilientStore resilient = ResilientStore.builder(store).build()) {
                RateLimiter limiter = on(resilient);
                fails = false;
                Decision decision = limiter.tryAcquire("a").block(LONG);
                throwsOnNode = true;
                limiter.settle(decision, 5).block(LONG);
                throwsOnNode = false;
                await().atMost(LONG)
                        .untilAsserted(
                                () -> assertThat(limiter.peek("a").block(LONG).remaining())
                                        .isEqualTo(5));
            }
        }

        private static void awaitReconciled(RateLimiter limiter) {
            await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
        }

        private static RateLimiter on(ResilientStore resilient) {
            return RateLimiter.builder("api")
                    .store(resilient)
                    .limit(Limit.perHour(10))
                    .build();
        }
    }

    private static Set<String> keys(List<Reconciliation> batch) {
        return batch.stream().map(one -> one.claim().key()).collect(Collectors.toSet());
    }

    /** An unreachable store with one node per count. */
    private static final class UnreachableStore extends WithoutDeadline {

        private final AtomicInteger callsAfterTheEnd = new AtomicInteger();
        private volatile boolean hasEnded;

        UnreachableStore() {
            super(LocalStore.bounded(16));
        }

        @Override
        protected <T> Mono<T> around(Mono<T> operation) {
            return Mono.error(() -> {
                if (hasEnded) {
                    callsAfterTheEnd.incrementAndGet();
                }
                return new LimitStoreException(Kind.UNAVAILABLE, "gone");
            });
        }

        @Override
        public String node(List<Claim> claims) {
            return claims.get(0).identity();
        }

        @Override
        public Mono<Void> prepare(String node) {
            return around(Mono.empty());
        }

        @Override
        public StoreState state() {
            return StoreState.of(Source.REDIS);
        }
    }
}
