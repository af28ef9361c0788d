package io.github.spillgate.redis;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Charge;
import io.github.spillgate.Claim;
import io.github.spillgate.CounterState;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.Settlement;
import io.github.spillgate.Settlement.Hits;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.RedisClusterURIUtil;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * A store that decides in Redis: one script in one round trip, on the clock of Redis.
 *
 * <p>All instances of a service that use the same Redis, namespace and limiter name share their counts. Each count
 * expires by itself once it no longer affects any decision.
 *
 * <p>The store opens its own connection on the caller's client at first use. The client belongs to the caller: the
 * store does not shut it down. Shutting down a {@link RedisClient} also closes the store's connection. The connections
 * to the nodes of a cluster only share the threads of the {@link RedisClusterClient}: close the store before that
 * client, and wait for {@link #closeLater()}.
 */
public final class RedisStore implements LimitStore, AutoCloseable {

    /**
     * The version of the storage format, part of each key, so that two versions running side by side never misread each
     * other.
     */
    private static final String FORMAT = "2";

    /** The scheme and everything up to the last @, which may be a password, across line breaks. */
    private static final Pattern BEFORE_HOST = Pattern.compile("^([\\w+.-]+://)?.*@", Pattern.DOTALL);

    private static final byte[] OLDEST = ascii("");
    private static final byte[][] NOTHING = {};
    private static final byte[] LOG = ascii("log");
    private static final byte[] COUNTER = ascii("counter");
    private static final byte[] CLOCK = ascii("clock");
    private static final int ARGUMENTS = 5;
    private static final int REPLIES = 4;

    /**
     * The highest number of slots asked at the same time: no verdict has more claims, and no more settlements are sent
     * at once.
     */
    private static final int MOST_SLOTS = 64;

    /** The separator between the key of a count and the id of a settlement, or nothing. Neither contains it. */
    private static final String MARK = "!";

    /** The value that a reset writes under its mark; the script reads it as a double. */
    private static final Pattern NUMBER = Pattern.compile("\\d+");

    /** The script's reply for a settlement whose key holds a value that is not ours. */
    private static final long FOREIGN = 3;

    private static final Duration LONGEST_CLOSING = Duration.ofSeconds(2);

    private final Servers servers;
    private final AcrossSlots acrossSlots;
    private final String prefix;
    private final Delivery delivery;
    private final Coalescing coalescing;
    private final AtomicInteger waiting = new AtomicInteger();
    private final Mono<Void> closing;

    private RedisStore(Builder builder) {
        coalescing = builder.coalescing;
        prefix = builder.namespace + ":" + FORMAT + ":";
        delivery = new Delivery(builder.deliverOn);
        servers = builder.servers.apply(
                new Server.Settings(prefix, builder.scripts(), coalescing, delivery), builder.nodes);
        closing = Mono.fromFuture(servers::beginClosing, true)
                // If the client has been shut down already, the future may never complete.
                .timeout(LONGEST_CLOSING, Schedulers.parallel())
                .onErrorComplete()
                // Off the connection's thread: what follows may wait for that thread to end.
                .publishOn(Schedulers.parallel())
                .cache();
        acrossSlots = new AcrossSlots(this::take, this::peek, this::giveBack, builder.longestPeek, builder.deliverOn);
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
        return read(text, RedisURI::create, "redis://user:pass%40word@localhost:6379");
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
        return read(
                text,
                nodes -> RedisClusterURIUtil.toRedisURIs(URI.create(nodes)),
                "redis://user:pass%40word@node-1:6379,node-2:6379");
    }

    private static <T> T read(String text, Function<String, T> how, String example) {
        // Before a client is created from the URI, because that may fail with a bare NoClassDefFoundError.
        NettyVersion.check();
        try {
            return how.apply(text);
        } catch (RuntimeException e) {
            throw new IllegalArgumentException("\"" + BEFORE_HOST.matcher(text).replaceFirst("$1…@")
                    + "\" is no URI of a Redis: expected one, with what is special in a password as %XX, for example "
                    + example);
        }
    }

    /**
     * Returns a store with the default settings.
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
     * Returns a builder of a store.
     *
     * @param client the caller's client, on which the store opens its own connection
     * @return the builder
     */
    public static Builder builder(RedisClient client) {
        Objects.requireNonNull(client, "client is null: expected one, for example RedisClient.create(uri)");
        return new Builder((settings, seeds) -> Servers.only(client, settings));
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
        Objects.requireNonNull(client, "client is null: expected one, for example RedisClusterClient.create(uri)");
        return new Builder((settings, seeds) -> new Cluster(client, seeds, settings));
    }

    /**
     * {@inheritDoc}
     *
     * <p>In Redis Cluster, counts in several hash slots are charged slot by slot, and refunded if a later slot denies.
     * Until the refund, other requests may be denied. {@link Charge#group} puts keys into one slot.
     */
    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return take(claims, PendingDecision.NO_DEADLINE);
    }

    /**
     * {@inheritDoc}
     *
     * <p>Redis compares the deadline with its own clock. The store computes a time on that clock which is not after the
     * deadline, from the times in recent replies.
     */
    @Override
    public Mono<Decision> take(List<Claim> claims, long deadline) {
        return decide(claims, true, deadline);
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return decide(claims, false, PendingDecision.NO_DEADLINE);
    }

    private Mono<Decision> decide(List<Claim> claims, boolean takes, long deadline) {
        if (claims.isEmpty()) {
            return Mono.error(new LimitStoreException("no claim was given: expected at least one", null));
        }
        int slot = slotOf(claims.get(0));
        for (int i = 1; i < claims.size(); i++) {
            if (slotOf(claims.get(i)) != slot) {
                List<List<Claim>> bySlot =
                        List.copyOf(bySlot(claims, claim -> claim).values());
                return takes
                        ? acrossSlots.take(claims, bySlot, deadline)
                        : acrossSlots.peek(claims, bySlot).publishOn(delivery.scheduler());
            }
        }
        return PendingDecision.by(claims, slot, takes, deadline, this::decide);
    }

    private void decide(PendingDecision asked) {
        Server server = servers.known(asked.slot());
        if (server != null) {
            server.decide(asked);
            return;
        }
        // First, because all waiters may depend on a search that only the next caller abandons.
        Mono<Server> owner = servers.find(asked.slot());
        if (!coalescing.admits(asked, waiting)) {
            return;
        }
        owner.doFinally(end -> waiting.decrementAndGet())
                .subscribe(
                        found -> found.decide(asked),
                        error -> delivery.deliver(() -> asked.fail(Errors.translate(error))));
    }

    @Override
    public Mono<Void> refund(Decision decision) {
        return atTheSameTime(
                        decision.parts(),
                        part -> giveBack(
                                part, part.limits().stream().map(Usage::claim).toList()))
                .then();
    }

    private Mono<Void> giveBack(Decision part, List<Claim> claims) {
        byte[] takenAt = number(part.at().toEpochMilli());
        byte[] micros = number(part.stamp());
        return inEachSlot(
                        claims,
                        claim -> claim,
                        (slot, all) -> togetherOrApart(
                                all,
                                giveBack(slot, countsAndMarks(all), takenAt, micros, all),
                                claim -> resetAt(slot, claim)
                                        .filter(reset -> part.stamp() <= reset)
                                        .hasElement()
                                        .flatMap(isReset -> isReset
                                                ? Mono.empty()
                                                : giveBack(slot, counts(claim), takenAt, micros, List.of(claim)))))
                .then();
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return inEachSlot(
                        claims,
                        claim -> claim,
                        (slot, all) -> togetherOrApart(
                                all,
                                giveBack(slot, counts(all), OLDEST, OLDEST, all),
                                claim -> giveBack(slot, counts(claim), OLDEST, OLDEST, List.of(claim))))
                .then();
    }

    private Mono<Object> giveBack(int slot, byte[][] keys, byte[] takenAt, byte[] micros, List<Claim> claims) {
        byte[][] arguments = arguments(takenAt, micros, claims);
        return ask(slot, keys, (server, first, then) -> server.refund().run(first, then, keys, arguments));
    }

    /** Returns when a count was last reset, in microseconds; empty if it never was, or too long ago to matter. */
    private Mono<Double> resetAt(int slot, Claim claim) {
        byte[] mark = mark(claim, "");
        return ask(
                        slot,
                        new byte[][] {mark},
                        (server, first, then) -> first.ask(commands -> commands.getrange(mark, 0, -1)))
                .map(text -> new String(text, StandardCharsets.US_ASCII))
                // A foreign value is not a reset, here or in the script; the script also reads 0x1f and 1e3 as numbers.
                .filter(NUMBER.asMatchPredicate())
                .map(Double::parseDouble);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return inEachSlot(
                        claims,
                        claim -> claim,
                        (slot, all) -> togetherOrApart(
                                all,
                                reset(slot, countsAndMarks(all), reaches(all)),
                                claim -> reset(slot, counts(claim), NOTHING)
                                        .then(reset(slot, marks(claim), reaches(List.of(claim))))))
                .then();
    }

    private Mono<Object> reset(int slot, byte[][] keys, byte[][] reaches) {
        return ask(slot, keys, (server, first, then) -> server.reset().run(first, then, keys, reaches));
    }

    /**
     * Runs one command for all claims. While their slot is being migrated, Redis refuses that without doing anything;
     * then each claim gets a command of its own.
     */
    private Mono<Void> togetherOrApart(List<Claim> all, Mono<?> together, Function<Claim, Mono<?>> apart) {
        return together.then()
                .onErrorResume(
                        e -> e.getCause() != null && Redirect.isTornApart(e.getCause()),
                        e -> atTheSameTime(all, claim -> apart.apply(claim).then())
                                .then());
    }

    /**
     * {@inheritDoc}
     *
     * <p>A settlement cannot be charged if the key of its count holds a value that this library has not written.
     */
    @Override
    public Mono<Decision> settle(List<Settlement> settlements) {
        if (settlements.isEmpty()) {
            return settle(0, settlements);
        }
        return inEachSlot(settlements, Settlement::claim, this::settle)
                .collectList()
                .map(parts -> parts.size() == 1
                        ? parts.get(0)
                        : Decision.ofParts(
                                settlements.stream().map(Settlement::claim).toList(), parts));
    }

    private Mono<Decision> settle(int slot, List<Settlement> settlements) {
        byte[][] keys = settledKeys(settlements);
        // Deferred, so that the ages are computed when the command is sent.
        return ask(
                        slot,
                        keys,
                        (server, first, then) ->
                                Mono.defer(() -> server.settle().run(first, then, keys, hits(settlements))))
                .map(RedisStore::integers)
                .map(reply -> Decision.ofPeek(Source.REDIS, at(reply), settledUsages(settlements, reply)));
    }

    /** Runs one request for each slot at the same time. A failing slot does not stop the others. */
    private <E, T> Flux<T> inEachSlot(
            List<E> all, Function<E, Claim> claim, BiFunction<Integer, List<E>, Mono<T>> ask) {
        return Flux.defer(() ->
                        atTheSameTime(bySlot(all, claim).entrySet(), slot -> ask.apply(slot.getKey(), slot.getValue())))
                .onErrorMap(Exceptions::isMultiple, Errors::oneOf);
    }

    /**
     * Emits all replies. With several requests, the thread that subscribes also emits the replies that arrive while it
     * is subscribing; publishOn moves them to the right scheduler.
     */
    private <E, T> Flux<T> atTheSameTime(Collection<E> all, Function<E, Mono<T>> ask) {
        return all.size() == 1
                ? ask.apply(all.iterator().next()).flux()
                : Flux.fromIterable(all).flatMapDelayError(ask, MOST_SLOTS, 1).publishOn(delivery.scheduler());
    }

    private <T> Mono<T> ask(int slot, byte[][] keys, Server.Errand<T> errand) {
        Server known = servers.known(slot);
        Mono<Server> server = known == null ? servers.find(slot) : Mono.just(known);
        return server.flatMap(found -> found.ask(errand))
                .publishOn(delivery.scheduler())
                .onErrorMap(e -> Errors.translate(e, keys));
    }

    private int slotOf(Claim claim) {
        return servers.areMany() ? servers.slotOf(claim) : 0;
    }

    /** Groups by slot, in ascending order. */
    private <E> SortedMap<Integer, List<E>> bySlot(List<E> all, Function<E, Claim> claim) {
        SortedMap<Integer, List<E>> bySlot = new TreeMap<>();
        for (E one : all) {
            bySlot.computeIfAbsent(slotOf(claim.apply(one)), slot -> new ArrayList<>())
                    .add(one);
        }
        return bySlot;
    }

    /** Connects and loads the scripts; in Redis Cluster on every node. It is an error if no node can be reached. */
    @Override
    public Mono<Void> prepare() {
        return prepare("");
    }

    @Override
    public Mono<Void> prepare(String part) {
        return servers.prepare(part)
                .publishOn(delivery.scheduler())
                .onErrorMap(e -> Errors.translate(e, new byte[0][]));
    }

    @Override
    public StoreState state() {
        return StoreState.of(Source.REDIS);
    }

    /**
     * Returns the node that decides. In Redis Cluster each node is a part; several nodes that decide together are a
     * part of their own.
     */
    @Override
    public String part(List<Claim> claims) {
        if (!servers.areMany() || claims.isEmpty()) {
            return "";
        }
        String first = servers.nameOf(slotOf(claims.get(0)));
        Set<String> others = Set.of();
        for (int i = 1; i < claims.size() && !first.isEmpty(); i++) {
            String name = servers.nameOf(slotOf(claims.get(i)));
            if (name.isEmpty()) {
                return "";
            }
            if (!name.equals(first)) {
                others = others.isEmpty() ? new TreeSet<>() : others;
                others.add(name);
            }
        }
        if (others.isEmpty()) {
            return first;
        }
        others.add(first);
        return String.join(" and ", others);
    }

    /** Closes the store's connections, not the caller's client. Does not wait; see {@link #closeLater()}. */
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

    private byte[][] counts(List<Claim> claims) {
        return keys(claims, this::count);
    }

    private byte[][] counts(Claim claim) {
        return new byte[][] {count(claim)};
    }

    /** Returns the key that holds the time of the last reset. */
    private byte[][] marks(Claim claim) {
        return new byte[][] {mark(claim, "")};
    }

    private byte[][] countsAndMarks(List<Claim> claims) {
        return concat(counts(claims), keys(claims, claim -> mark(claim, "")));
    }

    private static byte[][] keys(List<Claim> claims, Function<Claim, byte[]> key) {
        return claims.stream().map(key).toArray(byte[][]::new);
    }

    private static byte[][] concat(byte[][] some, byte[][] others) {
        byte[][] all = Arrays.copyOf(some, some.length + others.length);
        System.arraycopy(others, 0, all, some.length, others.length);
        return all;
    }

    /** Returns two keys for each settlement: that of its count, and that of the mark that it has been charged. */
    private byte[][] settledKeys(List<Settlement> settlements) {
        byte[][] keys = new byte[2 * settlements.size()][];
        int k = 0;
        for (Settlement settlement : settlements) {
            keys[k++] = count(settlement.claim());
            keys[k++] = mark(settlement.claim(), settlement.id());
        }
        return keys;
    }

    private byte[] count(Claim claim) {
        return ascii(prefix + claim.identity());
    }

    private byte[] mark(Claim claim, String id) {
        return ascii(prefix + claim.identity() + MARK + id);
    }

    private static byte[][] reaches(List<Claim> claims) {
        return keys(claims, claim -> number(claim.limit().reach().toMillis()));
    }

    private static byte[][] arguments(byte[] takenAt, byte[] micros, List<Claim> claims) {
        byte[][] arguments = new byte[2 + ARGUMENTS * claims.size()][];
        int a = 0;
        arguments[a++] = takenAt;
        arguments[a++] = micros;
        for (Claim claim : claims) {
            Limit limit = claim.limit();
            arguments[a++] = kind(limit);
            arguments[a++] = number(limit.permits());
            arguments[a++] = number(limit.window().toMillis());
            arguments[a++] = number(limit.resolution().toMillis());
            arguments[a++] = number(claim.permits());
        }
        return arguments;
    }

    private static byte[][] hits(List<Settlement> settlements) {
        List<byte[]> arguments = new ArrayList<>();
        for (Settlement settlement : settlements) {
            Limit limit = settlement.claim().limit();
            List<Hits> ages = settlement.ages();
            arguments.add(kind(limit));
            arguments.add(number(limit.permits()));
            arguments.add(number(limit.window().toMillis()));
            arguments.add(number(limit.resolution().toMillis()));
            arguments.add(number(ages.size()));
            for (Hits some : ages) {
                arguments.add(number(some.fromMillis()));
                arguments.add(number(some.toMillis()));
                arguments.add(number(some.permits()));
            }
        }
        return arguments.toArray(byte[][]::new);
    }

    private static byte[] kind(Limit limit) {
        return limit.algorithm() == Algorithm.LOG ? LOG : limit.isAlignedToClock() ? CLOCK : COUNTER;
    }

    private static byte[] number(long number) {
        return ascii(Long.toString(number));
    }

    @SuppressWarnings("unchecked") // a script's reply is a list, and ours hold nothing but integers
    private static List<Long> integers(Object reply) {
        return (List<Long>) reply;
    }

    private static long at(List<Long> reply) {
        return reply.get(0);
    }

    private static List<Usage> settledUsages(List<Settlement> settlements, List<Long> reply) {
        List<Usage> usages = new ArrayList<>(settlements.size());
        for (int i = 0; i < settlements.size(); i++) {
            int r = 1 + REPLIES * i;
            if (reply.get(r) != FOREIGN) {
                usages.add(usage(settlements.get(i).claim(), reply, r));
            }
        }
        return usages;
    }

    private static Usage usage(Claim claim, List<Long> reply, int r) {
        long now = at(reply);
        return claim.limit().algorithm() == Algorithm.LOG
                ? Usage.of(claim, reply.get(r + 1), false, reply.get(r + 2), reply.get(r + 3))
                : Usage.ofCounter(
                        claim,
                        new CounterState(reply.get(r + 3), reply.get(r + 1), reply.get(r + 2)),
                        false,
                        false,
                        now);
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "RedisStore[" + prefix + "*]";
    }

    /** Builder of a {@link RedisStore}. Not thread-safe. */
    public static final class Builder {

        private static final Pattern NAMESPACE = Pattern.compile("[A-Za-z0-9._:-]{1,64}");

        private final BiFunction<Server.Settings, List<RedisURI>, Servers> servers;
        private List<RedisURI> nodes = List.of();
        private Duration longestPeek = Duration.ofMillis(50);
        private String namespace = "spillgate";
        private Scheduler deliverOn = Schedulers.parallel();
        private Coalescing coalescing = Coalescing.AT_FIRST;
        private UnaryOperator<String> change = UnaryOperator.identity();

        private Builder(BiFunction<Server.Settings, List<RedisURI>, Servers> servers) {
            this.servers = servers;
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
            Objects.requireNonNull(namespace, "namespace is null: expected one, for example \"shop:prod\"");
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
         * Sets some nodes of a cluster, and with them the user, password and TLS setting for the connections to all
         * nodes. Required if nodes need more than an address, because a {@link RedisClusterClient} does not reveal
         * these settings. The URIs that the client was created with are suitable. Without a cluster this has no effect.
         *
         * @param nodes one or more nodes
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
         * Sets the scheduler on which decisions are emitted; {@link Schedulers#parallel()} by default. With {@link
         * Schedulers#immediate()} they are emitted on the single thread that reads from Redis, which saves a thread
         * switch. Everything that follows a decision must then be short, because all other decisions wait for it.
         *
         * @param scheduler a scheduler that does not block
         * @return this builder
         */
        public Builder deliverOn(Scheduler scheduler) {
            this.deliverOn = Objects.requireNonNull(
                    scheduler, "scheduler is null: expected one, for example Schedulers.parallel()");
            return this;
        }

        /**
         * Bounds the batching of decisions. The defaults are 128 counts in a batch, 256 batches in flight and 100,000
         * waiting decisions.
         *
         * <p>If no batch is in flight, a decision is sent at once. Otherwise it waits until a batch is answered or the
         * next batch is sent. The next batch is sent once {@code together} decisions are waiting, or once 150 µs for
         * each batch in flight have passed since the last one was sent. Both are checked when a decision arrives, not
         * by a timer. If no reply has taken less than 5 ms, Redis is far away, and a decision waits only while {@code
         * underWay} batches are in flight.
         *
         * <p>In a cluster the bounds apply to each node. The commands that are sent to one node for several slots at
         * the same time count as one batch.
         *
         * @param together the highest number of counts in a batch, 1 to 1,000; a single decision on more counts is sent
         *     as well. Several decisions on one count share a batch, with at most 8 times as many decisions as counts
         *     in all. With 1 there is no batching
         * @param underWay the highest number of batches in flight, 1 to 1,000
         * @param waiting the highest number of waiting decisions, 1 to 1,000,000; any further decision fails at once
         *     with {@link io.github.spillgate.LimitStoreUnavailableException}
         * @return this builder
         * @throws IllegalArgumentException if one of them is out of range
         */
        public Builder coalescing(int together, int underWay, int waiting) {
            this.coalescing = new Coalescing(together, underWay, waiting);
            return this;
        }

        /** Changes the batching beyond the public bounds, for tests. */
        Builder coalescing(UnaryOperator<Coalescing> change) {
            this.coalescing = change.apply(coalescing);
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

        private Server.Scripts scripts() {
            return new Server.Scripts(
                    Script.of(
                            ScriptOutputType.VALUE,
                            change,
                            "counts.lua",
                            "counter.lua",
                            "one-counter.lua",
                            "log.lua",
                            "decide.lua"),
                    Script.of(ScriptOutputType.STATUS, change, "counts.lua", "counter.lua", "log.lua", "refund.lua"),
                    Script.of(ScriptOutputType.STATUS, change, "counts.lua", "reset.lua"),
                    Script.of(ScriptOutputType.MULTI, change, "counts.lua", "counter.lua", "log.lua", "settle.lua"));
        }

        /**
         * Returns the store. Nothing is sent to Redis yet.
         *
         * @return the store
         * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
         */
        public RedisStore build() {
            NettyVersion.check();
            return new RedisStore(this);
        }
    }
}
