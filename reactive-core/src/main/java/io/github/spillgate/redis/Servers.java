package io.github.spillgate.redis;

import io.github.spillgate.Claim;
import io.lettuce.core.RedisClient;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/** Which server has a count: the only one there is, or one of a cluster. */
interface Servers {

    /** The slot that a count lies in; only counts of one slot can be decided on in one command. */
    int slotOf(Claim claim);

    /** Whether there may be several, that fail apart from each other. */
    boolean areMany();

    /** The name of the server that has the slot; empty if that is not known. */
    String nameOf(int slot);

    /** The server that has the slot, if that is known at once. */
    @Nullable
    Server known(int slot);

    /** The server that has the slot, once that is known; never empty. */
    Mono<Server> find(int slot);

    /** Connects to this server, or, if there is none of this name, to all, and loads the scripts. */
    Mono<Void> prepare(String name);

    /** Closes all connections, and tells when they are closed. */
    CompletableFuture<Void> beginClosing();

    /** One server has all there is. */
    static Servers only(RedisClient client, Server.Settings settings) {
        Server server = new Server("", new Connection(client), settings, (said, by) -> Mono.empty(), () -> {});
        return new Servers() {
            @Override
            public int slotOf(Claim claim) {
                return 0;
            }

            @Override
            public boolean areMany() {
                return false;
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
            public Mono<Void> prepare(String name) {
                return server.prepare();
            }

            @Override
            public CompletableFuture<Void> beginClosing() {
                return server.beginClosing();
            }
        };
    }
}
