package io.github.spillgate.redis.lane;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.count.QuotaState;
import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.nio.charset.StandardCharsets;

/**
 * Decoder of the reply of a script that reports usages: the time of the server, and one usage for each count of the
 * request, in its order. {@code wire.lua} describes the format in its header, and has two patterns of it for {@code
 * pack}.
 */
public final class ScriptReply {

    private static final Status[] STATUSES = Status.values();

    static final int TIME_LENGTH = 7;
    static final int STATUS = 4;
    private static final int LIFE = STATUS + 1;
    private static final int FIRST = LIFE + 2;
    private static final int SECOND = FIRST + 7;
    private static final int THIRD = SECOND + 7;
    static final int USAGE_LENGTH = THIRD + 7;

    private final byte[] bytes;
    private final Reply reply;

    public ScriptReply(byte[] bytes) {
        this.bytes = bytes;
        long micros = hasTime() ? number(0, TIME_LENGTH) : 0;
        this.reply = new Reply(Source.REDIS, micros / 1_000, micros);
    }

    /** Returns whether the reply has a time. */
    public boolean hasTime() {
        return bytes.length >= TIME_LENGTH;
    }

    /** Returns the time of the server in microseconds. */
    public long micros() {
        return reply.stamp();
    }

    /** Returns the time of the server, with the microseconds as the stamp. All usages share it. */
    Reply time() {
        return reply;
    }

    /** Returns how many of a group of equal requests are granted; of a lease, how many permits. */
    long granted(int usage) {
        return number(start(usage), 4);
    }

    /** Returns the flag that the other scripts have in the place of {@link #granted}; their headers describe it. */
    public boolean flag(int usage) {
        return granted(usage) == 1;
    }

    public Status status(int usage) {
        return STATUSES[bytes[start(usage) + STATUS]];
    }

    /** Returns the usage of a count after all that was granted. */
    public StoreUsage usage(int usage, Claim claim) {
        return usage(usage, claim, true, 0);
    }

    /**
     * Returns the usage of a count after one request of a group.
     *
     * @param isGranted whether that request is granted
     * @param grantedLater how many requests of the group are granted after it
     */
    StoreUsage usage(int usage, Claim claim, boolean isGranted, long grantedLater) {
        int start = start(usage);
        long now = reply.at();
        long takenLater = grantedLater * claim.permits();
        boolean isViolated = !isGranted && status(usage) == Status.DENIED;
        // The figures are those of the kind of limit, see its script.
        long first = number(start + FIRST, 7);
        long second = number(start + SECOND, 7);
        long third = number(start + THIRD, 7);
        int life = (int) number(start + LIFE, 2);
        Limit limit = claim.limit();
        if (limit instanceof Limit.Counter) {
            CounterState state = new CounterState(third, first, second - takenLater);
            return state.usage(reply, claim, isViolated, !isGranted, life);
        } else if (limit instanceof Limit.Bucket) {
            BucketState state = new BucketState(first - BucketState.units(limit, takenLater), now);
            return state.usage(reply, claim, isViolated, !isGranted, life);
        } else if (limit instanceof Limit.Quota) {
            boolean isFirst = grantedLater == granted(usage) - 1;
            QuotaState state = QuotaState.ofReply(first - takenLater, second, third, claim, isGranted, isFirst);
            return state.usage(reply, claim, isViolated, !isGranted, life);
        } else if (limit.holdsPermits()) {
            // It is not known when a holder will release its permits.
            long fitsAt = isViolated ? now + limit.retryAfter().toMillis() : now;
            return new StoreUsage(reply, claim, first, isViolated, fitsAt, second, life, null, false, null);
        } else if (!limit.takesPermits()) {
            long fitsAt = isGranted ? now : second;
            return new StoreUsage(reply, claim, first, isViolated, fitsAt, second, life, null, false, null);
        }
        long fitsAt = isGranted ? now : second;
        return new StoreUsage(reply, claim, first - takenLater, isViolated, fitsAt, third, life, null, false, null);
    }

    /** Returns the text behind this number of usages: why something could not be written; empty if everything was. */
    String textAfter(int usages) {
        int from = start(usages);
        return bytes.length <= from ? "" : new String(bytes, from, bytes.length - from, StandardCharsets.UTF_8);
    }

    private static int start(int usage) {
        return TIME_LENGTH + USAGE_LENGTH * usage;
    }

    private long number(int from, int size) {
        return LittleEndian.get(bytes, from, size);
    }

    /** What a usage says of its count; in the order of the numbers in {@code wire.lua}. */
    public enum Status {
        /** Nothing prevents a grant. */
        FREE,

        /** The cost does not fit. */
        DENIED,

        /** The value under the key was not written by this library. */
        FOREIGN,

        /** The charge could not be written. */
        UNWRITTEN,

        /** The deadline had passed on the server's clock. */
        LATE
    }
}
