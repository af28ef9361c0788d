package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * A connection of our own on the user's client, opened when it is first needed. His own may be in a transaction, or blocked.
 *
 * <p>An attempt to open it belongs to nobody: whoever comes while it is under way waits for it, and no one who leaves ends it;
 * otherwise a service whose callers are impatient would never get connected. When it fails, those who waited are told, and the
 * next to come starts another. Opening takes a thread that may block, because a client offers to connect to the server it was
 * made for only in that way.
 */
final class Connection {

    private final RedisClient client;
    private final Scheduler inTurn = Schedulers.fromExecutor(new Turnstile());
    private final AtomicReference<@Nullable Mono<StatefulRedisConnection<byte[], byte[]>>> opening =
            new AtomicReference<>();
    private volatile boolean closed;

    Connection(RedisClient client) {
        this.client = client;
    }

    /** Sends a command, once there is a connection; the reply arrives on the connection's thread. */
    <T> Mono<T> ask(Function<RedisReactiveCommands<byte[], byte[]>, Mono<T>> command) {
        return connection().flatMap(open -> command.apply(open.reactive()).subscribeOn(inTurn));
    }

    private Mono<StatefulRedisConnection<byte[], byte[]>> connection() {
        return Mono.defer(() -> {
            Mono<StatefulRedisConnection<byte[], byte[]>> current = opening.get();
            if (current != null) {
                return current;
            }
            Mono<StatefulRedisConnection<byte[], byte[]>> next = open();
            return opening.compareAndSet(null, next) ? next : connection();
        });
    }

    private Mono<StatefulRedisConnection<byte[], byte[]>> open() {
        return Mono.fromCallable(this::connect)
                .subscribeOn(Schedulers.boundedElastic())
                .doOnError(e -> opening.set(null))
                .cache();
    }

    private StatefulRedisConnection<byte[], byte[]> connect() {
        checkOpen();
        StatefulRedisConnection<byte[], byte[]> connection = client.connect(ByteArrayCodec.INSTANCE);
        if (closed) {
            connection.close();
            checkOpen();
        }
        return connection;
    }

    private void checkOpen() {
        if (closed) {
            throw new LimitStoreException(
                    "the store is closed: expected it to be open, for example by closing it only after the"
                            + " last limiter that decides with it",
                    null);
        }
    }

    /** Closes the connection, if there is one or one is being opened; does not wait for it. */
    void close() {
        closed = true;
        Mono<StatefulRedisConnection<byte[], byte[]>> last = opening.getAndSet(null);
        if (last != null) {
            last.flatMap(open -> Mono.fromCompletionStage(open.closeAsync()))
                    .onErrorComplete()
                    .subscribe();
        }
    }
}
