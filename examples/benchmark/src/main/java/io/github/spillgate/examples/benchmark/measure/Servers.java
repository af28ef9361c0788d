package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Topology;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** The Redis servers of a run: a standalone one, and clusters that are started on first use. */
public final class Servers implements AutoCloseable {

    private final RedisServer alone;
    private final Map<Topology, RedisCluster> clusters = new EnumMap<>(Topology.class);

    private Servers(RedisServer alone) {
        this.alone = alone;
    }

    public static Servers start() throws IOException {
        return new Servers(RedisServer.start());
    }

    /** Returns the standalone server. */
    public RedisServer alone() {
        return alone;
    }

    /** Returns the servers of this topology; a client may connect to any of them. */
    public List<RedisServer> of(Topology topology) {
        return topology == Topology.ALONE
                ? List.of(alone)
                : clusters.computeIfAbsent(topology, Servers::cluster).nodes();
    }

    private static RedisCluster cluster(Topology topology) {
        try {
            return RedisCluster.start(topology.primaries());
        } catch (IOException e) {
            throw new UncheckedIOException("a cluster of " + topology.primaries() + " cannot be started", e);
        }
    }

    @Override
    public void close() throws IOException {
        alone.close();
        for (RedisCluster cluster : clusters.values()) {
            cluster.close();
        }
    }
}
