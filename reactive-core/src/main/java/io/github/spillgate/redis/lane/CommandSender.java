package io.github.spillgate.redis.lane;

import io.github.spillgate.internal.StoreClock;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import java.util.function.Function;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Mono;

/** Sends commands to Redis, on one connection or on the current one. */
public interface CommandSender {

    /** Sends a command; the reply is emitted on the connection's thread. */
    <T> Mono<T> send(Command<T> command);

    /** Sends a command that does not depend on the server's clock. */
    default <T> Mono<T> send(Function<RedisReactiveCommands<byte[], byte[]>, Publisher<T>> command) {
        return send((commands, clock) -> command.apply(commands));
    }

    /** A command, for the connection on which it is sent. */
    @FunctionalInterface
    interface Command<T> {

        /**
         * Returns the command, which is sent on subscription. Called on the event loop of the connection, right before
         * that.
         *
         * @param commands the commands of the connection
         * @param clock the clock of the connection's server
         */
        Publisher<T> on(RedisReactiveCommands<byte[], byte[]> commands, StoreClock clock);
    }
}
