package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.Topology;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** The servers of a run, each started on first use. */
public final class Servers implements AutoCloseable {

    /** Long enough that no busy node counts as failed. */
    private static final String NODE_TIMEOUT_MILLIS = "60000";

    private final Map<Topology, List<Server>> started = new EnumMap<>(Topology.class);
    private final List<Runnable> ends = new ArrayList<>();

    /** Returns the servers of this topology; a client may connect to any of them. */
    public List<Server> of(Topology topology) {
        return started.computeIfAbsent(topology, this::start);
    }

    /** Returns a Redis of this topology. */
    public RedisServer redis(Topology topology) {
        return (RedisServer) of(topology).get(0);
    }

    private List<Server> start(Topology topology) {
        switch (topology) {
            case ALONE -> {
                RedisForTests redis = RedisForTests.startOwn();
                ends.add(redis::close);
                return List.of(new RedisServer(redis.uri()));
            }
            case POSTGRES -> {
                return List.of(new PostgresServer());
            }
            default -> {
                RedisClusterForTests cluster = RedisClusterForTests.start(topology.primaries(), 0);
                ends.add(cluster::close);
                cluster.nodes().forEach(node -> node.commands().configSet("cluster-node-timeout", NODE_TIMEOUT_MILLIS));
                return cluster.nodes().stream()
                        .<Server>map(node -> new RedisServer(node.uri()))
                        .toList();
            }
        }
    }

    @Override
    public void close() {
        started.values().forEach(servers -> servers.forEach(Server::close));
        ends.forEach(Runnable::run);
    }
}
