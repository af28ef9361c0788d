package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.redis.lane.Errors;
import io.github.spillgate.redis.lane.Handshake;
import io.github.spillgate.redis.lane.OpenConnection;
import io.github.spillgate.redis.lane.Redirect;
import io.github.spillgate.spi.Claim;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
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
import reactor.core.publisher.Signal;

/**
 * The nodes of a cluster, and the last known owner of each hash slot.
 *
 * <p>The owners are learned from the nodes in the settings, or else from the caller's client; later from redirects and,
 * if a node does not reply, from any other node.
 */
final class Cluster implements Topology {
    // Design notes.
    //
    // Lettuce's cluster connection is not used. After a connection has broken it sends unanswered commands again, and
    // Redis may charge twice. It does not notice a silent node. To refresh its topology it connects to all nodes and
    // waits for those that hang. So each node has a connection like that of a single server, on a client for nodes that
    // shares the threads and options of the caller's client. That client does not reveal its user, password and TLS
    // setting; the settings of the store name them if needed.
    //
    // The known owners may be wrong at any time, without harm: a node that does not own the slot executes nothing and
    // redirects. So there is no periodic refresh. Only if a node stops replying, the next caller asks the others for
    // its successor, by a refresh.

    private static final byte[][] NO_KEYS = {};

    private final RedisClient nodes;
    private final TopologyRefresh refresh;
    private final Server.Settings settings;
    private final ConcurrentMap<String, Server> servers = new ConcurrentHashMap<>();
    private final AtomicReferenceArray<@Nullable Server> slots = new AtomicReferenceArray<>(SlotHash.SLOT_COUNT);

    /** The settings of the connections to all nodes; its host and port are replaced. */
    private volatile @Nullable RedisURI template;

    private volatile boolean closed;

    /**
     * A cluster.
     *
     * @param seeds nodes that know the others, with the settings for the connections to all nodes; if there are none,
     *     the client's nodes, with the default settings
     */
    Cluster(RedisClusterClient client, List<RedisURI> seeds, Server.Settings settings) {
        this.refresh = new TopologyRefresh(client, seeds, this);
        this.template = seeds.isEmpty() ? null : seeds.get(0);
        this.settings = settings;
        this.nodes = RedisClient.create(client.getResources());
        ClientOptions options = client.getOptions();
        nodes.setOptions(options.mutate().autoReconnect(false).build());
    }

    @Override
    public int slotOf(Claim claim) {
        // The prefix of a key has no braces, so the braces in the identity determine the slot.
        return SlotHash.getSlot(claim.identity().getBytes(StandardCharsets.US_ASCII));
    }

    @Override
    public int slotOf(byte[] key) {
        return SlotHash.getSlot(key);
    }

    @Override
    public String nameOf(int slot) {
        Server server = slots.get(slot);
        return server == null ? "" : server.name();
    }

    @Override
    public @Nullable Server known(int slot) {
        Server server = slots.get(slot);
        if (server != null && !server.isResponsive()) {
            // The command is sent to it all the same, because it may not have been connected before.
            refresh.start();
        }
        return server;
    }

    @Override
    public Mono<Server> find(int slot) {
        return refresh.start()
                .then(Mono.fromSupplier(() -> slots.get(slot)))
                .switchIfEmpty(Mono.error(() -> new LimitStoreException(
                        Kind.UNAVAILABLE, "Redis cannot decide: no node of the cluster owns slot " + slot)));
    }

    @Override
    public Mono<Server> redirect(Redirect redirect, Server from) {
        return Mono.fromSupplier(() -> {
            Server server = serverAt(knownHost(redirect.host(), from), redirect.port());
            if (redirect.isMoved()) {
                slots.set(redirect.slot(), server);
                refresh.start();
            }
            return server;
        });
    }

    @Override
    public void noteClusterDown() {
        refresh.start();
    }

    /** Returns a key in a slot of the node. Before such a slot is known, there is none. */
    @Override
    public byte[][] idleKeys(String name) {
        for (int i = 0; i < SlotHash.SLOT_COUNT; i++) {
            String tag = Integer.toString(i);
            if (nameOf(SlotHash.getSlot(tag)).equals(name)) {
                return new byte[][] {settings.keys().unused(tag)};
            }
        }
        return NO_KEYS;
    }

    @Override
    public Mono<Void> prepare(String name) {
        return Mono.defer(() -> {
            Server server = servers.get(name);
            if (server != null) {
                if (!server.isResponsive()) {
                    // Its slots may have another owner now.
                    refresh.start();
                }
                return server.prepare();
            }
            return refresh.start().then(Mono.defer(name.isEmpty() ? this::prepareAll : this::prepareAny));
        });
    }

    /** Prepares all nodes and completes with the first: the named node has gone, and another one may hang. */
    private Mono<Void> prepareAny() {
        return Flux.fromIterable(owners())
                .flatMapDelayError(server -> server.prepare().thenReturn(server), Integer.MAX_VALUE, 1)
                .next()
                .onErrorMap(Exceptions::isMultiple, Errors::oneOf)
                .switchIfEmpty(Mono.error(Cluster::noOwner))
                .then();
    }

    private static LimitStoreException noOwner() {
        return new LimitStoreException(Kind.UNAVAILABLE, "Redis cannot decide: no node of the cluster owns a slot");
    }

    /** Prepares all nodes, and fails if no node can be reached. */
    private Mono<Void> prepareAll() {
        return Flux.fromIterable(owners())
                .flatMap(server -> server.prepare().materialize(), Integer.MAX_VALUE)
                .collectList()
                .flatMap(ends -> {
                    if (ends.isEmpty()) {
                        return Mono.error(noOwner());
                    }
                    return ends.stream().anyMatch(Signal::isOnComplete)
                            ? Mono.empty()
                            : Mono.error(Objects.requireNonNull(ends.get(0).getThrowable()));
                });
    }

    @Override
    public CompletableFuture<Void> beginClosing() {
        closed = true;
        // In this order: the client closes all open connections, and Lettuce warns if one is closed twice.
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

    Collection<Server> servers() {
        return servers.values();
    }

    /** Returns the node at this address, and adds it if it is new. */
    Server serverAt(String host, int port) {
        return servers.computeIfAbsent(host + ":" + port, name -> {
            if (closed) {
                throw new LimitStoreException(Kind.UNAVAILABLE, "Redis is unavailable: the store has been closed");
            }
            RedisURI uri = RedisURI.builder(Objects.requireNonNull(template))
                    .withHost(host)
                    .withPort(port)
                    .build();
            return new Server(name, () -> connect(uri), onLoop -> Handshake.connectOnLoop(onLoop, uri), this, settings);
        });
    }

    /** Returns a host in the reply of a server, which is its own if the text is empty or a question mark. */
    static String knownHost(String host, Server from) {
        return host.isEmpty() || host.equals("?")
                ? from.name().substring(0, from.name().lastIndexOf(':'))
                : host;
    }

    /** Uses the connection settings of this node for all nodes; called before its slots are known. */
    void useSettingsOf(RedisURI node) {
        template = node;
    }

    void update(List<TopologyRefresh.SlotRange> ranges) {
        ranges.forEach(range -> {
            Server server = serverAt(range.host(), range.port());
            for (int slot = range.from(); slot <= range.to(); slot++) {
                slots.set(slot, server);
            }
        });
        removeNodesWithoutSlots();
    }

    private void removeNodesWithoutSlots() {
        Set<Server> owners = owners();
        servers.values().removeIf(server -> {
            // A node that was never connected is not gone: it may have joined just now.
            boolean isGone = !owners.contains(server)
                    && server.lane().hasBeenOpen()
                    && server.lane().ifResponsive() == null;
            if (isGone) {
                server.closeWithoutSlots();
            }
            return isGone;
        });
    }

    /** Connects to a node, which may be a replica; then it redirects to its primary. */
    private StatefulRedisConnection<byte[], byte[]> connect(RedisURI uri) {
        StatefulRedisConnection<byte[], byte[]> connection = Handshake.connect(nodes, uri);
        settings.eviction().check(connection, uri.getHost() + ":" + uri.getPort());
        return connection;
    }
}
