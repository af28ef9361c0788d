package io.github.spillgate.examples.documentation.seeds;

import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The limiter of vatnode.dev, on a real Redis: a script that removes entries older than the window, counts, and adds
 * the request if it fits. The time is that of the calling instance.
 */
final class Vatnode {

    private static final AtomicInteger NUMBER = new AtomicInteger();

    private static final String SCRIPT = """
            redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
            local used = redis.call('ZCARD', KEYS[1])
            if used >= tonumber(ARGV[3]) then
              return {0, 0}
            end
            redis.call('ZADD', KEYS[1], ARGV[1], %s)
            redis.call('EXPIRE', KEYS[1], ARGV[4])
            return {1, ARGV[3] - used - 1}
            """;

    private final StatefulRedisConnection<String, String> connection;
    private final String prefix = "vatnode-" + NUMBER.incrementAndGet() + "-" + System.nanoTime() + ":";
    private final String script;

    private Vatnode(StatefulRedisConnection<String, String> connection, String member) {
        this.connection = connection;
        this.script = SCRIPT.formatted(member);
    }

    static Vatnode over(StatefulRedisConnection<String, String> connection) {
        return new Vatnode(connection, "ARGV[1] .. '-' .. math.random(1000000)");
    }

    /** Returns the first version, without a random part in the member. */
    static Vatnode inItsFirstVersion(StatefulRedisConnection<String, String> connection) {
        return new Vatnode(connection, "ARGV[1]");
    }

    Answer ask(String key, long max, Duration window, long now) {
        return send(key, max, window, now).toCompletableFuture().join();
    }

    CompletionStage<Answer> send(String key, long max, Duration window, long now) {
        long millis = window.toMillis();
        RedisFuture<List<Long>> reply = connection
                .async()
                .eval(
                        script,
                        ScriptOutputType.MULTI,
                        new String[] {prefix + key},
                        Long.toString(now),
                        Long.toString(now - millis),
                        Long.toString(max),
                        Long.toString((millis + 999) / 1_000));
        return reply.thenApply(said -> Answer.of(said.get(0) == 1, said.get(1), millis, now));
    }

    long stored(String key) {
        return connection.sync().zcard(prefix + key);
    }

    long memory(String key) {
        return connection.sync().memoryUsage(prefix + key);
    }

    /** The response to the client. The reset, in seconds, is the end of a window that would begin now. */
    record Answer(boolean allowed, long remaining, long resetAt, long retryAfterSeconds) {

        static Answer of(boolean allowed, long remaining, long window, long now) {
            long resetAt = (now + window + 999) / 1_000;
            return new Answer(allowed, remaining, resetAt, Math.max(1, resetAt - now / 1_000));
        }
    }
}
