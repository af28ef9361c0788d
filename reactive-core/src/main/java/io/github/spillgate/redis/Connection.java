package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreException;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.util.concurrent.CompletableFuture;
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
 *
 * <p>A connection that breaks is given up, with all that was sent and not answered, and the next to come opens another. Lettuce
 * would connect it anew and send again what was not answered: but Redis may have done it, and then what was taken would be taken
 * twice, and what was given back be given back twice.
 */
final class Connection {

    private final RedisClient client;
    private final Scheduler inTurn = Schedulers.fromExecutor(new Turnstile());
    private final AtomicReference<@Nullable Opening> current = new AtomicReference<>();
    private volatile boolean closed;

    Connection(RedisClient client) {
        this.client = client;
    }

    /** Sends a command, once there is a connection; the reply arrives on the connection's thread. */
    <T> Mono<T> ask(Function<RedisReactiveCommands<byte[], byte[]>, Mono<T>> command) {
        return Mono.defer(() -> opening().connection)
                .flatMap(open -> command.apply(open.reactive()).subscribeOn(inTurn));
    }

    private Opening opening() {
        while (true) {
            Opening known = current.get();
            if (known != null) {
                return known;
            }
            Opening next = new Opening();
            if (current.compareAndSet(null, next)) {
                return next;
            }
        }
    }

    /** Closes the connection, if there is one or one is being opened; does not wait for it. */
    void close() {
        closed = true;
        Opening last = current.getAndSet(null);
        if (last != null) {
            last.connection.subscribe(Connection::close, neverOpened -> {});
        }
    }

    private static void close(StatefulRedisConnection<byte[], byte[]> connection) {
        unobserved(connection.closeAsync());
    }

    /** Whether it closes well or badly, it is gone, and nobody is left to be told. */
    private static void unobserved(CompletableFuture<Void> closing) {
        Mono.fromFuture(closing).subscribe(done -> {}, error -> {});
    }

    /** One attempt to open a connection, and what came of it. */
    private final class Opening implements RedisConnectionStateListener {

        private final Mono<StatefulRedisConnection<byte[], byte[]>> connection = Mono.fromCallable(this::connect)
                .subscribeOn(Schedulers.boundedElastic())
                .doOnError(e -> current.compareAndSet(this, null))
                .cache();

        private StatefulRedisConnection<byte[], byte[]> connect() {
            checkNotClosed();
            StatefulRedisConnection<byte[], byte[]> opened = client.connect(ByteArrayCodec.INSTANCE);
            opened.addListener(this);
            if (closed || !opened.isOpen()) {
                close(opened);
                checkNotClosed();
                throw new RedisException("the connection broke as soon as it was open");
            }
            return opened;
        }

        @Override
        public void onRedisDisconnected(RedisChannelHandler<?, ?> broken) {
            current.compareAndSet(this, null);
            if (!broken.isClosed()) {
                unobserved(broken.closeAsync());
            }
        }

        private void checkNotClosed() {
            if (closed) {
                throw new LimitStoreException(
                        "the store is closed: expected it to be open, for example by closing it only after the last"
                                + " limiter that decides with it",
                        null);
            }
        }
    }
}
