package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreUnavailableException;
import io.lettuce.core.RedisCommandExecutionException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** One Redis: the connection to it, the scripts that it knows, and the decisions that wait for it. */
final class Server {

    /** How often somebody is sent on. In a cluster that is well, once is enough. */
    private static final int MOST_REDIRECTS = 5;

    private final String name;
    private final Connection connection;
    private final BiFunction<Redirect, Server, Mono<Redirect.Target>> elsewhere;
    private final Runnable outOfCluster;
    private final byte[] prefix;
    private final Coalescing coalescing;
    private final Delivery delivery;
    private final ScriptRunner decide;
    private final ScriptRunner refund;
    private final ScriptRunner reset;
    private final ScriptRunner settle;
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicReference<@Nullable Coalescer> coalescer = new AtomicReference<>();

    /**
     * A server.
     *
     * @param name what tells it from the others
     * @param elsewhere whom to ask instead, where this one says that another has what it was asked for; empty if there
     *     is no other
     * @param outOfCluster what to do where this one says that it has no part in the cluster
     */
    Server(
            String name,
            Connection connection,
            Settings settings,
            BiFunction<Redirect, Server, Mono<Redirect.Target>> elsewhere,
            Runnable outOfCluster) {
        this.name = name;
        this.connection = connection;
        this.elsewhere = elsewhere;
        this.outOfCluster = outOfCluster;
        this.prefix = settings.prefix().getBytes(StandardCharsets.US_ASCII);
        this.coalescing = settings.coalescing();
        this.delivery = settings.delivery();
        this.decide = new ScriptRunner(connection, settings.scripts().decide());
        this.refund = new ScriptRunner(connection, settings.scripts().refund());
        this.reset = new ScriptRunner(connection, settings.scripts().reset());
        this.settle = new ScriptRunner(connection, settings.scripts().settle());
    }

    String name() {
        return name;
    }

    Connection connection() {
        return connection;
    }

    ScriptRunner refund() {
        return refund;
    }

    ScriptRunner reset() {
        return reset;
    }

    ScriptRunner settle() {
        return settle;
    }

    /** Has a decision made, together with others that come at the same time. */
    void decide(PendingDecision asked) {
        // First, for those who hold all the places may wait on a connection that only who comes next replaces.
        OpenConnection open = connection.ifOpen();
        Coalescer here = open == null ? null : coalescerOn(open);
        if (!coalescing.admits(asked, waiting)) {
            return;
        }
        if (here != null) {
            here.add(asked);
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
            Coalescer next = new Coalescer(open, batch -> decide(batch, open), prefix, coalescing, waiting, delivery);
            if (coalescer.compareAndSet(known, next)) {
                if (known != null) {
                    known.end(new LimitStoreUnavailableException(
                            "Redis is unavailable: the connection was lost or stopped responding", null));
                }
                return next;
            }
        }
    }

    private Mono<Object> decide(Batch batch, OpenConnection open) {
        byte[][] keys = batch.keys();
        return ask(
                open,
                connection,
                (server, first, then) ->
                        server.decide.run(first, then, keys, clock -> new byte[][] {batch.argument(clock)}));
    }

    /** Asks this server, or whichever it says is the one to ask. */
    <T> Mono<T> ask(Errand<T> errand) {
        return ask(connection, connection, errand);
    }

    private <T> Mono<T> ask(CommandSender first, CommandSender then, Errand<T> errand) {
        return ask(first, then, errand, MOST_REDIRECTS);
    }

    private <T> Mono<T> ask(CommandSender first, CommandSender then, Errand<T> errand, int redirects) {
        return errand.on(this, first, then).onErrorResume(RedisCommandExecutionException.class, said -> {
            Redirect to = Redirect.in(said);
            if (to == null) {
                if (Redirect.isOutOfCluster(said)) {
                    outOfCluster.run();
                }
                return Mono.error(said);
            }
            if (redirects == 0) {
                return Mono.error(new LimitStoreUnavailableException(
                        "Redis cannot decide: its nodes disagree on the owner of slot " + to.slot(), said));
            }
            // Off the connection's thread, which has replies to read.
            return elsewhere
                    .apply(to, this)
                    .switchIfEmpty(Mono.error(said))
                    .publishOn(Schedulers.parallel())
                    .flatMap(target -> target.server().ask(target.asks(), target.asks(), errand, redirects - 1));
        });
    }

    /** Connects, and loads the scripts. */
    Mono<Void> prepare() {
        return Mono.when(decide.load(), refund.load(), reset.load(), settle.load());
    }

    /** Closes the connection, and tells when it is closed. */
    CompletableFuture<Void> beginClosing() {
        return connection.beginClosing();
    }

    /** It has no part in the cluster any more: whoever waits for it has asked nothing, and another one decides. */
    void leave() {
        connection.close(() -> new LimitStoreUnavailableException(
                "Redis cannot decide: " + name + " no longer owns a slot of the cluster", null));
    }

    @Override
    public String toString() {
        return name;
    }

    /** What a server is to be asked, or another one in its place. */
    @FunctionalInterface
    interface Errand<T> {

        /** Asks, and if that takes more than one question, goes on there. */
        Mono<T> on(Server server, CommandSender first, CommandSender then);
    }

    /**
     * What all servers of one store have in common.
     *
     * @param prefix what the names of counts begin with
     * @param scripts what is run there
     * @param coalescing how far decisions are put together
     * @param delivery where answers are delivered
     */
    record Settings(String prefix, Scripts scripts, Coalescing coalescing, Delivery delivery) {}

    /**
     * The scripts of a store.
     *
     * @param decide decides on a batch
     * @param refund gives back
     * @param reset forgets
     * @param settle charges what was admitted elsewhere
     */
    record Scripts(Script decide, Script refund, Script reset, Script settle) {}
}
