package io.github.spillgate.testkit;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * One of several Redis processes that belong together, and a connection to it alone: what it is asked is not led to
 * another.
 */
public final class RedisNode {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final RedisProcess process;
    private final RedisClient client;
    private boolean stopped;
    private @Nullable StatefulRedisConnection<String, String> connection;

    RedisNode(RedisProcess process, RedisClient client) {
        this.process = process;
        this.client = client;
    }

    /** A client for nodes. It does not connect again by itself, for that would take its time after a restart. */
    static RedisClient client() {
        RedisClient client = RedisClient.create();
        client.setOptions(ClientOptions.builder().autoReconnect(false).build());
        return client;
    }

    /** Where it listens; the same after {@link #restart()}. */
    public int port() {
        return process.port();
    }

    public RedisURI uri() {
        return RedisURI.builder()
                .withHost("127.0.0.1")
                .withPort(port())
                .withTimeout(PATIENCE)
                .build();
    }

    public String id() {
        return commands().clusterMyId();
    }

    /** Whether it says that it takes writes, be it in a cluster or not. */
    public boolean isPrimary() {
        return commands().role().get(0).equals("master");
    }

    /** Whether it can be asked: it is neither killed nor paused. */
    public synchronized boolean isRunning() {
        return !stopped;
    }

    /** Commands to this node alone; each waits for its answer. */
    public synchronized RedisCommands<String, String> commands() {
        StatefulRedisConnection<String, String> known = connection;
        if (known == null || !known.isOpen()) {
            known = client.connect(uri());
            connection = known;
        }
        return known.sync();
    }

    /** Kills it; connections break and new ones are refused. When this returns, it is gone. */
    public synchronized void kill() {
        stopped = true;
        process.kill();
    }

    /** Starts it again on the same port, without its data, but knowing its cluster; kills it first if it still runs. */
    public synchronized void restart() {
        StatefulRedisConnection<String, String> known = connection;
        if (known != null) {
            known.close();
        }
        process.restart();
        stopped = false;
    }

    /** Stops it in its tracks (SIGSTOP): it keeps its connections, and nothing is answered. */
    public synchronized void pause() {
        process.pause();
        stopped = true;
    }

    public synchronized void resume() {
        process.resume();
        stopped = false;
    }

    void close() {
        process.close();
    }

    @Override
    public String toString() {
        return "127.0.0.1:" + port();
    }
}
