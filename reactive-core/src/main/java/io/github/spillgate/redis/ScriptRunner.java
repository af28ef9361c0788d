package io.github.spillgate.redis;

import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScriptOutputType;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import reactor.core.publisher.Mono;

/**
 * Runs one script by its digest, and loads it where Redis does not know it: at first, and after a restart, a failover or a
 * SCRIPT FLUSH.
 *
 * <p>Thousands of calls may be under way when Redis forgets the script, and each will hear of it. One of them loads it, the
 * others wait for that and ask again. So each call remembers the newest load that it knew of when it was sent: if there is a
 * newer one when it fails, somebody has taken care of it already.
 */
final class ScriptRunner {

    /** How often one call asks again, should the script be lost as fast as it is loaded. */
    private static final int TRIES = 3;

    private final Connection connection;
    private final Script script;
    private final AtomicReference<Mono<String>> newestLoad = new AtomicReference<>(Mono.empty());

    ScriptRunner(Connection connection, Script script) {
        this.connection = connection;
        this.script = script;
    }

    /** The script's reply, on the connection's thread. */
    Mono<Object> run(byte[][] keys, byte[][] arguments) {
        return run(keys, arguments, TRIES);
    }

    private Mono<Object> run(byte[][] keys, byte[][] arguments, int tries) {
        return Mono.defer(() -> {
            Mono<String> known = newestLoad();
            Mono<Object> reply =
                    connection.ask(commands -> commands.evalsha(script.sha1(), ScriptOutputType.MULTI, keys, arguments)
                            .next());
            return tries == 0
                    ? reply
                    : reply.onErrorResume(
                            RedisNoScriptException.class, e -> loadAfter(known).then(run(keys, arguments, tries - 1)));
        });
    }

    /** The load that follows the one that was known: the caller's own, or that of somebody who came before. */
    private Mono<String> loadAfter(Mono<String> known) {
        // Cached, so that it is sent once, whoever comes, and goes on, whoever leaves.
        Mono<String> next =
                connection.ask(commands -> commands.scriptLoad(script.text())).cache();
        return newestLoad.compareAndSet(known, next) ? next : newestLoad();
    }

    private Mono<String> newestLoad() {
        return Objects.requireNonNull(newestLoad.get());
    }
}
