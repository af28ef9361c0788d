package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreUnavailableException;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.ScriptOutputType;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** One Redis server: its connection, its scripts, and the decisions that wait for it. */
final class Server {

    /** The highest number of redirects of one command. A stable cluster needs at most one. */
    private static final int MOST_REDIRECTS = 5;

    private final String name;
    private final Connection connection;
    private final BiFunction<Redirect, Server, Mono<Redirect.Target>> redirects;
    private final Runnable onClusterDown;
    private final CountKeys keys;
    private final Coalescing coalescing;
    private final Delivery delivery;
    private final ScriptRunner decide;
    private final ScriptRunner refund;
    private final ScriptRunner reset;
    private final ScriptRunner reconcile;
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicReference<@Nullable Coalescer> coalescer = new AtomicReference<>();

    /**
     * A server.
     *
     * @param name the name, unique within the topology
     * @param redirects returns the target of a redirect by this server; empty if there is no other server
     * @param onClusterDown called if this server replies that its cluster is down
     */
    Server(
            String name,
            Connection connection,
            Settings settings,
            BiFunction<Redirect, Server, Mono<Redirect.Target>> redirects,
            Runnable onClusterDown) {
        this.name = name;
        this.connection = connection;
        this.redirects = redirects;
        this.onClusterDown = onClusterDown;
        this.keys = settings.keys();
        this.coalescing = settings.coalescing();
        this.delivery = settings.delivery();
        this.decide = new ScriptRunner(connection, settings.scripts().decide());
        this.refund = new ScriptRunner(connection, settings.scripts().refund());
        this.reset = new ScriptRunner(connection, settings.scripts().reset());
        this.reconcile = new ScriptRunner(connection, settings.scripts().reconcile());
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

    ScriptRunner reconcile() {
        return reconcile;
    }

    /** Decides, batched with other decisions. */
    void decide(PendingDecision decision) {
        // First, because all waiters may depend on a connection that only the next caller replaces.
        OpenConnection open = connection.ifOpen();
        Coalescer current = open == null ? null : coalescerOn(open);
        if (!coalescing.admits(decision, waiting)) {
            return;
        }
        if (current != null) {
            current.add(decision);
        } else {
            connection.opened().subscribe(opened -> coalescerOn(opened).add(decision), error -> {
                waiting.decrementAndGet();
                delivery.deliver(() -> decision.fail(Errors.translate(error)));
            });
        }
    }

    /** Returns the coalescer of this connection or, if there is a newer connection, of that one. */
    private Coalescer coalescerOn(OpenConnection open) {
        while (true) {
            Coalescer known = coalescer.get();
            if (known != null && !known.isOlderThan(open)) {
                return known;
            }
            Coalescer next = new Coalescer(open, batch -> decide(batch, open), keys, coalescing, waiting, delivery);
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
        byte[][] names = batch.keys();
        return send(open, connection, (server, first, then) -> server.decide.run(first, then, names, batch::request));
    }

    /** Sends a command to this server, and follows its redirects. */
    <T> Mono<T> send(RedirectableCommand<T> command) {
        return send(connection, connection, command);
    }

    private <T> Mono<T> send(CommandSender first, CommandSender then, RedirectableCommand<T> command) {
        return send(first, then, command, MOST_REDIRECTS);
    }

    private <T> Mono<T> send(
            CommandSender first, CommandSender then, RedirectableCommand<T> command, int redirectsLeft) {
        return command.sendTo(this, first, then).onErrorResume(RedisCommandExecutionException.class, error -> {
            Redirect redirect = Redirect.parse(error);
            if (redirect == null) {
                if (Redirect.isClusterDown(error)) {
                    onClusterDown.run();
                }
                return Mono.error(error);
            }
            if (redirectsLeft == 0) {
                return Mono.error(new LimitStoreUnavailableException(
                        "Redis cannot decide: its nodes disagree on the owner of slot " + redirect.slot(), error));
            }
            // Off the connection's thread, which has replies to read.
            return redirects
                    .apply(redirect, this)
                    .switchIfEmpty(Mono.error(error))
                    .publishOn(Schedulers.parallel())
                    .flatMap(target ->
                            target.server().send(target.sender(), target.sender(), command, redirectsLeft - 1));
        });
    }

    /** Connects and loads the scripts. */
    Mono<Void> prepare() {
        return Mono.when(decide.load(), refund.load(), reset.load(), reconcile.load());
    }

    /** Begins to close the connection; the result completes once it is closed. */
    CompletableFuture<Void> beginClosing() {
        return connection.beginClosing();
    }

    /** Closes the connection, because this server owns no slot any more. Waiting decisions fail without a charge. */
    void closeWithoutSlots() {
        connection.close(() -> new LimitStoreUnavailableException(
                "Redis cannot decide: " + name + " no longer owns a slot of the cluster", null));
    }

    @Override
    public String toString() {
        return name;
    }

    /** A command for a server, or for another server after a redirect. */
    @FunctionalInterface
    interface RedirectableCommand<T> {

        /**
         * Sends the command.
         *
         * @param server the server
         * @param first sends the command
         * @param then sends it again, or sends the next command
         */
        Mono<T> sendTo(Server server, CommandSender first, CommandSender then);
    }

    /**
     * The settings that all servers of one store share.
     *
     * @param keys the keys of the counts
     * @param scripts the scripts
     * @param coalescing the bounds of batches
     * @param delivery emits the decisions
     */
    record Settings(CountKeys keys, Scripts scripts, Coalescing coalescing, Delivery delivery) {}

    /**
     * The scripts of a store.
     *
     * @param decide decides a batch
     * @param refund refunds permits
     * @param reset deletes counts
     * @param reconcile charges permits that were granted elsewhere
     */
    record Scripts(Script decide, Script refund, Script reset, Script reconcile) {

        /**
         * Reads the scripts.
         *
         * @param change changes the text of each script; tests replace the clock
         */
        static Scripts load(UnaryOperator<String> change) {
            return new Scripts(
                    Script.of(
                            ScriptOutputType.VALUE,
                            change,
                            "counts.lua",
                            "wire.lua",
                            "counter.lua",
                            "one-counter.lua",
                            "log.lua",
                            "codec.lua",
                            "decide.lua"),
                    Script.of(
                            ScriptOutputType.STATUS,
                            change,
                            "counts.lua",
                            "wire.lua",
                            "counter.lua",
                            "log.lua",
                            "codec.lua",
                            "refund.lua"),
                    Script.of(ScriptOutputType.STATUS, change, "counts.lua", "reset.lua"),
                    Script.of(
                            ScriptOutputType.VALUE,
                            change,
                            "counts.lua",
                            "wire.lua",
                            "counter.lua",
                            "log.lua",
                            "codec.lua",
                            "reconcile.lua"));
        }
    }
}
