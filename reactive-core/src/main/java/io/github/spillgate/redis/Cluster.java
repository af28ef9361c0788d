package io.github.spillgate.redis;

import io.github.spillgate.Claim;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * The nodes of a cluster, and which of them has which slot, as far as that is known.
 *
 * <p>It is learned from the nodes that the user names, or else from his client, and then from the nodes themselves: from one that says that another has the
 * slot now, and, when a node does not answer, from any other that does.
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
    // node says nothing any more the others have to be asked who has taken over, by whoever comes next, at most once a
    // second.

    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(1);

    /** So many nodes are asked, one after another, before those that the user has named, or his client, are. */
    private static final int MOST_ASKED = 3;

    /**
     * One that takes longer is given up, and another one begins: a client that asks a node which stands still waits for a minute, and the
     * other nodes may be back long before. Each holds a thread, so there are few.
     */
    private static final long LONGEST_LOOK = TimeUnit.SECONDS.toNanos(5);

    private static final int MOST_CLIENTS_ASKED = 2;

    private final RedisClusterClient client;
    private final RedisClient nodes;
    private final List<RedisURI> seeds;
    private final Server.Settings settings;
    private final ConcurrentMap<String, Server> servers = new ConcurrentHashMap<>();
    private final AtomicReferenceArray<@Nullable Server> slots = new AtomicReferenceArray<>(SlotHash.SLOT_COUNT);
    private final AtomicReference<@Nullable Look> newest = new AtomicReference<>();

    /** How many wait for the user's client at the moment. */
    private final AtomicInteger clientsAsked = new AtomicInteger();

    /** How any node is connected to, but for where it is. */
    private volatile @Nullable RedisURI like;

    private volatile boolean closed;

    /**
     * A cluster.
     *
     * @param seeds where to ask for the nodes, and how all of them are connected to; if there are none, where the client says they
     *     are, and without anything else, for it does not say how
     */
    Cluster(RedisClusterClient client, List<RedisURI> seeds, Server.Settings settings) {
        this.client = client;
        this.seeds = seeds;
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
        return look().then(Mono.fromSupplier(() -> slots.get(slot)))
                .switchIfEmpty(Mono.error(() -> new LimitStoreUnavailableException(
                        "Redis cannot decide now: no node of the cluster has slot " + slot, null)));
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
    private static Asks asking(Server server) {
        return new Asks() {
            @Override
            public <T> Mono<T> ask(Function<RedisReactiveCommands<byte[], byte[]>, Mono<T>> command) {
                return server.connection()
                        .ask(commands -> Mono.defer(() -> {
                            // Right before the command, and nobody else writes between the two.
                            commands.asking().subscribe(ok -> {}, error -> {});
                            return command.apply(commands);
                        }));
            }
        };
    }

    @Override
    public Mono<Void> prepare(String name) {
        return Mono.defer(() -> {
            Server server = servers.get(name);
            return server == null ? look().then(Mono.defer(this::prepareAll)) : server.prepare();
        });
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
                                .orElseGet(() -> new LimitStoreUnavailableException(
                                        "Redis cannot decide now: no node of the cluster has a slot", null)))
                        : Mono.empty());
    }

    @Override
    public void close() {
        closed = true;
        // In this order: the client closes whatever is open, and Lettuce warns of what is closed twice.
        CompletableFuture<Void> closing = nodes.shutdownAsync(0, 0, TimeUnit.SECONDS);
        servers.values().forEach(Server::close);
        OpenConnection.unobserved(closing);
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
                throw new LimitStoreUnavailableException("Redis cannot be asked: the store has been closed", null);
            }
            RedisURI uri = RedisURI.builder(Objects.requireNonNull(like))
                    .withHost(host)
                    .withPort(port)
                    .build();
            return new Server(name, new Connection(nodes, uri), settings, this::elsewhere, this::lookSoon);
        });
    }

    private static String hostOf(Server server) {
        return server.name().substring(0, server.name().lastIndexOf(':'));
    }

    /** Whoever comes next goes by what is found; nobody waits for it. */
    private void lookSoon() {
        look();
    }

    /** Finds out who has which slot; whoever comes while somebody does, or soon after, goes by what that one finds. */
    private Mono<Void> look() {
        while (true) {
            Look known = newest.get();
            if (known != null && !known.isOld()) {
                return known.awaited;
            }
            Look next = new Look();
            if (newest.compareAndSet(known, next)) {
                next.start();
                if (known != null) {
                    // Elsewhere, because all who wait for it are told.
                    Schedulers.parallel().schedule(known::giveUp);
                }
                return next.awaited;
            }
        }
    }

    private static long now() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS);
    }

    /** A node, as it is told who has some slots. */
    private record Owner(int from, int to, String host, int port) {}

    /** One attempt to find out who has which slot. */
    private final class Look {

        private final CompletableFuture<@Nullable Void> outcome = new CompletableFuture<>();

        /** Cached, because whoever has left would be told of an error all the same. */
        private final Mono<Void> awaited = Mono.fromFuture(outcome, true).cache();

        private final long since = now();
        private volatile long endedAt;
        private volatile @Nullable Throwable lastError;

        boolean isOld() {
            return outcome.isDone() ? now() - endedAt > PAUSE : now() - since > LONGEST_LOOK;
        }

        /** Another one has begun; what this one may still find is taken into account all the same. */
        void giveUp() {
            if (!outcome.isDone()) {
                end(nobodySays("nobody has said", Duration.ofNanos(LONGEST_LOOK)));
            }
        }

        private static LimitStoreException nobodySays(String whoHas, Duration waited) {
            return new LimitStoreUnreachableException(
                    "Redis cannot be asked: " + whoHas + " within " + waited.toSeconds()
                            + " s which node of the cluster has which slot",
                    null);
        }

        void start() {
            List<Server> all = new ArrayList<>(servers.values());
            Collections.shuffle(all);
            // Those first who are well; but others may be back, and nobody have asked them yet.
            List<Server> notWell = new ArrayList<>(all);
            notWell.removeIf(server -> server.connection().ifWell() != null);
            all.removeAll(notWell);
            all.addAll(notWell);
            List<Server> some;
            try {
                some = Stream.concat(
                                all.stream().limit(MOST_ASKED),
                                seeds.stream().map(seed -> at(seed.getHost(), seed.getPort())))
                        .distinct()
                        .toList();
            } catch (RuntimeException e) {
                // The store is closed.
                end(e);
                return;
            }
            askNext(some.iterator());
        }

        private void askNext(Iterator<Server> some) {
            if (!some.hasNext() && !seeds.isEmpty()) {
                end(lastError);
                return;
            }
            if (!some.hasNext()) {
                if (clientsAsked.incrementAndGet() > MOST_CLIENTS_ASKED) {
                    clientsAsked.decrementAndGet();
                    giveUp();
                    return;
                }
                Thread thread = new Thread(this::askClient, "spillgate-topology");
                thread.setDaemon(true);
                thread.start();
                return;
            }
            Server server = some.next();
            server.connection()
                    .ask(commands -> commands.clusterSlots().collectList())
                    .timeout(
                            LONGEST_WAIT,
                            Mono.error(() -> nobodySays(server.name() + " has not said", LONGEST_WAIT)),
                            Schedulers.parallel())
                    .publishOn(Schedulers.parallel())
                    .map(reply -> read(reply, server))
                    .filter(owners -> !owners.isEmpty())
                    .switchIfEmpty(Mono.error(() -> new IllegalStateException("no slot has an owner")))
                    .subscribe(this::found, error -> {
                        lastError = error;
                        askNext(some);
                    });
        }

        /** Takes a thread, because the client answers to nobody who does not wait, and asks anew only if it is told to. */
        private void askClient() {
            try {
                if (like != null) {
                    client.refreshPartitions();
                }
                List<Owner> owners = new ArrayList<>();
                for (RedisClusterNode node : client.getPartitions()) {
                    RedisURI uri = node.getUri();
                    like = uri;
                    if (!node.getRole().isUpstream()) {
                        continue;
                    }
                    node.getSlots().forEach(slot -> owners.add(new Owner(slot, slot, uri.getHost(), uri.getPort())));
                }
                found(owners);
            } catch (Throwable e) {
                end(e);
            } finally {
                clientsAsked.decrementAndGet();
            }
        }

        private void found(List<Owner> owners) {
            try {
                owners.forEach(owner -> {
                    Server server = at(owner.host, owner.port);
                    for (int slot = owner.from; slot <= owner.to; slot++) {
                        slots.set(slot, server);
                    }
                });
                forgetThoseWhoHaveGone();
                end(null);
            } catch (RuntimeException e) {
                end(e);
            }
        }

        private void end(@Nullable Throwable why) {
            endedAt = now();
            if (why == null) {
                outcome.complete(null);
            } else {
                outcome.completeExceptionally(Errors.unreachable(why));
            }
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

        /** What a node says to CLUSTER SLOTS: of each stretch its ends, who has it, and his replicas. */
        private List<Owner> read(List<Object> reply, Server by) {
            List<Owner> owners = new ArrayList<>();
            for (Object stretch : reply) {
                List<?> parts = (List<?>) stretch;
                List<?> node = (List<?>) parts.get(2);
                owners.add(
                        new Owner(number(parts.get(0)), number(parts.get(1)), hostIn(node, by), number(node.get(1))));
            }
            return owners;
        }

        /** A question mark stands for a host name that nobody knows; then the address follows behind the id of the node. */
        private String hostIn(List<?> node, Server by) {
            String host = text(node.get(0));
            if (host.equals("?") && node.size() > 3 && node.get(3) instanceof List<?> more) {
                for (int i = 0; i + 1 < more.size(); i += 2) {
                    if (text(more.get(i)).equals("ip")) {
                        host = text(more.get(i + 1));
                    }
                }
            }
            return host.isEmpty() || host.equals("?") ? hostOf(by) : host;
        }

        private static int number(Object part) {
            return Math.toIntExact((Long) part);
        }

        private static String text(@Nullable Object part) {
            return part == null ? "" : new String((byte[]) part, StandardCharsets.UTF_8);
        }
    }
}
