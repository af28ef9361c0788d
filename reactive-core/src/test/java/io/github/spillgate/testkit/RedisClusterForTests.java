package io.github.spillgate.testkit;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.RedisProcess.Listening;
import io.lettuce.core.MigrateArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.ClusterPartitionParser;
import io.lettuce.core.cluster.models.partitions.Partitions;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode.NodeFlag;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.awaitility.core.ConditionFactory;
import org.jspecify.annotations.Nullable;

/**
 * A real Redis Cluster for tests: {@code redis-server} processes on the loopback interface, each with its own
 * directory.
 *
 * <p>A node counts as failed after {@value #NODE_TIMEOUT_MILLIS} ms; with replicas, the failover follows about 2 s
 * later. A new cluster is ready after about 3 s, because a new primary rejects writes in its first 2 s.
 */
public final class RedisClusterForTests implements AutoCloseable {

    private static final int NODE_TIMEOUT_MILLIS = 1_000;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(20);

    /** Nodes speak to each other on another port, so much further up. */
    private static final int BUS = 10_000;

    /**
     * The first port to try; the ports and their cluster bus ports are below the ephemeral ports of all systems.
     */
    private static final int FIRST_PORT = 10_000;

    private static final int PORTS = 12_000;
    private static final int PORT_TRIES = 1_000;

    private static final int SHARED_PRIMARIES = 3;

    private static final Pattern OPEN_SLOT = Pattern.compile("\\[(\\d+)-[<>]-");

    private static @Nullable RedisClusterForTests shared;

    private static final List<String> ARGUMENTS = List.of(
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            Integer.toString(NODE_TIMEOUT_MILLIS),
            // However long a replica has heard nothing, it may take over: on a busy machine that is soon.
            "--cluster-replica-validity-factor",
            "0",
            // Replicas stay with the primary that the test has assigned.
            "--cluster-migration-barrier",
            "1000",
            "--repl-diskless-sync",
            "yes",
            "--repl-diskless-sync-delay",
            "0");

    private final RedisClient client = RedisNode.client();
    private final List<RedisNode> nodes = new ArrayList<>();

    private RedisClusterForTests() {}

    /**
     * Returns a cluster of three primaries without replicas that all tests of this JVM share. It is empty, each primary
     * has its first slots, and no slot is being migrated. A test resumes the nodes that it pauses and restarts those
     * that it kills, resets what it sets with {@code CONFIG SET}, and does not close the cluster. A paused node does
     * not become a dead one.
     */
    public static synchronized RedisClusterForTests shared() {
        RedisClusterForTests cluster = shared;
        if (cluster == null) {
            cluster = start(SHARED_PRIMARIES, 0);
            for (RedisNode node : cluster.nodes) {
                node.commands().configSet("cluster-node-timeout", Long.toString(PATIENCE.toMillis()));
            }
            shared = cluster;
        }
        cluster.restore();
        return cluster;
    }

    /** Starts a cluster of the first binary at hand, and waits until all of its nodes agree that it is formed. */
    public static RedisClusterForTests start(int primaries, int replicasOfEach) {
        return start(RedisBinary.first(), primaries, replicasOfEach);
    }

    /**
     * Starts a cluster, and waits until all of its nodes agree that it is formed.
     *
     * @param binary of which all nodes are
     * @param primaries how many share the slots, in equal parts; a failover takes three, for most of them must agree
     * @param replicasOfEach how many replicas each of them has
     * @param more further arguments for every node, such as {@code --cluster-require-full-coverage no}
     */
    public static RedisClusterForTests start(RedisBinary binary, int primaries, int replicasOfEach, String... more) {
        RedisClusterForTests cluster = new RedisClusterForTests();
        try {
            cluster.launch(binary, primaries * (1 + replicasOfEach), more);
            cluster.form(primaries);
            return cluster;
        } catch (RuntimeException e) {
            cluster.close();
            throw e;
        }
    }

    private void launch(RedisBinary binary, int number, String... more) {
        List<String> arguments = new ArrayList<>(ARGUMENTS);
        arguments.addAll(List.of(more));
        for (int i = 0; i < number; i++) {
            RedisProcess process =
                    RedisProcess.start(binary.path(), Listening.PLAINLY, RedisClusterForTests::freePort, arguments);
            nodes.add(new RedisNode(process, client));
        }
    }

    private static int freePort() {
        for (int tries = 0; tries < PORT_TRIES; tries++) {
            int port = FIRST_PORT + ThreadLocalRandom.current().nextInt(PORTS);
            if (isFree(port) && isFree(port + BUS)) {
                return port;
            }
        }
        throw new IllegalStateException("no free port of which the one " + BUS
                + " further up is free as well: expected one from " + FIRST_PORT + " to " + (FIRST_PORT + PORTS - 1));
    }

    private static boolean isFree(int port) {
        try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
            return socket.isBound();
        } catch (IOException e) {
            return false;
        }
    }

    private void form(int primaries) {
        for (int i = 0; i < nodes.size(); i++) {
            // Each its own from the start, or they would first have to sort that out among themselves.
            nodes.get(i).commands().clusterSetConfigEpoch(i + 1);
        }
        for (int i = 0; i < primaries; i++) {
            nodes.get(i).commands().clusterAddSlots(firstSlotsOf(i, primaries).toArray());
        }
        for (int i = 0; i < nodes.size(); i++) {
            for (RedisNode other : nodes.subList(i + 1, nodes.size())) {
                nodes.get(i).commands().clusterMeet("127.0.0.1", other.port());
            }
        }
        waiting("all nodes know all nodes").until(() -> nodes.stream().allMatch(this::knowsAll));
        for (int i = primaries; i < nodes.size(); i++) {
            nodes.get(i).commands().clusterReplicate(nodes.get(i % primaries).id());
        }
        awaitAgreement();
    }

    private static IntStream firstSlotsOf(int primary, int primaries) {
        return IntStream.range(
                SlotHash.SLOT_COUNT * primary / primaries, SlotHash.SLOT_COUNT * (primary + 1) / primaries);
    }

    /** Deletes all keys, ends all migrations, and gives each primary the slots that it had first. */
    private void restore() {
        nodes.forEach(node -> node.commands().flushall());
        for (int i = 0; i < SHARED_PRIMARIES; i++) {
            RedisNode primary = nodes.get(i);
            String id = primary.id();
            openSlotsOf(primary).forEach(slot -> primary.commands().clusterSetSlotStable(slot));
            Set<Integer> slots = slotsOf(primary);
            firstSlotsOf(i, SHARED_PRIMARIES)
                    .filter(slot -> !slots.contains(slot))
                    .forEach(slot -> {
                        findPrimaryOf(slot).ifPresent(owner -> beginMigration(slot, primary));
                        primary.commands().clusterSetSlotNode(slot, id);
                        nodes.forEach(node -> node.commands().clusterSetSlotNode(slot, id));
                    });
        }
        awaitAgreement();
    }

    private static Set<Integer> slotsOf(RedisNode node) {
        return viewOf(node).stream()
                .filter(one -> one.is(NodeFlag.MYSELF))
                .flatMap(one -> one.getSlots().stream())
                .collect(Collectors.toSet());
    }

    /**
     * The slots that this node is about to give or to take: {@code [slot->-id]} or {@code [slot-<-id]} in what it says
     * of itself.
     */
    private static List<Integer> openSlotsOf(RedisNode node) {
        return OPEN_SLOT
                .matcher(node.commands().clusterNodes())
                .results()
                .map(open -> Integer.valueOf(open.group(1)))
                .toList();
    }

    private boolean knowsAll(RedisNode node) {
        List<RedisClusterNode> known = viewOf(node);
        return known.size() == nodes.size()
                && known.stream().noneMatch(one -> one.is(NodeFlag.HANDSHAKE) || one.is(NodeFlag.NOADDR));
    }

    /**
     * All nodes, those first that began as primaries; the replicas follow in turn, each round in the order of the
     * primaries.
     */
    public List<RedisNode> nodes() {
        return List.copyOf(nodes);
    }

    public List<RedisURI> uris() {
        return nodes.stream().map(RedisNode::uri).toList();
    }

    /** The node that has this slot, as it says itself; of several the one that has had it last. */
    public RedisNode primaryOf(int slot) {
        return findPrimaryOf(slot)
                .orElseThrow(() ->
                        new IllegalStateException("no running node has slot " + slot + ": expected one of " + nodes));
    }

    public RedisNode primaryOf(String key) {
        return primaryOf(SlotHash.getSlot(key));
    }

    private Optional<RedisNode> findPrimaryOf(int slot) {
        Map<RedisNode, Long> epochs = running()
                .flatMap(node -> viewOf(node).stream()
                        .filter(one -> one.is(NodeFlag.MYSELF) && one.is(NodeFlag.UPSTREAM) && one.hasSlot(slot))
                        .map(myself -> Map.entry(node, myself.getConfigEpoch())))
                .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
        return epochs.entrySet().stream().max(Map.Entry.comparingByValue()).map(Map.Entry::getKey);
    }

    /** The replicas of this node that run, as they say themselves. */
    public List<RedisNode> replicasOf(RedisNode primary) {
        return running()
                .filter(node -> viewOf(node).stream()
                        .anyMatch(one -> one.is(NodeFlag.MYSELF) && primary.id().equals(one.getSlaveOf())))
                .toList();
    }

    /** Waits until another node than this one, which may be dead, owns the slot on all running nodes. */
    public RedisNode awaitNewPrimaryOf(int slot, RedisNode old) {
        waiting("another primary than " + old + " has slot " + slot)
                .until(() -> findPrimaryOf(slot).filter(now -> now != old).isPresent() && isAgreed());
        return primaryOf(slot);
    }

    /** Waits until all running nodes agree on the slots, all slots are served, and all replicas are in sync. */
    private void awaitAgreement() {
        waiting("all nodes agree that all is well").until(this::isAgreed);
    }

    private boolean isAgreed() {
        Set<String> ids = running().map(RedisNode::id).collect(Collectors.toSet());
        Set<Set<Part>> views = new HashSet<>();
        for (RedisNode node : running().toList()) {
            if (!node.commands().clusterInfo().contains("cluster_state:ok") || !follows(node)) {
                return false;
            }
            views.add(viewOf(node).stream()
                    .filter(one -> ids.contains(one.getNodeId()))
                    .map(Part::of)
                    .collect(Collectors.toSet()));
        }
        Set<Part> parts = views.iterator().next();
        return views.size() == 1
                && parts.size() == ids.size()
                && parts.stream().mapToInt(part -> part.slots().size()).sum() == SlotHash.SLOT_COUNT;
    }

    /** Whether it is a primary, or a replica that has its primary's data. */
    private static boolean follows(RedisNode node) {
        List<Object> role = node.commands().role();
        return role.get(0).equals("master") || role.get(3).equals("connected");
    }

    private Stream<RedisNode> running() {
        return nodes.stream().filter(RedisNode::isRunning);
    }

    private static List<RedisClusterNode> viewOf(RedisNode node) {
        Partitions view = ClusterPartitionParser.parse(node.commands().clusterNodes());
        return List.copyOf(view.getPartitions());
    }

    /**
     * Gives a slot to another primary, with its keys, and does something when all its keys have gone but it has not.
     */
    public void migrateSlot(int slot, RedisNode target, Runnable midway) {
        beginMigration(slot, target);
        moveKeys(slot, target);
        midway.run();
        endMigration(slot, target);
    }

    /**
     * Starts the migration of a slot to another primary: the source redirects requests for missing keys to the target
     * (ASK).
     */
    public void beginMigration(int slot, RedisNode target) {
        RedisNode source = primaryOf(slot);
        target.commands().clusterSetSlotImporting(slot, source.id());
        source.commands().clusterSetSlotMigrating(slot, target.id());
    }

    /** Moves all keys of a slot that is being migrated. */
    public void moveKeys(int slot, RedisNode target) {
        RedisCommands<String, String> source = primaryOf(slot).commands();
        while (true) {
            List<String> keys = source.clusterGetKeysInSlot(slot, 100);
            if (keys.isEmpty()) {
                return;
            }
            source.migrate("127.0.0.1", target.port(), 0, PATIENCE.toMillis(), MigrateArgs.Builder.keys(keys));
        }
    }

    /** Ends it: the target has the slot (MOVED), and all nodes are told. */
    public void endMigration(int slot, RedisNode target) {
        RedisNode source = primaryOf(slot);
        String id = target.id();
        target.commands().clusterSetSlotNode(slot, id);
        source.commands().clusterSetSlotNode(slot, id);
        running()
                .filter(node -> node != source && node != target && node.isPrimary())
                .forEach(node -> node.commands().clusterSetSlotNode(slot, id));
        awaitAgreement();
    }

    private static ConditionFactory waiting(String what) {
        return await(what).atMost(PATIENCE).pollDelay(Duration.ZERO).pollInterval(POLL);
    }

    @Override
    public void close() {
        nodes.forEach(RedisNode::close);
        client.shutdown(0, 2, TimeUnit.SECONDS);
    }

    @Override
    public String toString() {
        return "cluster of " + nodes;
    }

    /** What one node says of another, as far as all must say the same. */
    private record Part(
            String id, boolean isPrimary, @Nullable String of, List<Integer> slots) {

        static Part of(RedisClusterNode node) {
            return new Part(
                    node.getNodeId(),
                    node.is(NodeFlag.UPSTREAM),
                    node.getSlaveOf(),
                    node.getSlots().stream().sorted(Comparator.naturalOrder()).toList());
        }
    }
}
