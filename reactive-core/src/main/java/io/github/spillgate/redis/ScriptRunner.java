package io.github.spillgate.redis;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisNoScriptException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Runs one script by its digest, and loads it if Redis does not know it: at first use, and after a restart, a failover
 * or a SCRIPT FLUSH.
 *
 * <p>Thousands of calls may be in flight when Redis loses the script, and each fails. One of them loads it; the others
 * wait for that load and run again.
 */
final class ScriptRunner {
    // Design notes.
    //
    // A call that fails must know whether another one has loaded the script already. So it remembers the last load that
    // had completed when it was sent. If a newer one exists by the time the call fails, that one helps: it had not
    // completed when the call was sent, so it is not what Redis has lost; or if it is, the next failure shows it. To
    // remember the newest load, complete or not, would be wrong: a call may overtake it on the way to Redis, and would
    // then load a second time.
    //
    // A load ends with the connection on which it was sent. A call never waits for a load on another connection than
    // the current one: a connection that has died silently would hold up all calls until it is closed.
    //
    // A call that runs again leaves the connection's thread first, which has replies to read.

    /** How often one call runs again if the script is lost as fast as it is loaded. */
    private static final int TRIES = 3;

    private static final byte[][] NONE = {};

    private final Connection connection;
    private final Script script;
    private final AtomicReference<@Nullable Load> newest = new AtomicReference<>();
    private final AtomicReference<@Nullable Load> completed = new AtomicReference<>();

    ScriptRunner(Connection connection, Script script) {
        this.connection = connection;
        this.script = script;
    }

    /**
     * Runs the script; its reply is emitted on the connection's thread.
     *
     * @param first sends the script
     * @param then sends it again if it had to be loaded
     */
    Mono<Object> run(CommandSender first, CommandSender then, byte[][] keys, byte[] request) {
        return run(first, then, keys, clock -> request);
    }

    /**
     * Runs the script with a request that is made when it is sent, for example because it depends on the server's
     * clock.
     */
    Mono<Object> run(CommandSender first, CommandSender then, byte[][] keys, Function<RedisClock, byte[]> request) {
        return run(first, then, keys, request, TRIES);
    }

    /**
     * Loads the script, whether Redis knows it or not. For a user that may run scripts but not load them it is enough
     * that Redis knows it.
     */
    Mono<Void> load() {
        return Mono.defer(() -> loadAfter(completed.get())).then().onErrorResume(Errors::isRefusal, this::checkKnown);
    }

    /** Runs the script without keys and request, which no script accepts. */
    private Mono<Void> checkKnown(Throwable loadRefused) {
        return connection
                .<Object>send(commands ->
                        commands.evalsha(script.sha1(), script.output(), NONE).next())
                .onErrorResume(
                        RedisCommandExecutionException.class,
                        e -> e instanceof RedisNoScriptException
                                ? Mono.error(loadRefused)
                                : Errors.isRefusal(e) ? Mono.error(e) : Mono.empty())
                .then();
    }

    private Mono<Object> run(
            CommandSender first, CommandSender then, byte[][] keys, Function<RedisClock, byte[]> request, int tries) {
        return Mono.defer(() -> {
            Load known = completed.get();
            Mono<Object> reply = call(first, keys, request);
            return tries == 0
                    ? reply
                    : reply.onErrorResume(
                            RedisNoScriptException.class,
                            e -> loadAfter(known)
                                    .publishOn(Schedulers.parallel())
                                    .then(run(then, then, keys, request, tries - 1)));
        });
    }

    private Mono<Object> call(CommandSender sender, byte[][] keys, Function<RedisClock, byte[]> request) {
        return sender.send(
                (commands, clock) -> commands.evalsha(script.sha1(), script.output(), keys, request.apply(clock))
                        .next());
    }

    /** Waits for a load on the current connection that is newer than the known one: another call's, or a new one. */
    private Mono<String> loadAfter(@Nullable Load known) {
        return connection.opened().onErrorMap(Errors::notSent).flatMap(open -> {
            Load current = newest.get();
            while (current == null || current == known || current.on != open) {
                Load next = new Load(open, current == null ? 1 : current.number + 1);
                if (newest.compareAndSet(current, next)) {
                    return next.done;
                }
                current = newest.get();
            }
            return current.done;
        });
    }

    private final class Load {

        private final OpenConnection on;

        /** The number of the load; a newer load has a higher one. */
        private final long number;

        /** Cached, so that it is sent once, whatever the number of callers, and goes on if a caller cancels. */
        private final Mono<String> done;

        Load(OpenConnection on, long number) {
            this.on = on;
            this.number = number;
            done = on.<String>send(commands -> commands.scriptLoad(script.text()))
                    .onErrorMap(Errors::notSent)
                    .doOnSuccess(sha1 -> complete())
                    .doOnError(e -> newest.compareAndSet(this, completed.get()))
                    .cache();
        }

        /** A load on a connection that was replaced may complete after its successor. */
        private void complete() {
            completed.accumulateAndGet(
                    this, (known, mine) -> known != null && mine != null && known.number > mine.number ? known : mine);
        }
    }
}
