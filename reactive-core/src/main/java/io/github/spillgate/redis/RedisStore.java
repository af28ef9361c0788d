package io.github.spillgate.redis;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Charge;
import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.redis.CountKeys.HoldKeys;
import io.github.spillgate.redis.ScriptRequest.DecidedClaim;
import io.github.spillgate.redis.ScriptRequest.Mode;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.util.retry.Retry;

/**
 * A store that decides in Redis: one script in one round trip, on the clock of Redis.
 *
 * <p>All instances of a service that use the same Redis, namespace and limiter name share their counts. Each count
 * expires by itself once it no longer affects any decision.
 *
 * <p>The store opens its own connections at first use: one for callers on any thread, and with a known address one on
 * each event loop on which decisions are requested; see {@link Builder#nodes}. A client of the caller is not shut down
 * by the store. Shutting down a {@link RedisClient} also closes the store's connection on it, but not those on event
 * loops. The connections to the nodes of a cluster only share the threads of the {@link RedisClusterClient}. So close
 * the store before the client, and wait for {@link #closeLater()}.
 */
public final class RedisStore implements LimitStore, AutoCloseable {

    /** The stamp of a charge at an unknown time: it may be from before any reset. */
    private static final long UNKNOWN = 0;

    /** The value of a reset mark; the script reads it as a double. */
    private static final Pattern NUMBER = Pattern.compile("\\d+");

    /** The beginning of the reply to a reset that was received after its deadline; the time in microseconds follows. */
    private static final String LATE = "LATE ";

    /** The most permits of one lease: a reply has four bytes for their number. */
    private static final long MOST_LEASED = 0xffff_ffffL;

    /** How often a reset is retried if the bound of the server's clock was too low. */
    private static final int MOST_RETRIES = 3;

    private static final Duration LONGEST_CLOSING = Duration.ofSeconds(2);

    private final Topology topology;
    private final SlotRouter router;
    private final MultiSlotDecider multiSlot;
    private final CountKeys keys;
    private final Delivery delivery;
    private final BatchBounds bounds;
    private final AtomicInteger waiting = new AtomicInteger();
    private final Mono<Void> closing;

    private RedisStore(Builder builder) {
        AbstractRedisClient client = builder.client == null ? RedisClient.create(builder.nodes.get(0)) : builder.client;
        LoopLanes loops = LoopLanes.of(client, builder.nodes);
        bounds = builder.bounds;
        keys = new CountKeys(builder.namespace);
        delivery = new Delivery(builder.deliverOn);
        Server.Settings settings = new Server.Settings(
                keys, Script.readAll(builder.change), bounds, delivery, loops, new EvictionPolicy(toString()));
        topology = client instanceof RedisClusterClient cluster
                ? new Cluster(cluster, builder.nodes, settings)
                : Topology.standalone((RedisClient) client, builder.nodes, settings);
        router = new SlotRouter(topology, builder.deliverOn);
        multiSlot = new MultiSlotDecider(this::take, this::peek, this::refund, builder.longestPeek, builder.deliverOn);
        closing = Mono.fromFuture(
                        () -> loops == null
                                ? topology.beginClosing()
                                : CompletableFuture.allOf(topology.beginClosing(), loops.beginClosing()),
                        true)
                // If the client has been shut down already, the future may never complete.
                .timeout(LONGEST_CLOSING, Schedulers.parallel())
                .onErrorComplete()
                .then(builder.client == null ? shutDown(client) : Mono.empty())
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
     * Returns a store with the default settings, on a client of the caller. A client does not reveal where its server
     * is, so the store connects on threads of the client, and each decision takes a thread switch. {@link
     * #create(RedisURI)} avoids that on event loops; so does {@link Builder#nodes}, with the caller's client.
     *
     * @param client the caller's client, on which the store opens its own connection
     * @return the store
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
     */
    public static RedisStore create(RedisClient client) {
        return builder(client).build();
    }

    /**
     * Returns a store in Redis Cluster with the default settings. If the nodes need TLS, or a user and a password, see
     * {@link Builder#nodes}.
     *
     * @param client the caller's client; the store shares its threads and options, and learns from it where the nodes
     *     are
     * @return the store
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
     */
    public static RedisStore create(RedisClusterClient client) {
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
     * Returns a builder of a store.
     *
     * @param client the caller's client, on which the store opens its own connection
     * @return the builder
     */
    public static Builder builder(RedisClient client) {
        return new Builder(Checks.present(client, "client", "RedisClient.create(uri)"));
    }

    /**
     * Returns a builder of a store, for a client of either kind.
     *
     * @param client the caller's {@link RedisClient} or {@link RedisClusterClient}
     * @return the builder
     * @throws IllegalArgumentException if the client is neither
     */
    public static Builder builder(AbstractRedisClient client) {
        if (client instanceof RedisClusterClient cluster) {
            return builder(cluster);
        }
        if (client instanceof RedisClient one) {
            return builder(one);
        }
        throw new IllegalArgumentException(
                client + " is no client that is known: expected one, for example RedisClient.create(uri)");
    }

    /**
     * Returns a builder of a store in Redis Cluster.
     *
     * @param client the caller's client; the store shares its threads and options, and learns from it where the nodes
     *     are
     * @return the builder
     */
    public static Builder builder(RedisClusterClient client) {
        return new Builder(Checks.present(client, "client", "RedisClusterClient.create(uri)"));
    }

    /**
     * {@inheritDoc}
     *
     * <p>In Redis Cluster, counts in several hash slots are charged slot by slot, and refunded if a later slot denies.
     * Until the refund, other requests may be denied. {@link Charge#group} puts keys into one slot.
     */
    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return take(claims, PendingDecision.NO_DEADLINE);
    }

    /**
     * {@inheritDoc}
     *
     * <p>Redis compares the deadline with its own clock. The store computes a time on that clock which is not after the
     * deadline, from the times in recent replies.
     */
    @Override
    public Mono<StoreDecision> take(List<Claim> claims, long deadline) {
        return decide(claims, Mode.TAKE, deadline);
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return decide(claims, Mode.PEEK, PendingDecision.NO_DEADLINE);
    }

    private Mono<StoreDecision> decide(List<Claim> claims, Mode mode, long deadline) {
        if (claims.isEmpty()) {
            return Mono.error(new LimitStoreException("no claim was given: expected at least one", null));
        }
        int slot = router.slotOf(claims.get(0));
        for (int i = 1; i < claims.size(); i++) {
            if (router.slotOf(claims.get(i)) != slot) {
                List<List<Claim>> bySlot =
                        List.copyOf(router.bySlot(claims, Function.identity()).values());
                return mode == Mode.TAKE
                        ? multiSlot.take(claims, bySlot, deadline)
                        : multiSlot.peek(claims, bySlot).publishOn(delivery.scheduler());
            }
        }
        return PendingDecision.of(claims, slot, mode, deadline, this::enqueue, this::releaseUnused);
    }

    /** Releases the permits of a decision after its subscriber has cancelled. They expire if this fails. */
    private void releaseUnused(StoreDecision decision) {
        List<Claim> holds = decision.claims().stream()
                .filter(claim -> claim.holdId() != null && claim.permits() > 0)
                .toList();
        if (!holds.isEmpty()) {
            release(holds).subscribe(null, error -> {});
        }
    }

    @Override
    public Mono<StoreDecision> lease(Claim claim, int parts, long deadline) {
        Claim asked = claim.permits() > MOST_LEASED ? claim.asking(MOST_LEASED) : claim;
        return PendingDecision.lease(asked, router.slotOf(claim), parts, deadline, this::enqueue);
    }

    /** Adds a decision to the queue of the server that owns its slot. */
    private void enqueue(PendingDecision decision) {
        Server server = topology.known(decision.slot());
        if (server != null) {
            server.enqueue(decision);
            return;
        }
        // First, because all waiters may depend on a search that only the next caller abandons.
        Mono<Server> owner = topology.find(decision.slot());
        if (waiting.incrementAndGet() > bounds.waiting()) {
            waiting.decrementAndGet();
            decision.fail(bounds.tooManyWait());
            return;
        }
        owner.doFinally(end -> waiting.decrementAndGet())
                .subscribe(
                        found -> found.enqueue(decision),
                        error -> delivery.deliver(() -> decision.fail(Errors.translate(error))));
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        List<DecidedClaim> taken = new ArrayList<>(decision.usages().size());
        for (StoreDecision part : decision.parts()) {
            part.usages().forEach(usage -> taken.add(new DecidedClaim(usage.claim(), part)));
        }
        return refundDecided(taken);
    }

    private Mono<Void> refund(StoreDecision part, List<Claim> taken) {
        return refundDecided(
                taken.stream().map(claim -> new DecidedClaim(claim, part)).toList());
    }

    private Mono<Void> refundDecided(List<DecidedClaim> taken) {
        List<Claim> holds = taken.stream()
                .map(DecidedClaim::claim)
                .filter(RedisStore::isHold)
                .toList();
        if (holds.isEmpty()) {
            return refundRates(taken);
        }
        List<DecidedClaim> rates =
                taken.stream().filter(one -> !isHold(one.claim())).toList();
        return rates.isEmpty()
                ? release(holds)
                : Mono.whenDelayError(refundRates(rates), release(holds)).publishOn(delivery.scheduler());
    }

    private static boolean isHold(Claim claim) {
        return claim.limit().algorithm() == Algorithm.CONCURRENT;
    }

    private Mono<Void> refundRates(List<DecidedClaim> taken) {
        return router.inEachSlot(taken, DecidedClaim::claim, this::refundRates).then();
    }

    private Mono<Void> refundRates(int slot, List<DecidedClaim> taken) {
        List<Claim> claims = taken.stream().map(DecidedClaim::claim).toList();
        return router.togetherOrEach(
                taken,
                refund(slot, keys.countsAndResetMarks(claims), ScriptRequest.refund(taken)),
                one -> unlessReset(slot, one.claim(), one.decision().stamp(), ScriptRequest.refund(List.of(one))));
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return router.inEachSlot(permits, ChargedPermits::claim, this::refundCharged)
                .then();
    }

    private Mono<Void> refundCharged(int slot, List<ChargedPermits> permits) {
        List<Claim> claims = permits.stream().map(ChargedPermits::claim).toList();
        return router.togetherOrEach(
                permits,
                refund(slot, keys.countsAndResetMarks(claims), ScriptRequest.refundCharged(permits)),
                one -> unlessReset(slot, one.claim(), one.stamp(), ScriptRequest.refundCharged(List.of(one))));
    }

    /** Refunds permits of a count, unless it was reset at the time of the stamp or later. */
    private Mono<Object> unlessReset(int slot, Claim claim, long stamp, byte[] request) {
        return resetAt(slot, claim)
                .filter(reset -> stamp <= reset)
                .hasElement()
                .flatMap(isReset -> isReset ? Mono.empty() : refund(slot, keys.counts(List.of(claim)), request));
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return inEachSlot(
                claims.stream().filter(claim -> !isHold(claim)).toList(),
                (slot, all) -> router.togetherOrEach(
                        all,
                        refundOldest(slot, keys.countsAndRefundMarks(all), all),
                        // Without a mark, another instance may take this refund for lost data, and undo it.
                        claim -> refundOldest(slot, keys.counts(List.of(claim)), List.of(claim))));
    }

    @Override
    public Mono<Void> release(List<Claim> holds) {
        return inEachSlot(
                holds,
                (slot, all) -> router.togetherOrEach(
                        byCount(all), changeHolds(slot, false, all), ofCount -> changeHolds(slot, false, ofCount)));
    }

    @Override
    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return router.inEachSlot(
                        holds,
                        Function.identity(),
                        (slot, all) -> renew(slot, all)
                                .onErrorResume(
                                        Redirect::isCausedByTryAgain,
                                        e -> flatten(
                                                router.concurrently(byCount(all), ofCount -> renew(slot, ofCount)))))
                .as(RedisStore::flatten);
    }

    private Mono<List<HoldRenewal>> renew(int slot, List<Claim> holds) {
        return changeHolds(slot, true, holds).map(reply -> renewals(holds, reply));
    }

    private static Mono<List<HoldRenewal>> flatten(Flux<List<HoldRenewal>> renewals) {
        return renewals.collectList()
                .map(lists -> lists.stream().flatMap(List::stream).toList());
    }

    private static Collection<List<Claim>> byCount(List<Claim> holds) {
        return holds.stream().collect(Collectors.groupingBy(Claim::handle)).values();
    }

    private static List<HoldRenewal> renewals(List<Claim> holds, ScriptReply reply) {
        List<HoldRenewal> renewals = new ArrayList<>(holds.size());
        for (int i = 0; i < holds.size(); i++) {
            renewals.add(new HoldRenewal(holds.get(i), outcome(reply, i)));
        }
        return renewals;
    }

    private static HoldRenewal.RenewalOutcome outcome(ScriptReply reply, int i) {
        return switch (reply.status(i)) {
            case FREE ->
                reply.granted(i) == 1 ? HoldRenewal.RenewalOutcome.RENEWED : HoldRenewal.RenewalOutcome.RESTORED;
            case DENIED -> HoldRenewal.RenewalOutcome.RELEASED;
            default -> HoldRenewal.RenewalOutcome.FOREIGN;
        };
    }

    /** Renews or releases holds in one command. While their slot is being migrated, Redis may refuse that. */
    private Mono<ScriptReply> changeHolds(int slot, boolean renews, List<Claim> holds) {
        HoldKeys counts = keys.ofHolds(holds);
        byte[][] names = counts.toArray();
        byte[] request = ScriptRequest.holds(renews, holds, counts.indexes());
        return router.run(slot, Script.Purpose.RENEW, names, request).map(reply -> new ScriptReply((byte[]) reply));
    }

    private Mono<Object> refundOldest(int slot, byte[][] names, List<Claim> claims) {
        return refund(slot, names, ScriptRequest.refundOldest(claims));
    }

    private Mono<Object> refund(int slot, byte[][] names, byte[] request) {
        return router.run(slot, Script.Purpose.REFUND, names, request);
    }

    /** Returns when a count was last reset, in microseconds; empty if it never was, or too long ago to matter. */
    private Mono<Double> resetAt(int slot, Claim claim) {
        byte[] mark = keys.resetMark(claim);
        return router.send(
                        slot,
                        new byte[][] {mark},
                        (server, first, then) -> first.send(commands -> commands.getrange(mark, 0, -1)))
                .map(text -> new String(text, StandardCharsets.US_ASCII))
                // A foreign value is not a reset, here or in the script; the script also reads 0x1f and 1e3 as numbers.
                .filter(NUMBER.asMatchPredicate())
                .map(Double::parseDouble);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return reset(claims, PendingDecision.NO_DEADLINE);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return inEachSlot(
                claims,
                (slot, all) -> router.togetherOrEach(
                        all,
                        reset(slot, keys.countsAndResetMarks(all), all, deadline),
                        // A count that has been deleted needs its mark, however late.
                        claim -> reset(slot, keys.counts(List.of(claim)), List.of(), deadline)
                                .then(reset(
                                        slot,
                                        new byte[][] {keys.resetMark(claim)},
                                        List.of(claim),
                                        PendingDecision.NO_DEADLINE))));
    }

    private Mono<Object> reset(int slot, byte[][] names, List<Claim> marked, long deadline) {
        return router.send(slot, names, (server, first, then) -> {
            AtomicReference<@Nullable RedisClock> used = new AtomicReference<>();
            return server.script(Script.Purpose.RESET)
                    .run(first, then, names, clock -> {
                        used.set(clock);
                        return ScriptRequest.reset(marked, clock.microsAt(deadline));
                    })
                    .doOnNext(reply -> checkInTime(reply.toString(), used.get()))
                    .retryWhen(Retry.max(MOST_RETRIES)
                            .filter(e -> e instanceof LimitStoreDeadlineException && isBefore(deadline, used.get()))
                            .onRetryExhaustedThrow((spec, last) -> last.failure()));
        });
    }

    private static boolean isBefore(long deadline, @Nullable RedisClock clock) {
        return clock != null && !clock.isAfter(deadline);
    }

    /** A late reset changes nothing. The reply has the time, which is a new bound for the deadline on that clock. */
    private static void checkInTime(String reply, @Nullable RedisClock clock) {
        if (reply.startsWith(LATE)) {
            if (clock != null) {
                clock.record(Long.parseLong(reply.substring(LATE.length())));
            }
            throw new LimitStoreDeadlineException("Redis did not reset: it received the request after the deadline");
        }
    }

    private Mono<Void> inEachSlot(List<Claim> claims, BiFunction<Integer, List<Claim>, Mono<Void>> request) {
        return router.inEachSlot(claims, Function.identity(), request).then();
    }

    /**
     * {@inheritDoc}
     *
     * <p>A reconciliation cannot be charged if the key of its count holds a value that this library has not written.
     */
    @Override
    public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        if (reconciliations.isEmpty()) {
            return reconcile(0, reconciliations);
        }
        return router.inEachSlot(reconciliations, Reconciliation::claim, this::reconcile)
                .collectList()
                .map(parts -> parts.size() == 1
                        ? parts.get(0)
                        : StoreDecision.ofParts(
                                reconciliations.stream()
                                        .map(Reconciliation::claim)
                                        .toList(),
                                parts));
    }

    private Mono<StoreDecision> reconcile(int slot, List<Reconciliation> reconciliations) {
        List<Reconciliation> ofHolds =
                reconciliations.stream().filter(one -> isHold(one.claim())).toList();
        if (ofHolds.isEmpty()) {
            return reconcileGrants(slot, reconciliations);
        }
        List<Reconciliation> others =
                reconciliations.stream().filter(one -> !isHold(one.claim())).toList();
        Mono<StoreDecision> held = reconcileHolds(slot, ofHolds);
        return others.isEmpty()
                ? held
                : reconcileGrants(slot, others)
                        .zipWith(
                                held,
                                (granted, renewed) -> StoreDecision.ofParts(
                                        reconciliations.stream()
                                                .map(Reconciliation::claim)
                                                .toList(),
                                        List.of(granted, renewed)));
    }

    /** Holds permits again that another store has granted or renewed. */
    private Mono<StoreDecision> reconcileHolds(int slot, List<Reconciliation> reconciliations) {
        List<Claim> holds =
                reconciliations.stream().flatMap(one -> one.holds().stream()).toList();
        if (holds.isEmpty()) {
            return Mono.just(StoreDecision.ofPeek(
                    Source.REDIS,
                    0,
                    reconciliations.stream()
                            .map(one -> StoreUsage.ofHolds(one.claim(), 0, false, 0, 0))
                            .toList()));
        }
        return changeHolds(slot, true, holds).map(reply -> {
            Map<Object, StoreUsage> usages = new LinkedHashMap<>();
            for (Reconciliation one : reconciliations) {
                // Released since, so that there is nothing to hold.
                usages.put(one.claim().handle(), StoreUsage.ofHolds(one.claim(), 0, false, reply.millis(), 0));
            }
            for (int i = 0; i < holds.size(); i++) {
                Claim claim = holds.get(i);
                if (reply.status(i) == ScriptReply.Status.FOREIGN) {
                    usages.remove(claim.handle());
                } else {
                    usages.put(claim.handle(), reply.usage(i, claim.asking(0)));
                }
            }
            return StoreDecision.ofPeek(Source.REDIS, reply.millis(), reply.micros(), List.copyOf(usages.values()));
        });
    }

    private Mono<StoreDecision> reconcileGrants(int slot, List<Reconciliation> reconciliations) {
        byte[][] names = keys.countsAndReconciliationMarks(reconciliations);
        // The request is made when it is sent, because it has the ages of the grants at that time.
        return router.run(slot, Script.Purpose.RECONCILE, names, clock -> ScriptRequest.reconcile(reconciliations))
                .map(reply -> reconciled(reconciliations, new ScriptReply((byte[]) reply)));
    }

    private static StoreDecision reconciled(List<Reconciliation> reconciliations, ScriptReply reply) {
        List<StoreUsage> usages = new ArrayList<>(reconciliations.size());
        long stamp = reply.micros();
        for (int i = 0; i < reconciliations.size(); i++) {
            if (reply.granted(i) == 0) {
                // It was charged earlier, perhaps before a reset.
                stamp = UNKNOWN;
            }
            if (reply.status(i) != ScriptReply.Status.FOREIGN) {
                usages.add(reply.usage(i, reconciliations.get(i).claim()));
            }
        }
        return StoreDecision.ofPeek(Source.REDIS, reply.millis(), stamp, usages);
    }

    @Override
    public Mono<StoreDecision> restore(LostPermits permits) {
        Claim claim = permits.claim();
        byte[][] names = keys.countAndMarks(claim);
        byte[] request = ScriptRequest.restore(permits);
        return Mono.defer(() -> router.run(router.slotOf(claim), Script.Purpose.RECONCILE, names, request))
                .map(reply -> usageIn(new ScriptReply((byte[]) reply), claim));
    }

    /**
     * {@inheritDoc}
     *
     * <p>A settlement cannot take effect if the key of its count holds a value that this library has not written. Its
     * id is kept for 60 s.
     */
    @Override
    public Mono<StoreDecision> settle(List<Settlement> settlements) {
        return router.inEachSlot(settlements, Settlement::claim, this::settle)
                .collectList()
                .map(parts -> parts.size() == 1
                        ? parts.get(0)
                        : StoreDecision.ofParts(
                                settlements.stream().map(Settlement::claim).toList(), parts));
    }

    private Mono<StoreDecision> settle(int slot, List<Settlement> settlements) {
        byte[][] names = keys.countsAndSettlementMarks(settlements);
        return router.run(slot, Script.Purpose.SETTLE, names, clock -> ScriptRequest.settle(settlements, clock::microsAt))
                .map(reply -> settled(settlements, new ScriptReply((byte[]) reply)));
    }

    private static StoreDecision settled(List<Settlement> settlements, ScriptReply reply) {
        List<StoreUsage> usages = new ArrayList<>(settlements.size());
        for (int i = 0; i < settlements.size(); i++) {
            if (reply.status(i) == ScriptReply.Status.FREE) {
                usages.add(reply.usage(i, settlements.get(i).claim()));
            }
        }
        return StoreDecision.ofPeek(Source.REDIS, reply.millis(), usages);
    }

    private static StoreDecision usageIn(ScriptReply reply, Claim claim) {
        boolean isForeign = reply.status(0) == ScriptReply.Status.FOREIGN;
        return StoreDecision.ofPeek(
                Source.REDIS,
                reply.millis(),
                reply.granted(0) == 1 ? reply.micros() : UNKNOWN,
                isForeign ? List.of() : List.of(reply.usage(0, claim)));
    }

    /** {@inheritDoc} The registrations of a limiter are in one value, of at most 1,000 instances. */
    @Override
    public Mono<Integer> register(String limiter, UUID instance, Duration lifetime) {
        byte[][] names = {keys.instances(limiter)};
        byte[] request = ScriptRequest.register(instance, lifetime.toMillis());
        return Mono.defer(() -> router.run(topology.slotOf(names[0]), Script.Purpose.REGISTER, names, request))
                .map(number -> ((Long) number).intValue())
                .filter(number -> number > 0);
    }

    /** Connects and loads the scripts; in Redis Cluster on every node. It is an error if no node can be reached. */
    @Override
    public Mono<Void> prepare() {
        return prepare("");
    }

    @Override
    public Mono<Void> prepare(String node) {
        return topology.prepare(node)
                .publishOn(delivery.scheduler())
                .onErrorMap(e -> Errors.translate(e, new byte[0][]));
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

    /** Closes the store's connections, and its own client if it has one. Does not wait; see {@link #closeLater()}. */
    @Override
    public void close() {
        closing.subscribe();
    }

    /**
     * Closes the store's connections like {@link #close()}, and completes once they are closed, or after 2 s. Closing
     * begins with the first subscriber, and a cancellation does not stop it. Wait for this before shutting down the
     * client, or Netty may warn about a terminated thread: {@code
     * limiter.closeLater().then(store.closeLater()).then(Mono.fromFuture(client.shutdownAsync()))}.
     *
     * @return empty, once the connections are closed; never an error
     */
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
        private String namespace = "spillgate";
        private Scheduler deliverOn = Schedulers.parallel();
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
         * Sets the scheduler on which decisions are emitted; {@link Schedulers#parallel()} by default. Decisions that
         * were requested on an event loop with a connection of its own are emitted there instead; see {@link #nodes}.
         * With {@link Schedulers#immediate()} decisions are emitted on the thread that reads from Redis, which saves a
         * thread switch. Everything that follows a decision must then be short, because all other decisions wait for
         * it.
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
         * <p>All decisions that an event loop requests in one run are sent together, in up to 2 batches. While 2
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
         *     with {@link io.github.spillgate.LimitStoreUnavailableException}
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
