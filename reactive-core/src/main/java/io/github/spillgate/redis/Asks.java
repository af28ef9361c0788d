package io.github.spillgate.redis;

import io.lettuce.core.api.reactive.RedisReactiveCommands;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** Sends commands to Redis: on one connection, or on whichever there is. */
interface Asks {

    /** Sends a command; the reply arrives on the connection's thread. */
    <T> Mono<T> ask(Function<RedisReactiveCommands<byte[], byte[]>, Mono<T>> command);
}
