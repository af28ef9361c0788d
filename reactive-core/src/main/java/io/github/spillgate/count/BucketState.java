package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;

/**
 * The level of a {@linkplain Limit.Bucket token bucket} for one key, and its arithmetic.
 *
 * <p>The level is what has been taken and has not returned yet. It falls at an even rate, to zero. Its unit is such
 * that nothing is ever rounded: a permit has as many units as a window has milliseconds, and each millisecond returns
 * as many units as a window has permits. A cost fits if the level plus the cost is at most the burst.
 *
 * @param level the units that are in use at that time
 * @param at the time of the level, in milliseconds of the store's clock
 */
public record BucketState(long level, long at) {

    /** Creates a state. */
    public BucketState {
        if (level < 0 || at < 0) {
            throw new IllegalArgumentException("level " + level + " at " + at
                    + " is no state of a token bucket: expected neither to be negative, for example 3000 at"
                    + " 1790000000000");
        }
    }

    /** Returns the usage after a decision that has left this state. */
    public StoreUsage usage(Reply reply, Claim claim, boolean violated, boolean denied, int life) {
        Limit limit = claim.limit();
        long fitsAt = denied ? fitsAt(limit, claim.permits()) : at;
        return new StoreUsage(reply, claim, used(limit), violated, fitsAt, wholeAt(limit), life, null, false, null);
    }

    /**
     * Returns this state at another time. If the clock stepped back, the level is the same, as if the permits had been
     * taken now: so the step allows no additional request, and nothing is denied for longer than after a full burst.
     */
    public BucketState at(Limit limit, long now) {
        return new BucketState(levelAfter(limit, level, now - at), now);
    }

    /** Returns a level after some milliseconds; the same if they are negative. */
    public static long levelAfter(Limit limit, long level, long millis) {
        if (millis <= 0) {
            return level;
        }
        // The product cannot overflow: it is at most the level.
        return millis > level / limit.permits() ? 0 : level - millis * limit.permits();
    }

    /** Returns how many units a number of permits has; {@code Long.MAX_VALUE} if they are more. */
    public static long units(Limit limit, long permits) {
        long window = limit.window().toMillis();
        return permits > Long.MAX_VALUE / window ? Long.MAX_VALUE : permits * window;
    }

    /** Returns the permits in use, rounded up. A cost fits if these plus the cost are at most the burst. */
    public long used(Limit limit) {
        return ceilDiv(level, limit.window().toMillis());
    }

    /** Returns whether a cost fits. */
    public boolean fits(Limit limit, long cost) {
        return cost <= limit.capacity() && level <= units(limit, limit.capacity() - cost);
    }

    /** Returns the first millisecond at which a cost fits if no other permits are taken until then. */
    public long fitsAt(Limit limit, long cost) {
        if (cost > limit.capacity()) {
            throw new IllegalArgumentException("cost " + cost + " never fits under " + limit
                    + ": expected at most its burst, for example " + limit.capacity());
        }
        long missing = level - units(limit, limit.capacity() - cost);
        return missing <= 0 ? at : at + ceilDiv(missing, limit.permits());
    }

    /** Returns the first millisecond at which no permit is in use any more if none is taken until then. */
    public long wholeAt(Limit limit) {
        return at + ceilDiv(level, limit.permits());
    }

    private static long ceilDiv(long dividend, long divisor) {
        return dividend / divisor + (dividend % divisor == 0 ? 0 : 1);
    }
}
