package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;

/**
 * The present period of a {@linkplain Limit.Quota calendar quota} for one key.
 *
 * @param used the permits taken in the period
 * @param start the start of the period, in milliseconds of the store's clock
 * @param end its end
 * @param isMarked whether a decision of this period has reached the {@linkplain Limit#nearMark() mark}, if it is known
 * @param isNear whether the last decision was that one
 */
public record QuotaState(long used, long start, long end, boolean isMarked, boolean isNear)
        implements StoreUsage.Windows {

    /** Added to the start in a reply of Redis; above all times. */
    private static final long IS_NEAR = 1L << 50;

    /** Creates a period in which no decision has reached the mark. */
    QuotaState(long used, long start, long end) {
        this(used, start, end, false, false);
    }

    /**
     * Returns the state after one request of a group, by a reply of Redis.
     *
     * @param used the permits that are used after it
     * @param start the second figure of the reply
     * @param end the third figure
     * @param claim the claim of the request
     * @param isGranted whether it is granted
     * @param isFirst whether it is the first of its group
     */
    public static QuotaState ofReply(long used, long start, long end, Claim claim, boolean isGranted, boolean isFirst) {
        long mark = claim.limit().nearMark();
        boolean isReached = used >= mark && (isFirst || used - claim.permits() < mark);
        boolean isNear = isGranted && start >= IS_NEAR && isReached;
        return new QuotaState(used, start % IS_NEAR, end, isNear, isNear);
    }

    /** Returns the state after the next step. */
    QuotaState with(long used, boolean isNear) {
        return new QuotaState(used, start, end, isMarked || isNear, isNear);
    }

    @Override
    public long previous() {
        return 0;
    }

    @Override
    public long current() {
        return used;
    }

    /** Returns the usage after a decision that has left this state. */
    public StoreUsage usage(Reply reply, Claim claim, boolean violated, boolean denied, int life) {
        long now = reply.at();
        boolean waits = denied && used + claim.permits() > claim.limit().permits();
        long fitsAt = waits ? end : now;
        return new StoreUsage(reply, claim, used, violated, fitsAt, wholeAt(now), life, this, false, null);
    }

    /** Returns when no permits are in use any more: at the end of the period. */
    long wholeAt(long now) {
        return used > 0 ? end : now;
    }
}
