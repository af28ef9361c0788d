package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Home;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** Every Redis of a run: one by itself, and clusters from when somebody asks for them. */
public final class Servers implements AutoCloseable {

    private final RedisServer alone;
    private final Map<Home, RedisCluster> clusters = new EnumMap<>(Home.class);

    private Servers(RedisServer alone) {
        this.alone = alone;
    }

    public static Servers start() throws IOException {
        return new Servers(RedisServer.start());
    }

    /** The one that is in no cluster. */
    public RedisServer alone() {
        return alone;
    }

    /** The servers there; any of them may be told to a client. */
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
