package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.internal.StoreClock;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandInterruptedException;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.netty.channel.EventLoop;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** The steps that open a connection. All of them block, on the thread of the attempt, and each wait is bounded. */
public final class Handshake {

    private static final Duration LONGEST = Duration.ofSeconds(Lane.LONGEST_ATTEMPT_SECONDS);

    private Handshake() {}

    /**
     * Connects on any event loop. Replies to Lettuce's handshake may be lost, for example if a proxy drops HELLO;
     * Lettuce waits for them as long as for a later reply.
     */
    public static StatefulRedisConnection<byte[], byte[]> connect(RedisClient client, RedisURI uri) {
        StatefulRedisConnection<byte[], byte[]> opened = client.connect(ByteArrayCodec.INSTANCE, withTimeout(uri));
        opened.setTimeout(uri.getTimeout());
        return opened;
    }

    /** Connects on the event loop of a client. Lettuce never reports the result if the loop ends. */
    public static StatefulRedisConnection<byte[], byte[]> connectOnLoop(RedisClient client, RedisURI uri) {
        CompletableFuture<StatefulRedisConnection<byte[], byte[]>> opening =
                client.connectAsync(ByteArrayCodec.INSTANCE, withTimeout(uri)).toCompletableFuture();
        try {
            StatefulRedisConnection<byte[], byte[]> opened =
                    opening.get(Lane.LONGEST_ATTEMPT_SECONDS, TimeUnit.SECONDS);
            // For the first commands: the attempt waits for their replies.
            opened.setTimeout(LONGEST);
            return opened;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RedisException("interrupted while connecting on an event loop", e);
        } catch (TimeoutException e) {
            CompletableFuture<Void> unused = opening.thenAccept(late -> OpenConnection.unobserved(late.closeAsync()));
            throw new RedisException("no connection on an event loop in time", e);
        } catch (ExecutionException e) {
            throw new RedisException(e.getCause());
        }
    }

    /** Returns the URI with a timeout for the handshake. That of a Sentinel stays: it is for several servers. */
    private static RedisURI withTimeout(RedisURI uri) {
        return isShort(uri.getTimeout()) || !uri.getSentinels().isEmpty()
                ? uri
                : RedisURI.builder(uri).withTimeout(LONGEST).build();
    }

    private static boolean isShort(Duration timeout) {
        // For Lettuce, zero is no limit.
        return !timeout.isZero() && timeout.compareTo(LONGEST) <= 0;
    }

    /**
     * Runs the script that decides for the first time on a new connection, and waits for the reply, which has the
     * server's time. If the server refuses, the first decision has the time. The connection is closed if this fails.
     *
     * @param script sends the script with a request that changes nothing
     * @param clock records the server's time
     * @return the event loop of the connection, on which the reply arrived
     */
    static EventLoop runFirst(
            StatefulRedisConnection<byte[], byte[]> connection,
            Function<RedisAsyncCommands<byte[], byte[]>, RedisFuture<byte[]>> script,
            StoreClock clock) {
        try {
            return run(connection, script, clock);
        } catch (RuntimeException e) {
            // A lost connection is being closed already, and Lettuce would warn.
            if (connection.isOpen()) {
                OpenConnection.unobserved(connection.closeAsync());
            }
            throw e;
        }
    }

    private static EventLoop run(
            StatefulRedisConnection<byte[], byte[]> connection,
            Function<RedisAsyncCommands<byte[], byte[]>, RedisFuture<byte[]>> script,
            StoreClock clock) {
        CompletableFuture<@Nullable EventLoop> loop = new CompletableFuture<>();
        // Sent only once the callback is there, which would otherwise run on this thread after a quick reply.
        connection.setAutoFlushCommands(false);
        RedisFuture<byte[]> reply = script.apply(connection.async());
        reply.whenComplete((time, error) -> loop.complete(LoopLanes.currentLoop()));
        connection.setAutoFlushCommands(true);
        connection.flushCommands();
        // No longer than an attempt may take: a caller without a deadline may wait for it, and no other one may come.
        boolean isShort = isShort(connection.getTimeout());
        Duration longest = isShort ? connection.getTimeout() : LONGEST;
        EventLoop found;
        try {
            // Not for the reply: a thread that waits for it may run its callback.
            found = await(loop, "EVAL", longest);
        } catch (RedisCommandTimeoutException e) {
            throw isShort ? e : noReplyToScript();
        }
        try {
            byte @Nullable [] known = await(reply.toCompletableFuture(), "EVAL", longest);
            if (known != null && new ScriptReply(known).hasTime()) {
                clock.record(new ScriptReply(known).micros());
            }
        } catch (RedisCommandExecutionException e) {
            if (Errors.isUnauthenticated(e)) {
                // Redis may close the connection.
                throw e;
            }
            requestTime(connection, clock, longest);
        }
        if (found == null) {
            throw new RedisException("the first reply arrived on no event loop");
        }
        return found;
    }

    static LimitStoreException noReplyToScript() {
        return Errors.noScripts("did not reply to EVAL within " + Lane.LONGEST_ATTEMPT_SECONDS + " s");
    }

    /** Redis also replies while it loads its data. Without its time, the first requests would have no deadline. */
    private static void requestTime(
            StatefulRedisConnection<byte[], byte[]> connection, StoreClock clock, Duration longest) {
        try {
            List<byte[]> time = await(connection.async().time().toCompletableFuture(), "TIME", longest);
            clock.record(number(time.get(0)) * 1_000_000 + number(time.get(1)));
        } catch (RedisCommandExecutionException e) {
            // The first decision has the time, or shows what is wrong.
        }
    }

    private static long number(byte[] digits) {
        return Long.parseLong(new String(digits, StandardCharsets.US_ASCII));
    }

    /** Blocks until the reply to a command. Errors are those of Lettuce. */
    public static <T extends @Nullable Object> T await(CompletableFuture<T> reply, String command, Duration longest) {
        // For Lettuce, zero is no limit.
        Duration limit = longest.isZero() ? RedisURI.DEFAULT_TIMEOUT_DURATION : longest;
        try {
            return reply.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new RedisCommandTimeoutException("no reply to " + command + " within " + limit.toMillis() + " ms");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RedisCommandInterruptedException(e);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RedisException known ? known : new RedisException(e.getCause());
        }
    }
}
