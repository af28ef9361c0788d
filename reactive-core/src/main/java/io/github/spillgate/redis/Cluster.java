package io.github.spillgate.redis;

import io.github.spillgate.Claim;
import io.github.spillgate.LimitStoreUnavailableException;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The nodes of a cluster, and which of them has which slot, as far as that is known.
 *
 * <p>It is learned from the nodes that the user names, or else from his client, and then from the nodes themselves:
 * from one that says that another has the slot now, and, when a node does not answer, from any other that does.
 */
final class Cluster implements Servers {
    // Design notes.
    //
    // Lettuce has a connection to a whole cluster, and this is not it. That one sends again, after a connection has
    // broken, what was not answered, and Redis may take twice then. It does not notice a node that has fallen silent.
    // And to look for the nodes anew it connects to all of them, and waits for those that hang. So each node has a
    // connection as the only server has one, on a client for nodes that shares the threads and the options of the
    // user's. With what user and password, and whether by TLS, that one keeps to itself; who needs these says so.
    //
    // What is known may be wrong at any time, and no harm comes of it: a node that has not got the slot has done
    // nothing and says who has it. So nothing is asked in advance, and nothing goes on in the background. Only where a
    // node says nothing any more the others have to be asked who has taken over, by whoever comes next; that is what
    // the search is for.

    private final RedisClient nodes;
    private final OwnerSearch search;
    private final Server.Settings settings;
    private final ConcurrentMap<String, Server> servers = new ConcurrentHashMap<>();
    private final AtomicReferenceArray<@Nullable Server> slots = new AtomicReferenceArray<>(SlotHash.SLOT_COUNT);

    /** How any node is connected to, but for where it is. */
    private volatile @Nullable RedisURI like;

    private volatile boolean closed;

    /**
     * A cluster.
     *
     * @param seeds where to ask for the nodes, and how all of them are connected to; if there are none, where the
     *     client says they are, and without anything else, for it does not say how
     */
    Cluster(RedisClusterClient client, List<RedisURI> seeds, Server.Settings settings) {
        this.search = new OwnerSearch(client, seeds, new Known());
        this.like = seeds.isEmpty() ? null : seeds.get(0);
        this.settings = settings;
        this.nodes = RedisClient.create(client.getResources());
        ClientOptions options = client.getOptions();
        nodes.setOptions(options.mutate().autoReconnect(false).build());
    }

    @Override
    public int slotOf(Claim claim) {
        // What stands before an identity has no braces, and what is between them is all that matters.
        return SlotHash.getSlot(claim.identity().getBytes(StandardCharsets.US_ASCII));
    }

    @Override
    public boolean areMany() {
        return true;
    }

    @Override
    public String nameOf(int slot) {
        Server server = slots.get(slot);
        return server == null ? "" : server.name();
    }

    @Override
    public @Nullable Server known(int slot) {
        Server server = slots.get(slot);
        if (server != null && server.connection().ifWell() == null) {
            // It is asked all the same, for it may have been connected to never before.
            lookSoon();
        }
        return server;
    }

    @Override
    public Mono<Server> find(int slot) {
        return search.look()
                .then(Mono.fromSupplier(() -> slots.get(slot)))
                .switchIfEmpty(Mono.error(() -> new LimitStoreUnavailableException(
                        "Redis cannot decide: no node of the cluster owns slot " + slot, null)));
    }

    /** Whom to ask instead of one who has said that it is another's to answer. */
    private Mono<Redirect.Target> elsewhere(Redirect said, Server by) {
        return Mono.fromSupplier(() -> {
            String host = said.host().isEmpty() || said.host().equals("?") ? hostOf(by) : said.host();
            Server server = at(host, said.port());
            if (!said.isForGood()) {
                return new Redirect.Target(server, asking(server));
            }
            slots.set(said.slot(), server);
            lookSoon();
            return new Redirect.Target(server, server.connection());
        });
    }

    /** Asks a node for what it has been given already of a slot that it is about to get. */
    private static CommandSender asking(Server server) {
        return new CommandSender() {
            @Override
            public <T> Mono<T> ask(Command<T> command) {
                return server.connection()
                        .ask((commands, clock) -> Mono.defer(() -> {
                            // Right before the command, and nobody else writes between the two.
                            commands.asking().subscribe(ok -> {}, error -> {});
                            return command.on(commands, clock);
                        }));
            }
        };
    }

    @Override
    public Mono<Void> prepare(String name) {
        return Mono.defer(() -> {
            Server server = servers.get(name);
            if (server != null) {
                return server.prepare();
            }
            return search.look().then(Mono.defer(name.isEmpty() ? this::prepareAll : this::prepareAny));
        });
    }

    /** Whoever had this name has gone, and nobody knows who is meant now: he is not to wait for one that hangs. */
    private Mono<Void> prepareAny() {
        return Flux.fromIterable(owners())
                .flatMapDelayError(server -> server.prepare().thenReturn(server), Integer.MAX_VALUE, 1)
                .next()
                .onErrorMap(Exceptions::isMultiple, Errors::oneOf)
                .switchIfEmpty(Mono.error(Cluster::noOwner))
                .then();
    }

    private static LimitStoreUnavailableException noOwner() {
        return new LimitStoreUnavailableException("Redis cannot decide: no node of the cluster owns a slot", null);
    }

    /** It is well if one can be reached: the others are found out by whoever asks them. */
    private Mono<Void> prepareAll() {
        return Flux.fromIterable(owners())
                .flatMap(
                        server -> server.prepare()
                                .then(Mono.just(Optional.<Throwable>empty()))
                                .onErrorResume(error -> Mono.just(Optional.of(error))),
                        Integer.MAX_VALUE)
                .collectList()
                .flatMap(errors -> errors.stream().allMatch(Optional::isPresent)
                        ? Mono.error(errors.stream()
                                .findFirst()
                                .flatMap(error -> error)
                                .orElseGet(Cluster::noOwner))
                        : Mono.empty());
    }

    @Override
    public CompletableFuture<Void> beginClosing() {
        closed = true;
        // In this order: the client closes whatever is open, and Lettuce warns of what is closed twice.
        CompletableFuture<Void> closing = nodes.shutdownAsync(0, 0, TimeUnit.SECONDS);
        servers.values().forEach(server -> OpenConnection.unobserved(server.beginClosing()));
        return closing;
    }

    private Set<Server> owners() {
        Set<Server> owners = new HashSet<>();
        for (int slot = 0; slot < SlotHash.SLOT_COUNT; slot++) {
            Server owner = slots.get(slot);
            if (owner != null) {
                owners.add(owner);
            }
        }
        return owners;
    }

    private Server at(String host, int port) {
        return servers.computeIfAbsent(host + ":" + port, name -> {
            if (closed) {
                throw new LimitStoreUnavailableException("Redis is unavailable: the store has been closed", null);
            }
            RedisURI uri = RedisURI.builder(Objects.requireNonNull(like))
                    .withHost(host)
                    .withPort(port)
                    .build();
            return new Server(name, new Connection(nodes, uri), settings, this::elsewhere, this::lookSoon);
        });
    }

    static String hostOf(Server server) {
        return server.name().substring(0, server.name().lastIndexOf(':'));
    }

    /** Whoever comes next goes by what is found; nobody waits for it. */
    private void lookSoon() {
        search.look();
    }

    private void found(List<OwnerSearch.Owner> owners) {
        owners.forEach(owner -> {
            Server server = at(owner.host(), owner.port());
            for (int slot = owner.from(); slot <= owner.to(); slot++) {
                slots.set(slot, server);
            }
        });
        forgetThoseWhoHaveGone();
    }

    private void forgetThoseWhoHaveGone() {
        Set<Server> owners = owners();
        servers.values().removeIf(server -> {
            // One that has only just been told of is not gone because it has not been connected to yet.
            boolean hasGone = !owners.contains(server)
                    && server.connection().hasBeenOpen()
                    && server.connection().ifWell() == null;
            if (hasGone) {
                server.leave();
            }
            return hasGone;
        });
    }

    /** What the search for owners knows of the nodes, and does with what it finds. */
    private final class Known implements OwnerSearch.Nodes {

        @Override
        public Collection<Server> known() {
            return servers.values();
        }

        @Override
        public Server at(String host, int port) {
            return Cluster.this.at(host, port);
        }

        @Override
        public void connectedLike(RedisURI one) {
            like = one;
        }

        @Override
        public void found(List<OwnerSearch.Owner> owners) {
            Cluster.this.found(owners);
        }
    }
}
