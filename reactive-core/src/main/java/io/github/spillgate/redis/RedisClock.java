package io.github.spillgate.redis;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * A lower bound of the clock of one Redis server, from the times in its replies.
 *
 * <p>Translates a local deadline into a time on the server's clock that is not after the deadline. Thread-safe.
 */
final class RedisClock {
    // Design notes.
    //
    // A reply with the server's time T arrives at local time t. The server read its clock before t, so its clock shows
    // T or more at t, and T + (d - t) or more at a later local time d. The bound is the offset T - t. The largest one
    // of recent replies is the best: its reply was the fastest.
    //
    // Clocks run at different speeds, by at most 500 ppm while NTP corrects one of them, so the bound is lowered by
    // that much of its age. It is also forgotten after two periods in which there were newer replies, because a server
    // whose clock is set back would otherwise accept late requests for as long as the step.
    //
    // A bound that is too low, for example after a long pause, makes Redis refuse a request that is not late. The
    // caller then sends it again, with the bound of that reply.

    /** The time for which the largest offset is kept, in nanoseconds; it counts in the next period too. */
    private static final long PERIOD = TimeUnit.SECONDS.toNanos(1);

    /** The age of a bound, divided by the error that the age may cause. */
    private static final long DRIFT = 2_000;

    private static final long UNKNOWN = Long.MIN_VALUE;

    private final LongSupplier nanoTime;
    private volatile long largest = UNKNOWN;
    private volatile long largestBefore = UNKNOWN;
    private volatile long periodStart;

    RedisClock(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
    }

    /** Asks the server for its time, and waits for the reply. A server that refuses is asked by the first decision. */
    void ask(StatefulRedisConnection<byte[], byte[]> connection) {
        try {
            List<byte[]> time = LettuceFutures.awaitOrCancel(
                    connection.async().time(), connection.getTimeout().toNanos(), TimeUnit.NANOSECONDS);
            heard(number(time.get(0)) * 1_000_000 + number(time.get(1)));
        } catch (RedisCommandExecutionException e) {
            // The first reply of the script brings the time.
        } catch (RuntimeException e) {
            OpenConnection.unobserved(connection.closeAsync());
            throw e;
        }
    }

    private static long number(byte[] digits) {
        return Long.parseLong(new String(digits, StandardCharsets.US_ASCII));
    }

    /** Learns from a reply that has just arrived. Called by one thread at a time. */
    void heard(long micros) {
        long now = nanoTime.getAsLong();
        long offset = TimeUnit.MICROSECONDS.toNanos(micros) - now;
        if (largest == UNKNOWN || now - periodStart > PERIOD) {
            largestBefore = now - periodStart > 2 * PERIOD ? UNKNOWN : largest;
            largest = offset;
            periodStart = now;
        } else if (offset > largest) {
            largest = offset;
        }
    }

    /** Returns whether a local time has passed. */
    boolean isAfter(long nanos) {
        return nanoTime.getAsLong() - nanos > 0;
    }

    /**
     * Returns a time on the server's clock that is not after a local time.
     *
     * @param nanos the local time
     * @return the time in microseconds; 0 if nothing is known of the server's clock
     */
    long microsAt(long nanos) {
        long offset = Math.max(largest, largestBefore);
        if (offset == UNKNOWN) {
            return 0;
        }
        long age = Math.max(0, nanos - periodStart + PERIOD);
        return Math.max(1, TimeUnit.NANOSECONDS.toMicros(offset + nanos - age / DRIFT));
    }
}
