package io.github.spillgate.redis;

import io.lettuce.core.RedisNoScriptException;
import java.util.concurrent.atomic.AtomicReference;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Runs one script by its digest, and loads it where Redis does not know it: at first, and after a restart, a failover or a
 * SCRIPT FLUSH.
 *
 * <p>Thousands of calls may be under way when Redis forgets the script, and each will hear of it. One of them loads it, the
 * others wait for that and ask again.
 */
final class ScriptRunner {
    // Design notes.
    //
    // A call that fails has to know whether somebody has taken care of it already. So it remembers the last load that
    // was through when it was sent. If a newer one exists by the time it fails, that one helps: it was not through
    // when the call was sent, so it was not what Redis has lost, or if it was, the next failure tells. To remember
    // the newest load, through or not, would be wrong: a call may overtake it on the way to Redis, and would then
    // load a second time.
    //
    // Who asks again leaves the connection's thread first: it has replies to read.

    /** How often one call asks again, should the script be lost as fast as it is loaded. */
    private static final int TRIES = 3;

    private final Connection connection;
    private final Script script;
    private final Load none = new Load(Mono.empty());
    private final AtomicReference<Load> newest = new AtomicReference<>(none);
    private volatile Load through = none;

    ScriptRunner(Connection connection, Script script) {
        this.connection = connection;
        this.script = script;
    }

    /**
     * The script's reply, on the connection's thread.
     *
     * @param first where it is asked
     * @param then where it is asked again, if it had to be loaded
     */
    Mono<Object> run(Asks first, Asks then, byte[][] keys, byte[][] arguments) {
        return run(first, then, keys, arguments, TRIES);
    }

    /** Loads the script, whether Redis knows it or not. */
    Mono<Void> load() {
        return Mono.defer(() -> loadAfter(through)).then();
    }

    private Mono<Object> run(Asks asked, Asks then, byte[][] keys, byte[][] arguments, int tries) {
        return Mono.defer(() -> {
            Load known = through;
            Mono<Object> reply = asked.ask(commands -> commands.evalsha(script.sha1(), script.output(), keys, arguments)
                    .next());
            return tries == 0
                    ? reply
                    : reply.onErrorResume(
                            RedisNoScriptException.class,
                            e -> loadAfter(known)
                                    .publishOn(Schedulers.parallel())
                                    .then(run(then, then, keys, arguments, tries - 1)));
        });
    }

    /** A load that is newer than the known one: that of somebody who came before, or the caller's own. */
    private Mono<String> loadAfter(Load known) {
        Load next = new Load(connection.ask(commands -> commands.scriptLoad(script.text())));
        Load current = newest.compareAndExchange(known, next);
        return current == known ? next.done : current.done;
    }

    private final class Load {

        /** Cached, so that it is sent once, whoever comes, and goes on, whoever leaves. */
        private final Mono<String> done;

        Load(Mono<String> sent) {
            done = sent.onErrorMap(Errors::notAsked)
                    .doOnSuccess(sha1 -> through = this)
                    .doOnError(e -> newest.compareAndSet(this, through))
                    .cache();
        }
    }
}
