package io.github.spillgate.redis;

import io.lettuce.core.api.reactive.RedisReactiveCommands;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** Sends commands to Redis: on one connection, or on whichever there is. */
interface CommandSender {

    /** Sends a command; the reply arrives on the connection's thread. */
    <T> Mono<T> ask(Command<T> command);

    /** Sends a command that does not depend on the server's clock. */
    default <T> Mono<T> ask(Function<RedisReactiveCommands<byte[], byte[]>, Mono<T>> command) {
        return ask((commands, clock) -> command.apply(commands));
    }

    /** A command, for the connection on which it is sent. */
    @FunctionalInterface
    interface Command<T> {

        /**
         * Returns the command, which is sent when it is subscribed to.
         *
         * @param commands the commands of the connection
         * @param clock the clock of the server at its other end
         */
        Mono<T> on(RedisReactiveCommands<byte[], byte[]> commands, RedisClock clock);
    }
}
