package io.github.spillgate.examples.benchmark.measure;

import io.lettuce.core.cluster.SlotHash;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** An embedded Redis Cluster on loopback: primaries with equal shares of the slots, without replicas. */
final class RedisCluster implements AutoCloseable {

    private static final Duration FORM = Duration.ofSeconds(30);

    private final Path directory;
    private final List<RedisServer> nodes = new ArrayList<>();

    private RedisCluster(Path directory) {
        this.directory = directory;
    }

    static RedisCluster start(int primaries) throws IOException {
        RedisCluster cluster = new RedisCluster(Files.createTempDirectory("benchmark-cluster"));
        try {
            for (int i = 0; i < primaries; i++) {
                cluster.nodes.add(RedisServer.startNode(cluster.directory));
            }
            cluster.form();
            return cluster;
        } catch (IOException | RuntimeException e) {
            cluster.close();
            throw e;
        }
    }

    private void form() {
        RedisServer first = nodes.get(0);
        for (int i = 0; i < nodes.size(); i++) {
            RedisServer node = nodes.get(i);
            // Assign distinct epochs, or the nodes would first have to resolve the conflict.
            node.commands().clusterSetConfigEpoch(i + 1);
            int from = SlotHash.SLOT_COUNT * i / nodes.size();
            int to = SlotHash.SLOT_COUNT * (i + 1) / nodes.size();
            node.commands().clusterAddSlots(IntStream.range(from, to).toArray());
            if (node != first) {
                first.commands().clusterMeet(node.host(), node.port());
            }
        }
        long giveUp = System.nanoTime() + FORM.toNanos();
        while (!nodes.stream().allMatch(this::isFormed)) {
            if (System.nanoTime() > giveUp) {
                throw new IllegalStateException("a cluster of " + nodes.size()
                        + " was not formed: expected all to know all" + " within " + FORM.toSeconds() + " s");
            }
            RedisServer.pause();
        }
    }

    private boolean isFormed(RedisServer node) {
        String info = node.commands().clusterInfo();
        return info.contains("cluster_state:ok") && info.contains("cluster_size:" + nodes.size() + "\r\n");
    }

    List<RedisServer> nodes() {
        return List.copyOf(nodes);
    }

    /** Stops all nodes, and deletes their files. */
    @Override
    public void close() throws IOException {
        nodes.forEach(RedisServer::close);
        try (var files = Files.list(directory)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(directory);
    }
}
