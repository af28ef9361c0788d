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
 * Decides in Redis: one script, one trip, on Redis's clock.
 *
 * <p>All instances of a service that share a Redis, a namespace and a limiter's name share its counts. Every count expires by
 * itself when it says nothing any more.
 *
 * <p>The store opens a connection of its own on the user's client, when it is first asked. The client stays the user's: it is
 * he who shuts it down, and that closes the store's connection too. Those to the nodes of a cluster only share its threads: close
 * the store before, and wait for {@link #closeLater()}.
 */
public final class RedisStore implements LimitStore, AutoCloseable {

    /** Changes when what is stored changes its form, so that two versions side by side never misread each other. */
    private static final String FORMAT = "2";

    /** The scheme, and what may be a password, on however many lines. */
    private static final Pattern BEFORE_HOST = Pattern.compile("^([\\w+.-]+://)?.*@", Pattern.DOTALL);

    private static final byte[] OLDEST = ascii("");
    private static final byte[][] NOTHING = {};
    private static final byte[] LOG = ascii("log");
    private static final byte[] COUNTER = ascii("counter");
    private static final byte[] CLOCK = ascii("clock");
    private static final int ARGUMENTS = 5;
    private static final int REPLIES = 4;

    /** No verdict has more claims, and no more settlements are sent at once. */
    private static final int MOST_SLOTS = 64;

    /** Stands between the name of a count and the id of a settlement, or nothing; neither has one in it. */
    private static final String MARK = "!";

    /** What a reset has written under its mark; to a script it is a double. */
    private static final Pattern NUMBER = Pattern.compile("\\d+");

    /** What the script says of a settlement whose count is not ours. */
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
                // Where the client has gone already, there may be nobody left who could tell.
                .timeout(LONGEST_CLOSING, Schedulers.parallel())
                .onErrorComplete()
                // Off the connection's thread: who goes on from here may wait for that one to end.
                .publishOn(Schedulers.parallel())
                .cache();
        acrossSlots = new AcrossSlots(this::take, this::peek, this::giveBack, builder.longestPeek, builder.deliverOn);
    }

    /**
     * Reads where a Redis is, as settings say it.
     *
     * @param text such as {@code redis://user:password@localhost:6379}
     * @return the same, for {@code RedisClient.create}
     * @throws IllegalArgumentException if it cannot be read; the message does not tell what stands before the last {@code @}, which
     *     may be a password, and neither does anything that it was caused by
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs, so that no client could connect
     */
    public static RedisURI uri(String text) {
        return read(text, RedisURI::create, "redis://user:pass%40word@localhost:6379");
    }

    /**
     * Reads where some nodes of a cluster are, as settings say it; the others are found by these.
     *
     * @param text such as {@code redis://user:password@node-1:6379,node-2:6379}
     * @return the same, for {@code RedisClusterClient.create}
     * @throws IllegalArgumentException if it cannot be read, as by {@link #uri(String)}
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs, so that no client could connect
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
     * A store with the settings that suit most.
     *
     * @param client the user's client; a connection of our own is opened on it
     * @return the store
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
     */
    public static RedisStore create(RedisClient client) {
        return builder(client).build();
    }

    /**
     * A store in Redis Cluster, with the settings that suit most. For nodes that want TLS, or a user and a password, see
     * {@link Builder#nodes}.
     *
     * @param client the user's client; its threads and options are shared, and it says where nodes are
     * @return the store
     * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
     */
    public static RedisStore create(RedisClusterClient client) {
        return builder(client).build();
    }

    /**
     * Starts a store.
     *
     * @param client the user's client; a connection of our own is opened on it
     * @return its builder
     */
    public static Builder builder(RedisClient client) {
        Objects.requireNonNull(client, "client is null: expected one, for example RedisClient.create(uri)");
        return new Builder((settings, seeds) -> Servers.only(client, settings));
    }

    /**
     * Starts a store on a client of either kind.
     *
     * @param client the user's {@link RedisClient} or {@link RedisClusterClient}
     * @return its builder
     * @throws IllegalArgumentException if it is neither
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
     * Starts a store in Redis Cluster.
     *
     * @param client the user's client; its threads and options are shared, and it says where nodes are
     * @return its builder
     */
    public static Builder builder(RedisClusterClient client) {
        Objects.requireNonNull(client, "client is null: expected one, for example RedisClusterClient.create(uri)");
        return new Builder((settings, seeds) -> new Cluster(client, seeds, settings));
    }

    /**
     * {@inheritDoc}
     *
     * <p>In Redis Cluster, where the counts lie in several slots, they are taken slot by slot, and given back when a later one denies:
     * others may be denied meanwhile. {@link Charge#group} puts keys into one slot.
     */
    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return decide(claims, true);
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return decide(claims, false);
    }

    private Mono<Decision> decide(List<Claim> claims, boolean takes) {
        if (claims.isEmpty()) {
            return Mono.error(
                    new LimitStoreException("Redis cannot be asked about no claim: expected at least one", null));
        }
        int slot = slotOf(claims.get(0));
        for (int i = 1; i < claims.size(); i++) {
            if (slotOf(claims.get(i)) != slot) {
                List<List<Claim>> bySlot =
                        List.copyOf(bySlot(claims, claim -> claim).values());
                return takes
                        ? acrossSlots.take(claims, bySlot)
                        : acrossSlots.peek(claims, bySlot).publishOn(delivery.scheduler());
            }
        }
        return Asked.by(claims, slot, takes, this::decide);
    }

    private void decide(Asked asked) {
        Server server = servers.known(asked.slot());
        if (server != null) {
            server.decide(asked);
            return;
        }
        // First, for those who hold all the places may wait for a search that only who comes next gives up.
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

    /** When a count was reset last, in microseconds; empty if that is too long ago for anything, or never was. */
    private Mono<Double> resetAt(int slot, Claim claim) {
        byte[] mark = mark(claim, "");
        return ask(
                        slot,
                        new byte[][] {mark},
                        (server, first, then) -> first.ask(commands -> commands.getrange(mark, 0, -1)))
                .map(text -> new String(text, StandardCharsets.US_ASCII))
                // A word of somebody else is no reset, for the script neither; to that, 0x1f and 1e3 are numbers, too.
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

    /** While their slot is being moved some may be here and some there; then nothing has been done, and each is asked about by itself. */
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
     * <p>One that cannot be charged is one whose count is overlaid by a value that this library has not written.
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
        // Their ages are those of the moment when it is sent.
        return ask(
                        slot,
                        keys,
                        (server, first, then) ->
                                Mono.defer(() -> server.settle().run(first, then, keys, hits(settlements))))
                .map(RedisStore::integers)
                .map(reply -> Decision.ofPeek(Source.REDIS, at(reply), settledUsages(settlements, reply)));
    }

    /** Asks about each slot by itself, at the same time; one that fails keeps no other from being asked. */
    private <E, T> Flux<T> inEachSlot(
            List<E> all, Function<E, Claim> claim, BiFunction<Integer, List<E>, Mono<T>> ask) {
        return Flux.defer(() ->
                        atTheSameTime(bySlot(all, claim).entrySet(), slot -> ask.apply(slot.getKey(), slot.getValue())))
                .onErrorMap(Exceptions::isMultiple, Errors::oneOf);
    }

    /**
     * What is said to each question. Where there are several, whoever asks them tells also what has been answered by the time he is
     * through with it; so that is handed over once more.
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

    /** In ascending order. */
    private <E> SortedMap<Integer, List<E>> bySlot(List<E> all, Function<E, Claim> claim) {
        SortedMap<Integer, List<E>> bySlot = new TreeMap<>();
        for (E one : all) {
            bySlot.computeIfAbsent(slotOf(claim.apply(one)), slot -> new ArrayList<>())
                    .add(one);
        }
        return bySlot;
    }

    /** Connects, and loads the scripts; in Redis Cluster on every node, and it is an error if none can be reached. */
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

    /** In Redis Cluster each node is a part, and so are those together that have to decide on something. */
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

    /** Closes the store's connections, and nothing of the user's. Does not wait for it; see {@link #closeLater()}. */
    @Override
    public void close() {
        closing.subscribe();
    }

    /**
     * Closes the store's connections as {@link #close()} does, and tells when they are closed, or when that has taken 2 s. Whoever shuts down
     * the client waits for this first, or Netty may complain that a thread has gone: {@code
     * limiter.closeLater().then(store.closeLater()).then(Mono.fromFuture(client.shutdownAsync()))}.
     *
     * @return empty, when they are closed; never an error. Closing begins with the first subscriber, and nobody who leaves ends it
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

    /** What says when it was reset. */
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

    /** Of each settlement the name of its count, and the mark that says that it is charged. */
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

    /** Returns the store for a log. */
    @Override
    public String toString() {
        return "RedisStore[" + prefix + "*]";
    }

    /** How a {@link RedisStore} stores and delivers. */
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
         * Sets what the names of all counts start with; {@code spillgate} by default. Stores of different namespaces share a
         * Redis and no count.
         *
         * @param namespace 1 to 64 of the characters {@code A-Z a-z 0-9 . _ : -}
         * @return this builder
         * @throws IllegalArgumentException if it has other characters, or too many
         */
        public Builder namespace(String namespace) {
            Objects.requireNonNull(namespace, "namespace is null: expected one, for example \"shop:prod\"");
            if (!NAMESPACE.matcher(namespace).matches()) {
                String shown = namespace.substring(0, Math.min(80, namespace.length()));
                throw new IllegalArgumentException(
                        "namespace \"" + shown.replaceAll("[^ -~]", "?")
                                + "\" would need escaping in a key: expected 1 to 64 of the characters A-Z a-z 0-9 . _ : -, for example \"shop:prod\"");
            }
            this.namespace = namespace;
            return this;
        }

        /**
         * Sets where some nodes of a cluster are, and how all of them are connected to: with what user and password, and whether
         * by TLS. Needed where that is not just by their addresses, because a {@link RedisClusterClient} does not tell. Those that
         * it was made with will do. Without a cluster this has no effect.
         *
         * @param nodes at least one
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
         * Sets where answers are delivered; {@link Schedulers#parallel()} by default. With {@link Schedulers#immediate()} they
         * arrive on the one thread that reads from Redis, which saves a hop: then everything behind the answer must be short,
         * because all other decisions wait for it.
         *
         * @param scheduler one that does not block
         * @return this builder
         */
        public Builder deliverOn(Scheduler scheduler) {
            this.deliverOn = Objects.requireNonNull(
                    scheduler, "scheduler is null: expected one, for example Schedulers.parallel()");
            return this;
        }

        /**
         * Sets how far decisions are put together. Who asks while no command is under way leaves at once. Who asks while some
         * are waits until one is answered or the next one leaves, which it does when {@code together} are waiting, or 150 µs
         * after the last one for each that is under way. Where no answer has come within 5 ms, Redis is far away, and nobody waits
         * as long as there is a place. By default 128 counts, 256 commands, and 100,000 who wait.
         * In a cluster this holds for each node, and the commands that leave for its slots at the same time count as one.
         *
         * @param together how many counts one command touches at most, 1 to 1,000, or as many as one decision does if that is more;
         *     decisions on the same one leave together too, up to eight times as many in all; with 1 each leaves alone
         * @param underWay how many such commands are under way at a time at most, 1 to 1,000
         * @param waiting how many decisions wait at most, 1 to 1,000,000; for more the store says at once that it cannot be asked
         * @return this builder
         * @throws IllegalArgumentException if one of them is out of range
         */
        public Builder coalescing(int together, int underWay, int waiting) {
            this.coalescing = new Coalescing(together, underWay, waiting);
            return this;
        }

        /** Changes how far decisions are put together in a way that is for tests. */
        Builder coalescing(UnaryOperator<Coalescing> change) {
            this.coalescing = change.apply(coalescing);
            return this;
        }

        /** Sets how long who is denied in one slot waits to be told of the others, for tests: so long that a busy machine does not matter. */
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
         * Makes the store. Nothing is sent to Redis yet.
         *
         * @return a store
         * @throws LimitStoreException if the Netty on the class path is older than Lettuce needs
         */
        public RedisStore build() {
            NettyVersion.check();
            return new RedisStore(this);
        }
    }
}
