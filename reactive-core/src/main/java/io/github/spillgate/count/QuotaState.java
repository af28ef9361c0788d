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
 */
public record QuotaState(long used, long start, long end) implements StoreUsage.Windows {

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
