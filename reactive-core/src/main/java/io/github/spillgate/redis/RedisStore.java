package io.github.spillgate.redis;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Claim;
import io.github.spillgate.CounterState;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.Settlement;
import io.github.spillgate.Settlement.Hits;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
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
 * he who shuts it down, and that closes the store's connection too.
 */
public final class RedisStore implements LimitStore, AutoCloseable {

    /** Changes when what is stored changes its form, so that two versions side by side never misread each other. */
    private static final String FORMAT = "2";

    private static final byte[] OLDEST = ascii("");
    private static final byte[] LOG = ascii("log");
    private static final byte[] COUNTER = ascii("counter");
    private static final byte[] CLOCK = ascii("clock");
    private static final int ARGUMENTS = 5;
    private static final int REPLIES = 4;

    /** Stands between the name of a count and the id of a settlement; neither has one in it. */
    private static final String MARK = "!";

    /** What the script says of a settlement whose count is not ours. */
    private static final long FOREIGN = 3;

    private final Connection connection;
    private final ScriptRunner decide;
    private final ScriptRunner refund;
    private final ScriptRunner settle;
    private final String prefix;
    private final Delivery delivery;
    private final Coalescing coalescing;
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicReference<@Nullable Coalescer> coalescer = new AtomicReference<>();

    private RedisStore(Builder builder) {
        connection = new Connection(builder.client);
        decide = script("decide.lua", ScriptOutputType.VALUE, builder);
        refund = script("refund.lua", ScriptOutputType.STATUS, builder);
        settle = script("settle.lua", ScriptOutputType.MULTI, builder);
        coalescing = builder.coalescing;
        prefix = builder.namespace + ":" + FORMAT + ":";
        delivery = new Delivery(builder.deliverOn);
    }

    private ScriptRunner script(String name, ScriptOutputType output, Builder builder) {
        return new ScriptRunner(connection, Script.named(name, output, builder.change));
    }

    /**
     * Reads where a Redis is, as settings say it.
     *
     * @param text such as {@code redis://user:password@localhost:6379}
     * @return the same, for {@code RedisClient.create}
     * @throws IllegalArgumentException if it cannot be read; the message does not tell what stands before the last {@code @}, which
     *     may be a password, and neither does anything that it was caused by
     */
    public static RedisURI uri(String text) {
        try {
            return RedisURI.create(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("\"" + text.replaceAll("^([^:/]*:/*).*@", "$1…@")
                    + "\" is no URI of a Redis: expected one, with what is special in a password as %XX, for example"
                    + " redis://user:pass%40word@localhost:6379");
        }
    }

    /**
     * A store with the settings that suit most.
     *
     * @param client the user's client; a connection of our own is opened on it
     * @return the store
     */
    public static RedisStore create(RedisClient client) {
        return builder(client).build();
    }

    /**
     * Starts a store.
     *
     * @param client the user's client; a connection of our own is opened on it
     * @return its builder
     */
    public static Builder builder(RedisClient client) {
        return new Builder(
                Objects.requireNonNull(client, "client is null: expected one, for example RedisClient.create(uri)"));
    }

    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return Asked.by(claims, true, this::decide);
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return Asked.by(claims, false, this::decide);
    }

    private void decide(Asked asked) {
        if (asked.claims().isEmpty()) {
            asked.fail(new LimitStoreException("Redis cannot be asked about no claim: expected at least one", null));
            return;
        }
        if (waiting.incrementAndGet() > coalescing.waiting()) {
            waiting.decrementAndGet();
            asked.fail(new LimitStoreUnavailableException(
                    "Redis cannot be asked: " + coalescing.waiting() + " decisions are waiting for it already", null));
            return;
        }
        OpenConnection open = connection.ifOpen();
        if (open != null) {
            coalescerOn(open).add(asked);
        } else {
            connection.opened().subscribe(opened -> coalescerOn(opened).add(asked), error -> {
                waiting.decrementAndGet();
                delivery.deliver(() -> asked.fail(Errors.translate(error)));
            });
        }
    }

    /** That of this connection, or, if there is another connection by now, of that one. */
    private Coalescer coalescerOn(OpenConnection open) {
        while (true) {
            Coalescer known = coalescer.get();
            if (known != null && !known.isOlderThan(open)) {
                return known;
            }
            Coalescer next = new Coalescer(open, decide, ascii(prefix), coalescing, waiting, delivery);
            if (coalescer.compareAndSet(known, next)) {
                if (known != null) {
                    known.end(new LimitStoreUnavailableException(
                            "Redis cannot be asked: the connection was lost, or had fallen silent", null));
                }
                return next;
            }
        }
    }

    @Override
    public Mono<Void> refund(Decision decision) {
        byte[] takenAt = number(decision.at().toEpochMilli());
        return giveBack(takenAt, decision.limits().stream().map(Usage::claim).toList());
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return giveBack(OLDEST, claims);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        byte[][] keys = keys(claims);
        return connection
                .ask(commands -> commands.unlink(keys))
                .publishOn(delivery.scheduler())
                .onErrorMap(e -> Errors.translate(e, keys))
                .then();
    }

    /**
     * {@inheritDoc}
     *
     * <p>One that cannot be charged is one whose count is overlaid by a value that this library has not written.
     */
    @Override
    public Mono<Decision> settle(List<Settlement> settlements) {
        return Mono.defer(() -> run(settle, settledKeys(settlements), hits(settlements)))
                .map(RedisStore::integers)
                .map(reply -> Decision.ofPeek(Source.REDIS, at(reply), settledUsages(settlements, reply)));
    }

    /** Connects, and loads the scripts. */
    @Override
    public Mono<Void> prepare() {
        return Mono.when(decide.load(), refund.load(), settle.load())
                .publishOn(delivery.scheduler())
                .onErrorMap(e -> Errors.translate(e, new byte[0][]));
    }

    @Override
    public StoreState state() {
        return StoreState.of(Source.REDIS);
    }

    /** Closes the store's connection, and nothing of the user's. Does not wait for it. */
    @Override
    public void close() {
        connection.close();
    }

    private Mono<Void> giveBack(byte[] takenAt, List<Claim> claims) {
        return run(refund, keys(claims), arguments(takenAt, claims)).then();
    }

    private Mono<Object> run(ScriptRunner script, byte[][] keys, byte[][] arguments) {
        return script.run(keys, arguments).publishOn(delivery.scheduler()).onErrorMap(e -> Errors.translate(e, keys));
    }

    private byte[][] keys(List<Claim> claims) {
        byte[][] keys = new byte[claims.size()][];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = ascii(key(claims.get(i)));
        }
        return keys;
    }

    private byte[][] settledKeys(List<Settlement> settlements) {
        byte[][] keys = new byte[2 * settlements.size()][];
        int k = 0;
        for (Settlement settlement : settlements) {
            String key = key(settlement.claim());
            keys[k++] = ascii(key);
            keys[k++] = ascii(key + MARK + settlement.id());
        }
        return keys;
    }

    private String key(Claim claim) {
        return prefix + claim.identity();
    }

    private static byte[][] arguments(byte[] first, List<Claim> claims) {
        byte[][] arguments = new byte[1 + ARGUMENTS * claims.size()][];
        int a = 0;
        arguments[a++] = first;
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

        private final RedisClient client;
        private String namespace = "spillgate";
        private Scheduler deliverOn = Schedulers.parallel();
        private Coalescing coalescing = Coalescing.AT_FIRST;
        private UnaryOperator<String> change = UnaryOperator.identity();

        private Builder(RedisClient client) {
            this.client = client;
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

        /** Changes the text of the scripts, so that a test can set their clock. */
        Builder scripts(UnaryOperator<String> change) {
            this.change = change;
            return this;
        }

        /**
         * Makes the store. Nothing is sent to Redis yet.
         *
         * @return a store
         */
        public RedisStore build() {
            return new RedisStore(this);
        }
    }
}
