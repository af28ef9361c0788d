package io.github.spillgate.redis;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.netty.channel.EventLoop;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A lower bound of the clock of one Redis server, from the times in its replies.
 *
 * <p>Translates a local deadline into a time on the server's clock that is not after the deadline. Times are recorded
 * by one thread at a time; deadlines are translated by any thread.
 */
final class RedisClock {
    // Design notes.
    //
    // A reply with the server's time T arrives at local time t. The server read its clock before t, so its clock shows
    // T or more at t, and T + (d - t) or more at a later local time d. The offset T - t of the fastest reply is the
    // best bound.
    //
    // Clocks run at different speeds, by at most 500 ppm while NTP corrects one of them, so an offset is lowered by
    // that much of its age, but by no more than 5 ms: over a longer time NTP keeps the clocks of both hosts together.
    // A server with a clock that is set back would accept late requests for as long as the step, so the best offset is
    // dropped once there have been newer replies for one to two periods.
    //
    // A bound that is too low, for example after a slow reply, makes Redis refuse a request that is not late. The
    // caller then retries, with the bound of that reply.

    /** The time, in nanoseconds, in which the best offset is searched; it counts in the next period too. */
    private static final long PERIOD = TimeUnit.SECONDS.toNanos(1);

    /** The age of an offset, divided by the error that the age may cause. */
    private static final long DRIFT = 2_000;

    private static final long MOST_DRIFT = TimeUnit.MILLISECONDS.toNanos(5);

    /** A deadline that is later than this counts as none. */
    private static final long FARTHEST = TimeUnit.DAYS.toNanos(1);

    private final LongSupplier nanoTime;
    private volatile @Nullable Bound bound;

    RedisClock(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
    }

    /**
     * Runs the script that decides for the first time on a new connection, and waits for the reply, which has the
     * server's time. If the server refuses, the first decision has the time. The connection is closed if this fails.
     *
     * @param script sends the script with a request that changes nothing
     * @return the event loop of the connection, on which the reply arrived
     */
    EventLoop request(
            StatefulRedisConnection<byte[], byte[]> connection,
            Function<RedisAsyncCommands<byte[], byte[]>, RedisFuture<Object>> script) {
        try {
            return requestOn(connection, script);
        } catch (RuntimeException e) {
            // A lost connection is being closed already, and Lettuce would warn.
            if (connection.isOpen()) {
                OpenConnection.unobserved(connection.closeAsync());
            }
            throw e;
        }
    }

    private EventLoop requestOn(
            StatefulRedisConnection<byte[], byte[]> connection,
            Function<RedisAsyncCommands<byte[], byte[]>, RedisFuture<Object>> script) {
        CompletableFuture<@Nullable EventLoop> loop = new CompletableFuture<>();
        // Sent only once the callback is there, which would otherwise run on this thread after a quick reply.
        connection.setAutoFlushCommands(false);
        RedisFuture<Object> reply = script.apply(connection.async());
        reply.whenComplete((time, error) -> loop.complete(LoopLanes.currentLoop()));
        connection.setAutoFlushCommands(true);
        connection.flushCommands();
        // Not for the reply: a thread that waits for it may run its callback.
        EventLoop found = OpenConnection.await(loop, "EVAL", connection.getTimeout());
        try {
            Object known = LettuceFutures.awaitOrCancel(reply, 0, TimeUnit.NANOSECONDS);
            if (known instanceof byte[] bytes && bytes.length >= ScriptReply.TIME_LENGTH) {
                record(new ScriptReply(bytes).micros());
            }
        } catch (RedisCommandExecutionException e) {
            if (Errors.isUnauthenticated(e)) {
                // Redis may close the connection.
                throw e;
            }
            requestTime(connection);
        }
        if (found == null) {
            throw new RedisException("the first reply arrived on no event loop");
        }
        return found;
    }

    /** Redis also replies while it loads its data. Without its time, the first requests would have no deadline. */
    private void requestTime(StatefulRedisConnection<byte[], byte[]> connection) {
        try {
            List<byte[]> time = OpenConnection.await(
                    connection.async().time().toCompletableFuture(), "TIME", connection.getTimeout());
            record(number(time.get(0)) * 1_000_000 + number(time.get(1)));
        } catch (RedisCommandExecutionException e) {
            // The first decision has the time, or shows what is wrong.
        }
    }

    private static long number(byte[] digits) {
        return Long.parseLong(new String(digits, StandardCharsets.US_ASCII));
    }

    /** Records the server's time in a reply that has just arrived. */
    void record(long micros) {
        long now = nanoTime.getAsLong();
        Offset offset = new Offset(TimeUnit.MICROSECONDS.toNanos(micros) - now, now);
        Bound known = bound;
        if (known == null) {
            bound = new Bound(offset, offset, now);
        } else if (now - known.since > PERIOD) {
            bound = new Bound(offset, now - known.since > 2 * PERIOD ? offset : known.best, now);
        } else if (offset.nanos >= known.best.at(now)) {
            bound = new Bound(offset, known.before, known.since);
        }
    }

    /** Returns whether a deadline has passed. */
    boolean isAfter(long deadline) {
        return isAfter(deadline, nanoTime.getAsLong());
    }

    /** Returns whether a deadline has passed at a time of the same local clock. */
    static boolean isAfter(long deadline, long now) {
        return !isFarAway(deadline, now) && now - deadline > 0;
    }

    /**
     * Returns a time on the server's clock that is not after a deadline.
     *
     * @param deadline the deadline, in local time
     * @return the time in microseconds; 0 if there is no deadline, or if the server's time is unknown
     */
    long microsAt(long deadline) {
        Bound known = bound;
        if (known == null || isFarAway(deadline, nanoTime.getAsLong())) {
            return 0;
        }
        long offset = Math.max(known.best.at(deadline), known.before.at(deadline));
        return Math.max(1, TimeUnit.NANOSECONDS.toMicros(offset + deadline));
    }

    /** Avoids the difference of the two, which may overflow. */
    private static boolean isFarAway(long deadline, long now) {
        return deadline > FARTHEST && deadline - FARTHEST > now;
    }

    /**
     * A difference of the two clocks.
     *
     * @param nanos the server's time less the local time
     * @param measuredAt when it was measured, in local time
     */
    private record Offset(long nanos, long measuredAt) {

        /** Returns a lower bound of the offset at another time. */
        long at(long time) {
            return nanos - Math.min(MOST_DRIFT, Math.abs(time - measuredAt) / DRIFT);
        }
    }

    /**
     * The best offsets of two periods.
     *
     * @param best the best offset of this period
     * @param before the best offset of the previous period
     * @param since the start of this period
     */
    private record Bound(Offset best, Offset before, long since) {}
}
