package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.ClaimForTests;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Slots that are migrated, nodes that give no address, and nodes that do not answer or do not agree. */
class ClusterTopologyTest {

    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Limit LIMIT = Limit.perHour(1_000);

    private @Nullable RedisClusterForTests cluster;
    private @Nullable RedisClusterClient client;
    private @Nullable RedisStore store;

    /** In the cluster that all tests share. */
    private RateLimiter limiter() {
        cluster = RedisClusterForTests.shared();
        return limiter(cluster);
    }

    /** On a store that asks these nodes for the others. */
    private RateLimiter limiter(List<RedisURI> nodes) {
        client = RedisClusterClient.create(nodes);
        store = RedisStore.builder(client).nodes(nodes).build();
        return Unprotected.limiter(store, LIMIT);
    }

    private RateLimiter limiter(RedisClusterForTests nodes) {
        client = RedisClusterClient.create(nodes.uris().subList(0, 1));
        store = RedisStore.create(client);
        return Unprotected.limiter(store, LIMIT);
    }

    /** How the nodes report their addresses. */
    private enum Endpoints {
        /** As they are configured to, from Redis 7.0 on. */
        CONFIGURED,

        /** As proxies make of it that stand in front of them, with any Redis. */
        CHANGED;

        /** The node in a reply to CLUSTER SLOTS, with its metadata from Redis 7.0 on. */
        private static final Pattern NODE = Pattern.compile(
                "\\*[34]\r\n\\$9\r\n127\\.0\\.0\\.1\r\n:(\\d+)\r\n" + "(\\$40\r\n[0-9a-f]{40}\r\n)(?:[*%]0\r\n)?");

        private static final Pattern REDIRECT = Pattern.compile("^-(MOVED|ASK) (\\d+) 127\\.0\\.0\\.1:(\\d+)");

        static Stream<Endpoints> all() {
            String version = RedisBinary.first().name();
            return version.contains(" 5.") || version.contains(" 6.") ? Stream.of(CHANGED) : Stream.of(values());
        }

        /** Returns a reply that has the port of a proxy for each node, and a host name that is not known. */
        static String withoutHostName(String reply, UnaryOperator<String> proxy) {
            String slots = NODE.matcher(reply)
                    .replaceAll(node -> "*4\r\n\\$1\r\n?\r\n:" + proxy.apply(node.group(1)) + "\r\n\\" + node.group(2)
                            + "*2\r\n\\$2\r\nip\r\n\\$9\r\n127.0.0.1\r\n");
            return redirect(slots, "?:", proxy);
        }

        /** Returns a reply that has the port of a proxy for each node, and no host. */
        static String withoutHost(String reply, UnaryOperator<String> proxy) {
            String slots = NODE.matcher(reply)
                    .replaceAll(node ->
                            "*4\r\n\\$-1\r\n:" + proxy.apply(node.group(1)) + "\r\n\\" + node.group(2) + "*0\r\n");
            return redirect(slots, ":", proxy);
        }

        private static String redirect(String reply, String host, UnaryOperator<String> proxy) {
            return REDIRECT.matcher(reply)
                    .replaceAll(to -> "-" + to.group(1) + " " + to.group(2) + " " + host + proxy.apply(to.group(3)));
        }
    }

    /** Has all nodes report their addresses in another way, and does something with the URI of one of them. */
    private void with(
            Endpoints endpoints,
            String type,
            BiFunction<String, UnaryOperator<String>, String> changed,
            Consumer<List<RedisURI>> action) {
        if (endpoints == Endpoints.CONFIGURED) {
            with(
                    "cluster-preferred-endpoint-type",
                    type,
                    () -> action.accept(cluster.uris().subList(0, 1)));
            return;
        }
        Map<String, CommandProxy> proxies = new LinkedHashMap<>();
        try {
            cluster.nodes().forEach(node -> proxies.put(String.valueOf(node.port()), new CommandProxy(node.port())));
            UnaryOperator<String> proxyOf =
                    port -> String.valueOf(proxies.get(port).port());
            proxies.values().forEach(proxy -> proxy.changeReplies(reply -> changed.apply(reply, proxyOf)));
            int first = proxies.values().iterator().next().port();
            action.accept(List.of(RedisURI.create("127.0.0.1", first)));
        } finally {
            proxies.values().forEach(CommandProxy::close);
        }
    }

    @AfterEach
    void close() {
        if (store != null) {
            store.close();
        }
        if (client != null) {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    /** Sets a parameter of all nodes, does something, and resets the parameter. */
    private void with(String parameter, String value, Runnable action) {
        Map<RedisNode, String> before = new HashMap<>();
        for (RedisNode node : cluster.nodes()) {
            before.put(node, node.commands().configGet(parameter).get(parameter));
        }
        try {
            cluster.nodes().forEach(node -> node.commands().configSet(parameter, value));
            action.run();
        } finally {
            before.forEach((node, old) -> node.commands().configSet(parameter, old));
        }
    }

    private void whilePaused(RedisNode node, Runnable action) {
        node.pause();
        try {
            action.run();
        } finally {
            node.resume();
        }
    }

    @ParameterizedTest
    @MethodSource("endpoints")
    void aNodeWithAnUnknownHostNameIsFoundByItsAddress(Endpoints endpoints) {
        cluster = RedisClusterForTests.shared();
        with(endpoints, "hostname", Endpoints::withoutHostName, nodes -> {
            RateLimiter limiter = limiter(nodes);
            assertThat(decisions(limiter)).isEqualTo(200);
            // If the connections to a node break, another node is asked for the slots.
            long before = slotQueries(1) + slotQueries(2);
            await().atMost(LONG).until(() -> {
                cluster.nodes().get(0).commands().clientKill(KillArgs.Builder.typeNormal());
                decisions(limiter);
                return slotQueries(1) + slotQueries(2) > before;
            });
            await().atMost(LONG).until(() -> decisions(limiter) == 200);
        });
    }

    /** A node that has lost its majority does so, and another node may own its slots by then. */
    @Test
    void ifANodeReportsThatItsClusterIsDownTheOwnersAreSearchedAgain() {
        cluster = RedisClusterForTests.shared();
        String port = String.valueOf(cluster.nodes().get(0).port());
        try (CommandProxy proxy = new CommandProxy(cluster.nodes().get(0).port())) {
            String ofProxy = String.valueOf(proxy.port());
            proxy.changeReplies(reply -> Endpoints.withoutHost(reply, known -> known.equals(port) ? ofProxy : known));
            RateLimiter limiter = limiter(List.of(RedisURI.create("127.0.0.1", proxy.port())));
            assertThat(decisions(limiter)).isEqualTo(200);
            proxy.answer(command -> command.equals("EVALSHA") ? "CLUSTERDOWN The cluster is down" : CommandProxy.PASS);
            long before = slotQueries(0) + slotQueries(1) + slotQueries(2);
            await().atMost(LONG).until(() -> {
                decisions(limiter);
                return slotQueries(0) + slotQueries(1) + slotQueries(2) > before;
            });
            proxy.answer(command -> CommandProxy.PASS);
            await().atMost(LONG).until(() -> decisions(limiter) == 200);
        }
    }

    /** The slot of the key that a node is prepared with may have another owner by then. */
    @Test
    void preparingANodeFollowsRedirects() {
        assertThat(decisions(limiter())).isEqualTo(200);
        String firstTag = "0";
        int slot = SlotHash.getSlot(firstTag);
        RedisNode owner = cluster.primaryOf(slot);
        String name = "127.0.0.1:" + owner.uri().getPort();
        cluster.migrateSlot(
                slot,
                anotherThan(owner),
                () -> assertThatCode(() -> store.prepare(name).block(LONG))
                        .as("ASK")
                        .doesNotThrowAnyException());
        assertThatCode(() -> store.prepare(name).block(LONG)).as("MOVED").doesNotThrowAnyException();
    }

    private long slotQueries(int node) {
        // Before Redis 7.0, together with other commands.
        Matcher asked = Pattern.compile("cmdstat_cluster(?:\\|slots)?:calls=(\\d+)")
                .matcher(cluster.nodes().get(node).commands().info("commandstats"));
        return asked.find() ? Long.parseLong(asked.group(1)) : 0;
    }

    private static Stream<Endpoints> endpoints() {
        return Endpoints.all();
    }

    /** As behind a balancer: the others are where the one is that was asked, and only their ports are told. */
    @ParameterizedTest
    @MethodSource("endpoints")
    void nodesWithoutAHostUseTheHostOfTheQueriedNode(Endpoints endpoints) {
        cluster = RedisClusterForTests.shared();
        with(endpoints, "unknown-endpoint", Endpoints::withoutHost, nodes -> {
            RateLimiter limiter = limiter(nodes);
            assertThat(decisions(limiter)).isEqualTo(200);
            int slot = SlotHash.getSlot("key-1");
            cluster.migrateSlot(
                    slot,
                    anotherThan(cluster.primaryOf(slot)),
                    () -> assertThat(used(limiter, Charge.of("key-1")))
                            .as("ASK")
                            .isEqualTo(1));
            assertThat(limiter.tryAcquire("key-1").block(LONG).limits().get(0).used())
                    .as("MOVED")
                    .isEqualTo(2);
        });
    }

    @Thorough
    @Test
    void aDecisionThatWaitsForAReplacedNodeFailsAsRetryable() {
        try (RedisClusterForTests replicated = RedisClusterForTests.start(3, 1)) {
            RateLimiter limiter = limiter(replicated);
            assertThat(decisions(limiter)).isEqualTo(200);
            replicated.nodes().get(0).pause();
            Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
            await().atMost(LONG).pollInterval(Duration.ofMillis(50)).until(() -> {
                AtomicInteger allowed = new AtomicInteger();
                for (int i = 0; i < 200; i++) {
                    limiter.tryAcquire("key-" + i).subscribe(decision -> allowed.incrementAndGet(), errors::add);
                }
                await().pollDelay(Duration.ZERO)
                        .during(Duration.ofMillis(300))
                        .atMost(LONG)
                        .until(() -> true);
                return allowed.get() == 200;
            });
            assertThat(errors)
                    .isNotEmpty()
                    .allSatisfy(error -> assertThat(error)
                            .hasMessageNotContaining("the store is closed")
                            .isInstanceOfSatisfying(
                                    LimitStoreException.class,
                                    known -> assertThat(known.kind().isOutage()).isTrue()));
            close();
        }
    }

    @Test
    void aHangingConfiguredNodeIsNamedInTheError() {
        cluster = RedisClusterForTests.shared();
        List<RedisURI> nodes = cluster.uris().subList(0, 1);
        client = RedisClusterClient.create(nodes);
        store = RedisStore.builder(client).nodes(nodes).build();
        whilePaused(
                cluster.nodes().get(0),
                () -> assertThatThrownBy(() -> store.prepare("").block(LONG))
                        .is(kind(Kind.UNREACHABLE))
                        .hasMessage("Redis is unavailable: " + nodes.get(0).getHost() + ":"
                                + nodes.get(0).getPort()
                                + " did not report the slots of the cluster within 1 s"));
    }

    /** What was handed over for it would be held up as long. */
    @Test
    void preparingForARemovedNodeWaitsForNoNodeThatHangs() {
        assertThat(decisions(limiter())).isEqualTo(200);
        whilePaused(cluster.nodes().get(1), () -> store.prepare("127.0.0.1:1").block(LONG.dividedBy(2)));
    }

    private static int decisions(RateLimiter limiter) {
        List<Decision> decisions = Flux.range(0, 200)
                .flatMap(i -> limiter.tryAcquire("key-" + i).onErrorResume(e -> Mono.empty()))
                .collectList()
                .block(LONG);
        return decisions.size();
    }

    @Test
    void refundsAndResetsWorkWhileASlotIsOnTwoNodes() {
        RateLimiter limiter = limiter();
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
        RedisNode target = anotherThan(source);
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
        refundCharged(second);
        assertThat(used(limiter, charges[0])).isEqualTo(2);
        assertThat(used(limiter, charges[1])).isEqualTo(2);

        Decision last = limiter.tryAcquire(charges[0]).block(LONG);
        refundCharged(last);
        assertThat(used(limiter, charges[0])).isEqualTo(2);
    }

    private void refundCharged(Decision decision) {
        long tomorrow = decision.at().plus(Duration.ofDays(1)).toEpochMilli();
        store.correct(((StoreDecision) decision)
                        .usages().stream()
                                .map(usage -> new RefundCharged(usage.claim(), usage.life(), tomorrow))
                                .toList())
                .block(LONG);
    }

    /** A slot is moved key by key, and Redis refuses a script that asks for keys on both nodes. */
    @Test
    void aResetHoldsWhileTheCountIsOnOneNodeAndItsMarkOnTheOther() {
        RateLimiter limiter = limiter();
        String tag = "torn";
        int slot = SlotHash.getSlot(tag);
        // Of before a reset and of after it, all is in the same window.
        Limit limit = Limit.perDay(10).counter().alignedToClock();
        Charge countGoes = Charge.of("count-goes", limit).group(tag);
        Charge markGoes = Charge.of("mark-goes", limit).group(tag);
        Charge neverReset = Charge.of("never-reset", limit).group(tag);
        Decision before = limiter.tryAcquire(countGoes, markGoes, neverReset).block(LONG);
        limiter.reset(countGoes, markGoes).block(LONG);
        Decision after = limiter.tryAcquire(countGoes, markGoes, neverReset).block(LONG);
        limiter.tryAcquire(countGoes, markGoes, neverReset).block(LONG);
        moveSome(slot, key -> key.contains("count-goes") && !key.endsWith("!"));
        moveSome(slot, key -> key.contains("mark-goes") && key.endsWith("!"));
        limiter.refund(before).block(LONG);
        assertThat(used(limiter, countGoes, markGoes, neverReset)).containsExactly(2L, 2L, 2L);
        refundCharged(before);
        assertThat(used(limiter, countGoes, markGoes, neverReset)).containsExactly(2L, 2L, 1L);
        limiter.refund(after).block(LONG);
        assertThat(used(limiter, countGoes, markGoes, neverReset)).containsExactly(1L, 1L, 0L);
        limiter.refund(countGoes, markGoes).block(LONG);
        assertThat(used(limiter, countGoes, markGoes))
                .as("whenever they were taken")
                .containsExactly(0L, 0L);
    }

    @Test
    void aDecisionOverASlotOnTwoNodesFailsAfterAFewRetries() {
        RateLimiter limiter = limiter();
        int slot = SlotHash.getSlot("torn");
        Charge[] charges = {Charge.of("one").group("torn"), Charge.of("two").group("torn")};
        limiter.tryAcquire(charges).block(LONG);
        moveSome(slot, key -> key.contains("one"));
        assertThatThrownBy(() -> limiter.tryAcquire(charges).block(LONG))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageStartingWith("Redis cannot decide: TRYAGAIN ");
        assertThat(used(limiter, charges[0])).isEqualTo(1);
        assertThat(used(limiter, charges[1])).isEqualTo(1);
        cluster.moveKeys(slot, anotherThan(cluster.primaryOf(slot)));
        assertThat(limiter.tryAcquire(charges).block(LONG).isAllowed()).isTrue();
    }

    @Test
    void holdsInASlotOnTwoNodesAreRenewedAndReleased() {
        RateLimiter limiter = limiter();
        Limit two = Limit.concurrent(2);
        int slot = SlotHash.getSlot("torn-holds");
        Charge[] charges = {
            Charge.of("one", two).group("torn-holds"), Charge.of("two", two).group("torn-holds")
        };
        Decision decision = limiter.tryAcquire(charges).block(LONG);
        moveSome(slot, key -> key.contains("one"));
        assertThat(store.hold(DecidedClaims.of(decision), HoldAction.RENEW).block(LONG))
                .extracting(HoldRenewal::outcome)
                .containsExactly(HoldRenewal.RenewalOutcome.RENEWED, HoldRenewal.RenewalOutcome.RENEWED);
        limiter.release(decision).block(LONG);
        assertThat(used(limiter, charges[0])).isZero();
        assertThat(used(limiter, charges[1])).isZero();
    }

    @Test
    void aSlotWithoutOwnerHasNoPart() {
        RateLimiter limiter = limiter();
        int slot = SlotHash.getSlot("unowned");
        with("cluster-require-full-coverage", "no", () -> {
            // Until no node knows an owner: nodes tell each other.
            await().atMost(LONG)
                    .untilAsserted(() -> assertThat(cluster.nodes())
                            .allSatisfy(node -> assertThatThrownBy(
                                            () -> node.commands().clusterDelSlots(slot))
                                    .hasMessageContaining("already unassigned")));
            assertThatThrownBy(() -> limiter.tryAcquire("unowned").block(LONG))
                    .is(kind(Kind.UNAVAILABLE))
                    .hasMessage("Redis cannot decide: no node of the cluster owns slot " + slot);
            Claim unowned = ClaimForTests.of("unowned", LIMIT);
            Claim known = ClaimForTests.of("key-1", LIMIT);
            assertThat(store.node(List.of(known))).isNotEmpty();
            assertThat(store.node(List.of(unowned))).isEmpty();
            assertThat(store.node(List.of(known, unowned))).isEmpty();
            assertThat(store.node(List.of(unowned, known))).isEmpty();
            // Before the parameter is reset: without full coverage the cluster would refuse everything for a while.
            cluster = RedisClusterForTests.shared();
        });
    }

    /** Each says of a slot that the other has it. */
    @Test
    void anEndlessRedirectFailsBecauseTheNodesDisagree() {
        RateLimiter limiter = limiter();
        assertThat(decisions(limiter)).isEqualTo(200);
        String key = "disputed";
        int slot = SlotHash.getSlot(key);
        RedisNode owner = cluster.primaryOf(slot);
        owner.commands().clusterSetSlotNode(slot, anotherThan(owner).id());
        await().atMost(LONG)
                .untilAsserted(
                        () -> assertThatThrownBy(() -> limiter.tryAcquire(key).block(LONG))
                                .is(kind(Kind.UNAVAILABLE))
                                .hasMessage("Redis cannot decide: its nodes disagree on the owner of slot " + slot));
    }

    @Test
    void aDecisionThatWaitedForTheTopologyFreesItsPlace() {
        try (RedisForTests alone = RedisForTests.startOwn()) {
            client = RedisClusterClient.create(alone.uri());
            store = RedisStore.builder(client)
                    .nodes(List.of(alone.uri()))
                    .batching(10, 1, 2)
                    .build();
            RateLimiter limiter = Unprotected.limiter(store, LIMIT);
            alone.pause();
            List<CompletableFuture<Decision>> waiting = List.of(
                    limiter.tryAcquire("a").toFuture(), limiter.tryAcquire("b").toFuture());
            assertThat(limiter.tryAcquire("c").toFuture()).isCompletedExceptionally();
            alone.resume();
            waiting.forEach(one -> assertThatThrownBy(() -> one.get(60, TimeUnit.SECONDS))
                    .satisfies(error -> assertThat(error.getCause()).is(kind(Kind.UNREACHABLE))));
            for (int i = 0; i < 3; i++) {
                assertThatThrownBy(() -> limiter.tryAcquire("a").block(LONG)).is(kind(Kind.UNREACHABLE));
            }
        }
    }

    /** Otherwise the waiting decisions would prevent that any later one abandons the search. */
    @Test
    void aDecisionThatFindsTheQueueFullStartsATopologyRefresh() {
        try (RedisForTests alone = RedisForTests.startOwn();
                VirtualTime time = new VirtualTime()) {
            client = RedisClusterClient.create(alone.uri());
            store = RedisStore.builder(client)
                    .batching(10, 1, 2)
                    .deliverOn(Schedulers.immediate())
                    .build();
            RateLimiter limiter = Unprotected.limiter(store, LIMIT);
            alone.pause();
            List<CompletableFuture<Decision>> waiting = List.of(
                    limiter.tryAcquire("a").toFuture(), limiter.tryAcquire("b").toFuture());
            time.pass(Duration.ofSeconds(6));
            assertThat(waiting).noneMatch(CompletableFuture::isDone);
            CompletableFuture<Decision> next = limiter.tryAcquire("c").toFuture();
            time.passMillis(1);
            assertThat(waiting)
                    .allSatisfy(one -> assertThat(one)
                            .failsWithin(LONG)
                            .withThrowableThat()
                            .havingCause()
                            .is(kind(Kind.UNREACHABLE))
                            .withMessageContaining("no node reported the slots of the cluster within 5 s"));
            next.cancel(true);
            alone.resume();
        }
    }

    /** Begins to move the slot, if that is not so yet, and moves those of its keys. */
    private void moveSome(int slot, Predicate<String> which) {
        RedisNode source = cluster.primaryOf(slot);
        RedisNode target = anotherThan(source);
        cluster.beginMigration(slot, target);
        source.commands().clusterGetKeysInSlot(slot, 100).stream()
                .filter(which)
                .forEach(key -> source.commands().migrate("127.0.0.1", target.port(), key, 0, LONG.toMillis()));
    }

    private RedisNode anotherThan(RedisNode one) {
        return cluster.nodes().stream().filter(node -> node != one).findFirst().orElseThrow();
    }

    private static List<Long> used(RateLimiter limiter, Charge... charges) {
        return Stream.of(charges).map(charge -> used(limiter, charge)).toList();
    }

    private static long used(RateLimiter limiter, Charge charge) {
        return limiter.peek(charge).block(LONG).limits().get(0).used();
    }
}
