package io.github.spillgate.redis;

import io.github.spillgate.AsyncCloseable;
import io.github.spillgate.Charge;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.redis.lane.BatchBounds;
import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.redis.lane.Errors;
import io.github.spillgate.redis.lane.LoopLanes;
import io.github.spillgate.redis.lane.OpenConnection;
import io.github.spillgate.redis.lane.PendingDecision;
import io.github.spillgate.redis.lane.WaitingDecisions;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreRequest.Mode;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * A store that decides in Redis: one script in one round trip, on the clock of Redis.
 *
 * <p>All instances of a service that use the same Redis, namespace and limiter name share their counts. Each count
 * expires once it no longer affects any decision.
 *
 * <p>The store opens its own connections at first use: one for callers on any thread, and with a known address one on
 * each event loop on which decisions are requested; see {@link Builder#nodes}. A client of the caller is not shut down
 * by the store. Shutting down a {@link RedisClient} also closes the store's connection on it, but not those on event
 * loops. The connections to the nodes of a cluster only share the threads of the {@link RedisClusterClient}. So close
 * the store before the client, and wait for {@link #closeLater()}.
 */
public final class RedisStore implements LimitStore, AsyncCloseable {
    // Design notes.
    //
    // The path of a decision. The topology finds the server that owns the hash slot, and the server chooses a lane
    // (Topology, Server, LoopLanes, Lane). The decision joins the queue of the lane's connection (PendingDecision,
    // BatchQueue). Each batch is sent as one call of a script, and encoded right before that (Batch, ScriptRunner,
    // OpenConnection, ScriptRequest). The reply is decoded, and each decision is emitted (ScriptReply, Batch,
    // PendingDecision).
    //
    // All other commands are sent to the owner of a slot by SlotRouter, on the lane for callers on any thread.

    /** The most permits of one lease: a reply has four bytes for their number. */
    private static final long MOST_LEASED = 0xffff_ffffL;

    private static final Duration LONGEST_CLOSING = Duration.ofSeconds(2);

    private final Topology topology;
    private final SlotRouter router;

    /** Emits replies for which no caller waits. */
    private final SlotRouter background;

    private final MultiSlotDecider multiSlot;
    private final HoldCommands holdCommands;
    private final RefundCommands refundCommands;
    private final ResetCommand resetCommand;
    private final ReconcileCommands reconcileCommands;
    private final CountKeys keys;
    private final Scheduler deliverOn;
    private final WaitingDecisions waiting;
    private final Mono<Void> closing;

    private RedisStore(Builder builder) {
        AbstractRedisClient client = builder.client == null ? RedisClient.create(builder.nodes.get(0)) : builder.client;
        keys = new CountKeys(builder.namespace);
        LoopLanes loops = LoopLanes.of(client, builder.nodes, toString());
        deliverOn = builder.deliverOn == null ? Schedulers.parallel() : builder.deliverOn;
        waiting = new WaitingDecisions(builder.bounds, deliverOn);
        Server.Settings settings = new Server.Settings(
                keys,
                Script.readAll(builder.change),
                builder.bounds,
                deliverOn,
                builder.deliverOn == null,
                loops,
                new EvictionPolicy(toString()),
                builder.longestSilence);
        topology = client instanceof RedisClusterClient cluster
                ? new Cluster(cluster, builder.nodes, settings)
                : new Topology.SingleServer((RedisClient) client, builder.nodes, settings);
        router = new SlotRouter(topology, deliverOn);
        holdCommands = new HoldCommands(router, keys);
        refundCommands = new RefundCommands(router, keys);
        resetCommand = new ResetCommand(router, keys);
        background = new SlotRouter(topology, Background.scheduler());
        reconcileCommands = new ReconcileCommands(background, keys, holdCommands);
        multiSlot = new MultiSlotDecider(this, builder.longestPeek, deliverOn);
        closing = closing(topology, loops, builder.client == null ? shutDown(client) : Mono.empty());
    }

    /** Returns a Mono that closes the connections once, and then the client if that is the store's own. */
    private static Mono<Void> closing(Topology topology, @Nullable LoopLanes loops, Mono<Void> shutDown) {
        return Mono.fromFuture(
                        () -> loops == null
                                ? topology.beginClosing()
                                : CompletableFuture.allOf(topology.beginClosing(), loops.beginClosing()),
                        true)
                // If the client has been shut down already, the future may never complete.
                .timeout(LONGEST_CLOSING, Schedulers.parallel())
                .onErrorComplete()
                .then(shutDown)
                // Off the connection's thread, because the subscriber may wait for that thread to end.
                .publishOn(Schedulers.parallel())
                .cache();
    }

    private static Mono<Void> shutDown(AbstractRedisClient client) {
        return Mono.fromFuture(() -> client.shutdownAsync(0, LONGEST_CLOSING.toSeconds(), TimeUnit.SECONDS), true)
                .onErrorComplete();
    }

    /**
     * Parses the URI of a Redis server, as it is written in configuration.
     *
     * @param text the URI, such as {@code redis://user:password@localhost:6379}
     * @return the parsed URI, for {@code RedisClient.create}
     * @throws IllegalArgumentException if the text is not a URI of a Redis server; the message omits everything between
     *     the scheme and the last {@code @}, which may be a password, and the exception has no cause
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs, so that no client could
     *     connect
     */
    public static RedisURI uri(String text) {
        return RedisUris.parse(text);
    }

    /**
     * Parses the URIs of some nodes of a cluster, as they are written in configuration. These nodes name the others.
     *
     * @param text the URIs, such as {@code redis://user:password@node-1:6379,node-2:6379}
     * @return the parsed URIs, for {@code RedisClusterClient.create}
     * @throws IllegalArgumentException if the text is malformed, as in {@link #uri(String)}
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs, so that no client could
     *     connect
     */
    public static List<RedisURI> clusterUris(String text) {
        return RedisUris.parseCluster(text);
    }

    /**
     * Returns a store with the default settings, for the server at this address.
     *
     * @param uri the server, such as {@code RedisURI.create("redis://localhost:6379")}
     * @return the store, with a client of its own, which is shut down when the store is closed
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
     */
    public static RedisStore create(RedisURI uri) {
        return builder(uri).build();
    }

    /**
     * Returns a store with the default settings, on a client of the caller.
     *
     * <p>A {@link RedisClient} does not reveal where its server is, so the store connects on threads of the client, and
     * each decision takes a thread switch or two. {@link #create(RedisURI)} avoids that on event loops; so does {@link
     * Builder#nodes}, with the caller's client. If the nodes of a cluster need TLS, or a user and a password, see that
     * method too.
     *
     * @param client the caller's {@link RedisClient} or {@link RedisClusterClient}, as in {@link
     *     #builder(AbstractRedisClient)}
     * @return the store
     * @throws IllegalArgumentException if the client is neither
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
     */
    public static RedisStore create(AbstractRedisClient client) {
        return builder(client).build();
    }

    /**
     * Returns a builder of a store for the server at this address.
     *
     * @param uri the server, such as {@code RedisURI.create("redis://localhost:6379")}
     * @return the builder of a store with a client of its own
     */
    public static Builder builder(RedisURI uri) {
        Checks.present(uri, "uri", "RedisURI.create(\"redis://localhost:6379\")");
        return new Builder(null).nodes(List.of(uri));
    }

    /**
     * Returns a builder of a store, on a client of the caller.
     *
     * @param client the caller's {@link RedisClient}, on which the store opens its own connection; or the caller's
     *     {@link RedisClusterClient}, of which the store shares the threads and options, and learns where the nodes are
     * @return the builder
     * @throws IllegalArgumentException if the client is neither
     */
    public static Builder builder(AbstractRedisClient client) {
        Checks.present(client, "client", "RedisClient.create(uri)");
        if (client instanceof RedisClient || client instanceof RedisClusterClient) {
            return new Builder(client);
        }
        throw new IllegalArgumentException(
                client + " is neither a RedisClient nor a RedisClusterClient: expected one of these, for example"
                        + " RedisClient.create(uri)");
    }

    /**
     * {@inheritDoc}
     *
     * <p>In Redis Cluster, counts in several hash slots are charged slot by slot, and refunded if a later slot denies.
     * Until the refund, other requests may be denied. {@link Charge#group} puts keys into one slot.
     *
     * <p>Redis compares the deadline with its own clock. The store computes a time on that clock which is not after the
     * deadline, from the times in recent replies.
     */
    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        List<Claim> claims = request.claims();
        if (claims.isEmpty()) {
            return Mono.error(new LimitStoreException(Kind.REJECTED, "no claim was given: expected at least one"));
        }
        int slot = topology.slotOf(claims.get(0));
        for (int i = 1; i < claims.size(); i++) {
            if (topology.slotOf(claims.get(i)) != slot) {
                List<List<Claim>> bySlot =
                        List.copyOf(router.bySlot(claims, Function.identity()).values());
                return request.mode() == Mode.TAKE
                        ? multiSlot.take(claims, bySlot, request.deadline())
                        : multiSlot.peek(claims, bySlot).publishOn(deliverOn);
            }
        }
        return PendingDecision.of(withinOneReply(request), slot, this::enqueue, this::releaseUnused);
    }

    private static StoreRequest withinOneReply(StoreRequest request) {
        if (request.mode() != Mode.LEASE || request.claims().get(0).permits() <= MOST_LEASED) {
            return request;
        }
        return StoreRequest.lease(
                request.claims().get(0).withPermits(MOST_LEASED), request.parts(), request.deadline());
    }

    /** Releases the permits of a decision that no caller gets. They expire if this fails. */
    void releaseUnused(StoreDecision decision) {
        List<Claim> holds = decision.claims().stream()
                .filter(claim -> claim.holdId() != null && claim.permits() > 0)
                .toList();
        if (!holds.isEmpty()) {
            holdCommands.release(holds).subscribe(null, error -> {});
        }
    }

    /** Adds a decision to the queue of the server that owns its slot. */
    private void enqueue(PendingDecision decision) {
        Server server = topology.known(decision.slot());
        if (server != null) {
            server.enqueue(decision);
            return;
        }
        // Also if too many wait: all waiters may depend on a search that only the next caller abandons.
        Mono<Server> owner = topology.find(decision.slot());
        waiting.await(owner, decision, found -> found.enqueue(decision));
    }

    /**
     * {@inheritDoc}
     *
     * <p>If the key of a count holds a value that this library has not written, a correction is not possible, and a
     * refund fails those of its hash slot. The id of a settlement is kept for 60 s.
     */
    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return SlotRouter.<Correction, Class<?>>correctInGroups(corrections, Correction::getClass, this::correct);
    }

    /** Makes corrections of one kind. */
    @SuppressWarnings("unchecked") // by the kind
    private Mono<List<Corrected>> correct(Class<?> kind, List<? extends Correction> some) {
        if (kind == Refund.class) {
            return refundCommands.refund((List<Refund>) some);
        } else if (kind == RefundOldest.class) {
            return refundCommands.refundOldest((List<RefundOldest>) some);
        } else if (kind == RefundCharged.class) {
            return refundCommands.refundCharged((List<RefundCharged>) some);
        } else if (kind == Settlement.class) {
            return reconcileCommands.settle((List<Settlement>) some).publishOn(deliverOn);
        } else if (kind == Reconciliation.class) {
            return reconcileCommands.reconcile((List<Reconciliation>) some);
        }
        return Mono.just(Collections.nCopies(some.size(), Corrected.of(CorrectionOutcome.UNSUPPORTED)));
    }

    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return action == HoldAction.RENEW
                ? holdCommands.renew(holds)
                : holdCommands.release(holds).thenReturn(HoldRenewal.released(holds));
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return resetCommand.reset(claims, deadline);
    }

    /** {@inheritDoc} The registrations are in one value, and what is published in another, both in one hash slot. */
    @Override
    public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        byte[][] names = keys.fleet();
        byte[] sent = FleetMessages.request(request);
        return Mono.defer(() -> background.run(topology.slotOf(names[0]), Script.Purpose.EXCHANGE, names, sent))
                .map(reply -> FleetMessages.reply(reply, request));
    }

    /**
     * Connects and loads the scripts; in Redis Cluster on every node, if none is named. It is an error if no node can
     * be reached.
     */
    @Override
    public Mono<Void> prepare(String node) {
        return topology.prepare(node).onErrorMap(Errors::translate);
    }

    @Override
    public StoreState state() {
        return StoreState.of(Source.REDIS);
    }

    /** Returns the node that decides. In Redis Cluster, several nodes that decide together count as another one. */
    @Override
    public String node(List<Claim> claims) {
        return router.namesOfOwners(claims);
    }

    /**
     * {@inheritDoc} Closes the store's connections, within 2 s, and its own client if it has one. Wait for this before
     * shutting down another client, or Netty may warn about a terminated thread: {@code
     * limiter.closeLater().then(store.closeLater()).then(Mono.fromFuture(client.shutdownAsync()))}.
     */
    @Override
    public Mono<Void> closeLater() {
        return closing;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "RedisStore[" + keys + "]";
    }

    /** Builder of a {@link RedisStore}. Not thread-safe. */
    public static final class Builder {

        private static final Pattern NAMESPACE = Pattern.compile("[A-Za-z0-9._:-]{1,64}");

        /** The user's client; null if the store creates one of its own. */
        private final @Nullable AbstractRedisClient client;

        private List<RedisURI> nodes = List.of();
        private Duration longestPeek = Duration.ofMillis(50);
        private Duration longestSilence = OpenConnection.LONGEST_SILENCE;
        private String namespace = "spillgate";

        /** Null for the default. */
        private @Nullable Scheduler deliverOn;

        private BatchBounds bounds = BatchBounds.DEFAULT;
        private UnaryOperator<String> change = UnaryOperator.identity();

        private Builder(@Nullable AbstractRedisClient client) {
            this.client = client;
        }

        /**
         * Sets the namespace, the prefix of all keys in Redis; {@code spillgate} by default. Stores with different
         * namespaces can use one Redis without sharing counts.
         *
         * @param namespace 1 to 64 of the characters {@code A-Z a-z 0-9 . _ : -}
         * @return this builder
         * @throws IllegalArgumentException if the namespace is empty, too long or has other characters
         */
        public Builder namespace(String namespace) {
            Checks.present(namespace, "namespace", "\"shop:prod\"");
            if (!NAMESPACE.matcher(namespace).matches()) {
                String shown = namespace.substring(0, Math.min(80, namespace.length()));
                throw new IllegalArgumentException("namespace \"" + shown.replaceAll("[^ -~]", "?")
                        + "\" would need escaping in a key: expected 1 to 64 of the characters A-Z a-z 0-9 . "
                        + "_ : -, for example \"shop:prod\"");
            }
            this.namespace = namespace;
            return this;
        }

        /**
         * Sets the URIs that the caller's client was created with, because a client does not reveal them.
         *
         * <p>With these, the store opens one more connection to each node on each event loop on which decisions are
         * requested, 32 loops at most. Such a decision is sent and answered on that loop, without a thread switch. The
         * connections have the options and resources of the client. Loops get no connections if these need TLS or a
         * credentials provider, which could block the loop.
         *
         * <p>For a {@link RedisClusterClient} these are some nodes of the cluster. They also set the user, password and
         * TLS setting for the connections to all nodes, and are required if nodes need more than an address.
         *
         * @param nodes the server of a {@link RedisClient}, or one or more nodes of a cluster
         * @return this builder
         * @throws IllegalArgumentException if there are none
         */
        public Builder nodes(Collection<RedisURI> nodes) {
            this.nodes = List.copyOf(nodes);
            if (this.nodes.isEmpty()) {
                throw new IllegalArgumentException("no node is named: expected at least one, for example"
                        + " RedisStore.clusterUris(\"redis://user:password@node-1:6379\")");
            }
            return this;
        }

        /**
         * Sets the scheduler on which decisions are emitted. Decisions that were requested on an event loop with a
         * connection of its own are emitted there instead; see {@link #nodes}.
         *
         * <p>By default the thread that reads from Redis emits up to 8 decisions that arrive together, which saves a
         * thread switch. {@link Schedulers#parallel()} emits all others, and all while what follows a decision takes
         * more than 50 µs: the other decisions on this connection would wait for it. With {@link
         * Schedulers#immediate()} they do, however long that takes.
         *
         * @param scheduler a scheduler that does not block
         * @return this builder
         */
        public Builder deliverOn(Scheduler scheduler) {
            this.deliverOn = Checks.present(scheduler, "scheduler", "Schedulers.parallel()");
            return this;
        }

        /**
         * Bounds the batching of decisions. The defaults are 128 counts in a batch, 256 batches in flight and 100,000
         * waiting decisions. The bounds apply to each connection, of which there is one for callers on any thread, and
         * one for each event loop as described at {@link #nodes}.
         *
         * <p>All decisions that an event loop requests in one run are sent together, in up to 4 batches. While 4
         * batches are in flight, decisions wait for the next reply. If no reply has taken less than 5 ms, Redis is far
         * away, and decisions wait only while {@code inFlight} batches are in flight.
         *
         * <p>In a cluster the bounds apply to each node. The commands that are sent to one node for several slots at
         * the same time count as one batch.
         *
         * @param counts the highest number of counts in a batch, 1 to 1,000; a single decision on more counts is sent
         *     as well. Several decisions on one count share a batch, with at most 8 times as many decisions as counts
         *     in all. With 1 there is no batching
         * @param inFlight the highest number of batches in flight, 1 to 1,000
         * @param waiting the highest number of waiting decisions, 1 to 1,000,000; any further decision fails at once
         *     as {@link LimitStoreException.Kind#UNAVAILABLE}
         * @return this builder
         * @throws IllegalArgumentException if one of them is out of range
         */
        public Builder batching(int counts, int inFlight, int waiting) {
            this.bounds = new BatchBounds(counts, inFlight, waiting);
            return this;
        }

        /**
         * Sets how long a denial in one slot waits for the replies of the others; tests set it so long that a busy
         * machine does not matter.
         */
        Builder longestPeek(Duration longest) {
            this.longestPeek = longest;
            return this;
        }

        /**
         * Sets how long commands may be in flight on a connection without any reply, before another one replaces it;
         * tests set it so long that a busy machine does not matter.
         */
        Builder longestSilence(Duration longest) {
            this.longestSilence = longest;
            return this;
        }

        /** Changes the text of the scripts, so that a test can set their clock. */
        Builder scripts(UnaryOperator<String> change) {
            this.change = change;
            return this;
        }

        /**
         * Returns the store. Nothing is sent to Redis yet.
         *
         * @return the store
         * @throws IllegalArgumentException if there are several nodes, and the client is not for a cluster
         * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
         */
        public RedisStore build() {
            if (client instanceof RedisClient && nodes.size() > 1) {
                throw new IllegalArgumentException(nodes.size()
                        + " nodes are too many for a RedisClient: expected the one that it was created with, or a"
                        + " RedisClusterClient, for example RedisStore.builder(RedisClusterClient.create(nodes))");
            }
            NettyVersion.check();
            return new RedisStore(this);
        }
    }
}
