package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.NettyCustomizer;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelOutboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.util.internal.ThreadExecutorMap;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/** Decisions in a healthy cluster: the nodes and the number of commands, and all or nothing over several slots. */
class ClusterTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Limit LIMIT = Limit.perHour(1_000);
    private static final Limit BAN = Limit.ban(Duration.ofHours(1), 3, Duration.ofMinutes(10));

    private static RedisClusterForTests cluster;

    private RedisClusterClient client;
    private RedisStore store;

    @BeforeAll
    static void start() {
        cluster = RedisClusterForTests.shared();
    }

    @BeforeEach
    void connect() {
        client = RedisClusterClient.create(cluster.uris().subList(0, 1));
        store = RedisStore.builder(client)
                .namespace("t" + System.nanoTime())
                .longestPeek(LONG)
                .build();
    }

    @AfterEach
    void disconnect() {
        store.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    private RateLimiter limiter(Limit... limits) {
        return Unprotected.limiter(store, limits);
    }

    // How often Redis is asked

    @Test
    void eachSlotOfADecisionIsOneCommand() {
        Limit[] three = {Limit.perSecond(100), Limit.perMinute(500), Limit.perDay(10_000)};
        assertThat(commandsFor(Charge.of("a", three))).as("limits of one key").isEqualTo(1);
        Charge[] group = IntStream.range(0, 8)
                .mapToObj(i -> Charge.of("key-" + i).group("tenant"))
                .toArray(Charge[]::new);
        assertThat(commandsFor(group)).as("keys of one group").isEqualTo(1);
        assertThat(commandsFor(Charge.of("a"), Charge.of("b"), Charge.of("c")))
                .as("keys of three slots")
                .isEqualTo(3);
        assertThat(commandsFor(Charge.of("a", LIMIT, BAN), Charge.of("b", LIMIT, BAN, Limit.pausable())))
                .as("keys of two slots with bans")
                .isEqualTo(2);
    }

    /** The first slot that denies ends the decision: the others are peeked at. */
    @Test
    void aDenialCountsForTheBanOfItsOwnSlotOnly() {
        RateLimiter limiter = limiter(LIMIT);
        Charge free = Charge.of("a", LIMIT, BAN);
        Charge full = Charge.of("b", Limit.perHour(1), BAN);
        for (int i = 0; i < 4; i++) {
            limiter.tryAcquire(free, full).block(LONG);
        }
        assertThat(limiter.peek(free).block(LONG).isAllowed()).isTrue();
        assertThat(limiter.peek(full).block(LONG).violated()).containsExactly(Limit.perHour(1), BAN);
        limiter.ban(free, Duration.ofMinutes(1)).block(LONG);
        assertThat(limiter.tryAcquire(full, free).block(LONG).violated()).contains(BAN);
        limiter.pardon(free, full).block(LONG);
        assertThat(limiter.peek(free, full).block(LONG).violated()).containsExactly(Limit.perHour(1));
    }

    private long commandsFor(Charge... charges) {
        RateLimiter limiter = limiter(LIMIT);
        limiter.tryAcquire(charges).block(LONG);
        long before = calls();
        limiter.tryAcquire(charges).block(LONG);
        return calls() - before;
    }

    @Test
    void concurrentDecisionsInSeveralSlotsOfANodeAreOneCommandPerSlotAndOneWrite() {
        AtomicInteger writes = new AtomicInteger();
        ClientResources resources = counting(writes);
        RedisClusterClient counted =
                RedisClusterClient.create(resources, cluster.uris().get(0));
        RedisStore oneAtATime = RedisStore.builder(counted)
                .namespace("t" + System.nanoTime())
                .batching(128, 1, 1_000)
                .deliverOn(Schedulers.immediate())
                .build();
        RateLimiter limiter = Unprotected.limiter(oneAtATime, LIMIT);
        RedisNode node = cluster.nodes().get(1);
        List<String> keys = Stream.iterate(0, i -> i + 1)
                .map(i -> "key-" + i)
                .filter(key -> ownerOf(key) == node)
                .limit(3)
                .toList();
        EventLoop loop = limiter.tryAcquire(keys.get(0))
                .mapNotNull(decision -> (EventLoop) ThreadExecutorMap.currentExecutor())
                .block(LONG);
        long before = calls(node);
        int writesBefore = writes.get();
        List<Mono<Decision>> asked = new ArrayList<>();
        loop.submit(() -> {
                    for (int i = 0; i < 300; i++) {
                        Mono<Decision> one = limiter.tryAcquire(keys.get(i % 3)).cache();
                        one.subscribe();
                        asked.add(one);
                    }
                })
                .syncUninterruptibly();
        assertThat(Flux.merge(asked).collectList().block(LONG)).hasSize(300).allMatch(Decision::isAllowed);
        assertThat(calls(node) - before).isEqualTo(3);
        assertThat(writes.get() - writesBefore).isEqualTo(1);
        oneAtATime.closeLater().block(LONG);
        counted.shutdown(0, 1, TimeUnit.SECONDS);
        resources.shutdown(0, 1, TimeUnit.SECONDS).syncUninterruptibly();
    }

    /** Returns resources that count how often something is written to a socket. */
    private static ClientResources counting(AtomicInteger writes) {
        ChannelHandler counter = new CountedFlushes(writes);
        return ClientResources.builder()
                .nettyCustomizer(new NettyCustomizer() {
                    @Override
                    public void afterChannelInitialized(Channel channel) {
                        channel.pipeline().addFirst(counter);
                    }
                })
                .build();
    }

    @ChannelHandler.Sharable
    private static final class CountedFlushes extends ChannelOutboundHandlerAdapter {

        private final AtomicInteger number;

        CountedFlushes(AtomicInteger number) {
            this.number = number;
        }

        @Override
        public void flush(ChannelHandlerContext context) {
            number.incrementAndGet();
            context.flush();
        }
    }

    @Test
    void aHangingNodeDoesNotDelayOtherNodes() {
        RateLimiter limiter = limiter(LIMIT);
        warmUp(limiter);
        RedisNode still = cluster.nodes().get(0);
        still.pause();
        try {
            List<Decision> others = Flux.range(0, 200)
                    .map(i -> "key-" + i)
                    .filter(key -> cluster.nodes().get(0) != ownerOf(key))
                    .flatMap(limiter::tryAcquire)
                    .collectList()
                    .block(LONG);
            assertThat(others).hasSizeGreaterThan(50).allMatch(Decision::isAllowed);
        } finally {
            still.resume();
        }
    }

    @Test
    void resultsOfSeveralSlotsAreDeliveredOnTheScheduler() {
        RateLimiter limiter = limiter(LIMIT);
        Charge[] charges = {Charge.of("a"), Charge.of("b"), Charge.of("c")};
        Set<String> threads = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 300; i++) {
            Decision taken = limiter.tryAcquire(charges).block(LONG);
            for (Mono<?> call : List.of(limiter.peek(charges), limiter.refund(taken), limiter.reset(charges))) {
                call.doOnTerminate(() ->
                                threads.add(Thread.currentThread().getName().replaceAll("-.*", "")))
                        .block(LONG);
            }
        }
        assertThat(threads).containsExactly("parallel");
    }

    // All or nothing

    @Test
    void aDenialByALaterSlotRefundsEarlierSlots() {
        Limit small = Limit.perHour(3).named("small");
        RateLimiter limiter = limiter();
        String[] keys = inAscendingSlots();
        Charge[] charges = {Charge.of(keys[0], LIMIT), Charge.of(keys[1], LIMIT), Charge.of(keys[2], small)};
        for (int i = 0; i < 3; i++) {
            assertThat(limiter.tryAcquire(charges).block(LONG).isAllowed()).isTrue();
        }
        Decision denied = limiter.tryAcquire(charges).block(LONG);
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.violated()).containsExactly(small);
        assertThat(denied.limits()).extracting(Decision.Usage::used).containsExactly(3L, 3L, 3L);
        await().atMost(LONG)
                .untilAsserted(
                        () -> assertThat(limiter.peek(charges).block(LONG).limits())
                                .extracting(Decision.Usage::used)
                                .containsExactly(3L, 3L, 3L));
    }

    @Test
    void aDenialHasTheViolatedLimitsOfAllSlots() {
        Limit minute = Limit.perMinute(1).named("minute");
        Limit day = Limit.perDay(1).named("day");
        RateLimiter limiter = limiter();
        String[] keys = inAscendingSlots();
        Charge[] charges = {Charge.of(keys[0], minute), Charge.of(keys[1], LIMIT), Charge.of(keys[2], day)};
        limiter.tryAcquire(charges).block(LONG);
        long before = calls();
        Decision denied = limiter.tryAcquire(charges).block(LONG);
        assertThat(calls() - before).as("one command for each slot").isEqualTo(3);
        assertThat(denied.violated()).containsExactly(minute, day);
        assertThat(denied.retryAfter())
                .hasValueSatisfying(wait -> assertThat(wait).isGreaterThan(Duration.ofHours(23)));
        assertThat(denied.limits()).hasSize(3);
    }

    @Test
    void aDenialIsEmittedOnTheDeliverySchedulerAlthoughAnotherNodeHangs() {
        Scheduler here = Schedulers.newSingle("here");
        RedisStore impatient = RedisStore.builder(client)
                .namespace("t" + System.nanoTime())
                .deliverOn(here)
                .longestPeek(Duration.ofMillis(1))
                .build();
        RateLimiter limiter = Unprotected.limiter(impatient);
        Limit one = Limit.perHour(1).named("one");
        Charge[] charges = {Charge.of(keyOf(0), one), Charge.of(keyOf(2), LIMIT)};
        limiter.tryAcquire(charges).block(LONG);
        RedisNode still = cluster.nodes().get(2);
        still.pause();
        try {
            AtomicReference<String> thread = new AtomicReference<>();
            Decision denied = limiter.tryAcquire(charges)
                    .doOnNext(decision -> thread.set(Thread.currentThread().getName()))
                    .block(LONG);
            assertThat(denied.violated()).containsExactly(one);
            assertThat(denied.limits()).hasSize(1);
            assertThat(thread.get()).startsWith("here-");
        } finally {
            still.resume();
            impatient.closeLater().block(LONG);
            here.dispose();
        }
    }

    @Test
    void anErrorOfALaterSlotRefundsEarlierSlots() {
        RateLimiter limiter = limiter(LIMIT);
        Charge[] charges = Stream.of(inAscendingSlots()).map(Charge::of).toArray(Charge[]::new);
        String foreign = overlay(limiter, charges[2]);
        assertThatThrownBy(() -> limiter.tryAcquire(charges).block(LONG))
                .is(kind(Kind.FOREIGN_VALUE))
                .hasMessageContaining(foreign);
        await().atMost(LONG).until(() -> used(limiter, charges[0]) == 0 && used(limiter, charges[1]) == 0);
    }

    @Test
    void aDenialIsEmittedAlthoughAnotherSlotCannotBePeeked() {
        RateLimiter limiter = limiter(Limit.perHour(1));
        Charge[] charges = Stream.of(inAscendingSlots()).map(Charge::of).toArray(Charge[]::new);
        limiter.tryAcquire(charges[0]).block(LONG);
        overlay(limiter, charges[2]);
        Decision denied = limiter.tryAcquire(charges).block(LONG);
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.limits()).extracting(Decision.Usage::used).containsExactly(1L, 0L);
    }

    @Test
    void oneErrorIsSignalledIfSeveralSlotsFail() {
        RateLimiter limiter = limiter(LIMIT);
        Charge[] charges = Stream.of(inAscendingSlots()).map(Charge::of).toArray(Charge[]::new);
        limiter.tryAcquire(charges[1].permits(3)).block(LONG);
        overlay(limiter, charges[0]);
        overlay(limiter, charges[2]);
        assertThatThrownBy(() -> limiter.refund(charges).block(LONG)).is(kind(Kind.FOREIGN_VALUE));
        assertThat(used(limiter, charges[1])).as("given back all the same").isEqualTo(2);
    }

    /** Where denied requests count, what was taken before the denial counts as well. */
    @Test
    void countedDenialsAreNotRefundedInEarlierSlots() {
        Limit counting = LIMIT.named("counting").countingDenied();
        Limit one = Limit.perHour(1).named("one");
        RateLimiter limiter = limiter();
        String[] keys = inAscendingSlots();
        Charge first = Charge.of(keys[0], counting, LIMIT.named("plain"));
        Charge last = Charge.of(keys[1], one);
        limiter.tryAcquire(last).block(LONG);
        Decision denied = limiter.tryAcquire(first, last).block(LONG);
        assertThat(denied.limits()).extracting(Decision.Usage::used).containsExactly(1L, 0L, 1L);
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(limiter.peek(first).block(LONG).limits())
                        .extracting(Decision.Usage::used)
                        .containsExactly(1L, 0L));
    }

    @Test
    void eachSetOfNodesIsAPart() {
        RateLimiter limiter = limiter(LIMIT);
        Charge[] charges = {
            Charge.of(keyOf(2)), Charge.of(keyOf(0)), Charge.of(keyOf(2) + "x").group(keyOf(2))
        };
        List<Claim> claims = DecidedClaims.of(limiter.peek(charges).block(LONG));
        String first = "127.0.0.1:" + cluster.nodes().get(2).port();
        String second = "127.0.0.1:" + cluster.nodes().get(0).port();
        assertThat(store.node(claims.subList(0, 1))).isEqualTo(first);
        assertThat(store.node(List.of(claims.get(0), claims.get(2)))).isEqualTo(first);
        assertThat(store.node(claims))
                .isEqualTo(Stream.of(first, second).sorted().collect(Collectors.joining(" and ")))
                .isEqualTo(store.node(List.of(claims.get(1), claims.get(0))));
        assertThat(store.node(List.of())).isEmpty();
        RedisStore unprepared = RedisStore.create(client);
        assertThat(unprepared.node(claims)).as("before the topology is known").isEmpty();
        unprepared.close();
    }

    /** Puts something else under the name of a count, and returns the name. */
    private String overlay(RateLimiter limiter, Charge charge) {
        String pattern = store.toString().replace("RedisStore[", "").replace("*]", "*{" + charge.key() + "}");
        RedisNode node = ownerOf(charge.key());
        // A slow reply is replaced by a local decision.
        await().atMost(LONG).until(() -> {
            limiter.tryAcquire(charge).block(LONG);
            return !node.commands().keys(pattern).isEmpty();
        });
        String name = node.commands().keys(pattern).get(0);
        node.commands().set(name, "a foreign value");
        return name;
    }

    private static long used(RateLimiter limiter, Charge charge) {
        return limiter.peek(charge).block(LONG).limits().get(0).used();
    }

    /** A key that lies on this node. */
    private static String keyOf(int node) {
        return Stream.iterate(0, i -> i + 1)
                .map(i -> "on-" + i)
                .filter(key -> ownerOf(key) == cluster.nodes().get(node))
                .findFirst()
                .orElseThrow();
    }

    @ParameterizedTest
    @CsvSource({"6000, false", "3000, true"})
    void ofManyDecisionsOverSeveralSlotsNoPermitIsLostOrDoubled(int decisions, boolean counter) {
        assertNoPermitIsLostOrDoubled(decisions, counter);
    }

    @Thorough
    @ParameterizedTest
    @CsvSource({"100000, false", "20000, true"})
    void ofAHundredThousandDecisionsOverSeveralSlotsNoPermitIsLostOrDoubled(int decisions, boolean counter) {
        assertNoPermitIsLostOrDoubled(decisions, counter);
    }

    private void assertNoPermitIsLostOrDoubled(int decisions, boolean counter) {
        long permits = decisions / 150;
        Limit few = counter ? Limit.perHour(permits).counter() : Limit.perHour(permits);
        RateLimiter limiter = limiter(few);
        int keys = 60;
        AtomicLong[] granted = Stream.generate(AtomicLong::new).limit(keys).toArray(AtomicLong[]::new);
        Random random = new Random(42);
        Flux.range(0, decisions)
                .map(i -> random.ints(0, keys).distinct().limit(1 + i % 3).toArray())
                .flatMap(
                        some -> limiter.tryAcquire(IntStream.of(some)
                                        .mapToObj(key -> Charge.of("key-" + key, 1 + key % 2))
                                        .toArray(Charge[]::new))
                                .doOnNext(decision -> {
                                    if (decision.isAllowed()) {
                                        IntStream.of(some).forEach(key -> granted[key].addAndGet(1 + key % 2));
                                    }
                                }),
                        256)
                .then()
                .block(LONG.multipliedBy(3));
        assertThat(granted).allSatisfy(taken -> assertThat(taken.get()).isLessThanOrEqualTo(permits));
        await().atMost(LONG).untilAsserted(() -> {
            for (int key = 0; key < keys; key++) {
                assertThat(limiter.peek("key-" + key)
                                .block(LONG)
                                .limits()
                                .get(0)
                                .used())
                        .as("key " + key)
                        .isEqualTo(granted[key].get());
            }
        });
        assertThat(Stream.of(granted).mapToLong(AtomicLong::get).sum()).isGreaterThan(keys * permits * 9 / 10);
    }

    // When the cluster changes

    @Test
    void aNodeWithoutTheScriptsLoadsThem() {
        RateLimiter limiter = limiter(LIMIT);
        warmUp(limiter);
        cluster.nodes().forEach(node -> node.commands().scriptFlush());
        List<Decision> decisions = Flux.range(0, 200)
                .flatMap(i -> limiter.tryAcquire("key-" + i))
                .collectList()
                .block(LONG);
        assertThat(decisions).allMatch(Decision::isAllowed);
    }

    @Test
    void aSlotIsMovedWhileItIsDecidedOnAndNotOnePermitTooManyIsGranted() {
        String key = "moving";
        int slot = SlotHash.getSlot(key);
        RateLimiter limiter = limiter(Limit.perHour(5_000));
        limiter.tryAcquire(key).block(LONG);
        AtomicBoolean over = new AtomicBoolean();
        AtomicInteger granted = new AtomicInteger(1);
        Mono<Void> load = Flux.generate(sink -> {
                    if (over.get()) {
                        sink.complete();
                    } else {
                        sink.next(1);
                    }
                })
                .flatMap(
                        i -> limiter.tryAcquire(key).doOnNext(decision -> {
                            if (decision.isAllowed()) {
                                granted.incrementAndGet();
                            }
                        }),
                        32)
                .then()
                .cache();
        load.subscribe();
        RedisNode source = cluster.primaryOf(slot);
        RedisNode target = cluster.nodes().stream()
                .filter(node -> node != source)
                .findFirst()
                .orElseThrow();
        for (int i = 0; i < 3; i++) {
            AtomicInteger then = new AtomicInteger();
            cluster.migrateSlot(slot, i % 2 == 0 ? target : source, () -> {
                then.set(granted.get());
                await().atMost(LONG).until(() -> granted.get() > then.get() + 50 || granted.get() == 5_000);
            });
        }
        await().atMost(LONG).until(() -> granted.get() >= 5_000);
        over.set(true);
        load.block(LONG);
        assertThat(granted).hasValue(5_000);
        assertThat(limiter.peek(key).block(LONG).limits().get(0).used()).isEqualTo(5_000);
    }

    @Test
    void countsThatComeToBeWhileTheirSlotIsMovedAreDecidedOn() {
        RateLimiter limiter = limiter(LIMIT);
        String tag = "brand-new";
        int slot = SlotHash.getSlot(tag);
        RedisNode source = cluster.primaryOf(slot);
        RedisNode target = cluster.nodes().stream()
                .filter(node -> node != source)
                .findFirst()
                .orElseThrow();
        limiter.tryAcquire(Charge.of("first").group(tag)).block(LONG);
        cluster.beginMigration(slot, target);
        // Some of one command are here, and some are there.
        List<Decision> decisions = Flux.range(0, 100)
                .flatMap(
                        i -> limiter.tryAcquire(Charge.of(i % 10 == 0 ? "first" : "new-" + i % 10)
                                .group(tag)),
                        100)
                .collectList()
                .block(LONG);
        assertThat(decisions).hasSize(100).allMatch(Decision::isAllowed);
        cluster.moveKeys(slot, target);
        cluster.endMigration(slot, target);
        Map<String, Long> used = new HashMap<>();
        for (int i = 0; i < 10; i++) {
            String key = i == 0 ? "first" : "new-" + i;
            used.put(
                    key,
                    limiter.peek(Charge.of(key).group(tag))
                            .block(LONG)
                            .limits()
                            .get(0)
                            .used());
        }
        assertThat(used)
                .hasSize(10)
                .allSatisfy((key, uses) -> assertThat(uses).isEqualTo(key.equals("first") ? 11 : 10));
    }

    private void warmUp(RateLimiter limiter) {
        List<Decision> decisions = Flux.range(0, 200)
                .flatMap(i -> limiter.tryAcquire("key-" + i))
                .collectList()
                .block(LONG);
        assertThat(decisions).allMatch(decision -> decision.isAllowed() && decision.source() == Source.REDIS);
    }

    /** By the place of their slots. */
    private static RedisNode ownerOf(String key) {
        return cluster.nodes().get(SlotHash.getSlot(key) * 3 / SlotHash.SLOT_COUNT);
    }

    private static String[] inAscendingSlots() {
        return Stream.of("a", "b", "c")
                .map(key -> key + System.nanoTime())
                .sorted((one, other) -> Integer.compare(SlotHash.getSlot(one), SlotHash.getSlot(other)))
                .toArray(String[]::new);
    }

    private static long calls() {
        return cluster.nodes().stream().mapToLong(ClusterTest::calls).sum();
    }

    private static long calls(RedisNode node) {
        return Keyspace.callsOf("evalsha", node.commands());
    }
}
