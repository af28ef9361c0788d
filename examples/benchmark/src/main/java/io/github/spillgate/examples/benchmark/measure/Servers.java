package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Home;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** The Redis servers of a run: a standalone one, and clusters that are started on first use. */
public final class Servers implements AutoCloseable {

    private final RedisServer alone;
    private final Map<Home, RedisCluster> clusters = new EnumMap<>(Home.class);

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

    /** Returns the servers of this home; a client may connect to any of them. */
    public List<RedisServer> of(Home home) {
        return home == Home.ALONE
                ? List.of(alone)
                : clusters.computeIfAbsent(home, Servers::cluster).nodes();
    }

    private static RedisCluster cluster(Home home) {
        try {
            return RedisCluster.start(home.primaries());
        } catch (IOException e) {
            throw new UncheckedIOException("a cluster of " + home.primaries() + " cannot be started", e);
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
