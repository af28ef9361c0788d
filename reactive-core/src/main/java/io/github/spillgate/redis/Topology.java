package io.github.spillgate.redis;

import io.github.spillgate.internal.Time;
import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.Handshake;
import io.github.spillgate.redis.lane.Redirect;
import io.github.spillgate.spi.Claim;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.codec.ByteArrayCodec;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** The servers of a store, and the owner of each hash slot: a single server, or the nodes of a cluster. */
interface Topology {

    /** Returns the hash slot of a count. Only counts in one slot can be decided in one command. */
    int slotOf(Claim claim);

    /** Returns the hash slot of a key. */
    int slotOf(byte[] key);

    /** Returns the name of the slot's owner; empty if the owner is not known, or if there is only one server. */
    String nameOf(int slot);

    /** Returns the slot's owner, if it is known. */
    @Nullable
    Server known(int slot);

    /** Finds the slot's owner; never empty. */
    Mono<Server> find(int slot);

    /** Returns the target of a redirect by a server; empty if there is no other server. */
    Mono<Server> redirect(Redirect redirect, Server from);

    /** Notes that a server has replied that its cluster is down. */
    void noteClusterDown();

    /**
     * Returns the keys of a script call that changes nothing on the server of this name. Proxies and services may
     * reject scripts without a key.
     */
    byte[][] idleKeys(String name);

    /** Connects to the server of this name and loads the scripts; to all servers if the name is empty. */
    Mono<Void> prepare(String name);

    /** Begins to close all connections; the result completes once they are closed. */
    CompletableFuture<Void> beginClosing();

    /** A single server, which must be a primary. */
    final class SingleServer implements Topology {

        private final CountKeys keys;
        private final Server server;

        /**
         * A single server.
         *
         * @param nodes the URI of the client's server; none if it is not known, and then there are no lanes on event
         *     loops
         */
        SingleServer(RedisClient client, List<RedisURI> nodes, Server.Settings settings) {
            keys = settings.keys();
            Role role = new Role(settings.eviction(), Time::nanos);
            server = new Server(
                    "",
                    // With an address, all connections use that one, so that they lead to the same counts.
                    () -> role.requirePrimary(
                            nodes.isEmpty()
                                    ? client.connect(ByteArrayCodec.INSTANCE)
                                    : Handshake.connect(client, nodes.get(0))),
                    onLoop -> role.requirePrimary(Handshake.connectOnLoop(onLoop, nodes.get(0))),
                    this,
                    settings);
        }

        @Override
        public int slotOf(Claim claim) {
            return 0;
        }

        @Override
        public int slotOf(byte[] key) {
            return 0;
        }

        @Override
        public String nameOf(int slot) {
            return server.name();
        }

        @Override
        public Server known(int slot) {
            return server;
        }

        @Override
        public Mono<Server> find(int slot) {
            return Mono.just(server);
        }

        @Override
        public Mono<Server> redirect(Redirect redirect, Server from) {
            return Mono.empty();
        }

        @Override
        public void noteClusterDown() {}

        @Override
        public byte[][] idleKeys(String name) {
            return new byte[][] {keys.unused()};
        }

        @Override
        public Mono<Void> prepare(String name) {
            return server.prepare();
        }

        @Override
        public CompletableFuture<Void> beginClosing() {
            return server.beginClosing();
        }
    }
}
