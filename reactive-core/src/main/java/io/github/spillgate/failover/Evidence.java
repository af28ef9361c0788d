package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The permits of one count that the primary store has charged for this instance, and must still have. If a reply has
 * fewer, the store has lost data. Guarded by the monitor of its {@link RateLedger}.
 */
final class Evidence {
    // Design notes.
    //
    // Invariant: this is never more than the primary store has, or a reply would show a loss that did not happen. It
    // may be less: then a loss may go unnoticed.
    //
    // Two usages, because what is known of their times differs:
    //
    //   own       Granted by the primary store, at the time in its reply.
    //   earlier   Charged by reconciliation, or lost and restored. They may be in use longer than their times say, so
    //             they are evidence, but do not expire here during an outage. Of a bucket, all permits are in own: the
    //             levels of two usages would both fall at the full rate.
    //
    // After a restoration, the primary store may have the larger of two numbers: permits that were restored, and those
    // that it has granted since the loss. A counter does, and a log does for permits of the same slot. So of all that
    // is known then, some are "combined", and do not count: as many as are not in the newest reply. That reply also has
    // permits of which this instance learns later, so all of these are combined. It is not known which permits are the
    // same, so their number stays until all that were taken until then have expired.
    //
    // A refund without a decision may subtract other permits here than in the primary store. If these are refunded
    // later, they are not here any more. The primary store subtracts them all the same if it is a counter or a bucket,
    // which have no times of permits. So as many of the newest ones are subtracted here, which count the longest.
    //
    // Not covered, so that a reply may show a loss that did not happen, and a second restoration adds as much:
    //
    //   - a refund of combined permits that are not here, because they are of another instance or were not passed on,
    //     or one that the store executes after that newest reply. The store has fewer than this then;
    //   - a bucket after a restoration: nothing is combined, and the restored permits may return beside the others.

    private final OwnUsage own = new OwnUsage();

    /** Null without any: most counts have none. */
    private @Nullable OwnUsage earlier;

    private Limit limit;

    /** How many permits do not count, because the primary store may count them as one with others. */
    private long combined;

    /** The time of the newest reply at the last restoration: what was charged until then may be combined. */
    private long combinedUntil = Long.MIN_VALUE;

    Evidence(Limit limit) {
        this.limit = limit;
        own.adjustTo(limit);
    }

    /** Forgets the permits if those of this limit expire in another way. */
    void adjustTo(Limit limit) {
        this.limit = limit;
        own.adjustTo(limit);
        if (earlier != null) {
            earlier.adjustTo(limit);
        }
    }

    void clear() {
        own.clear();
        earlier = null;
        combined = 0;
        combinedUntil = Long.MIN_VALUE;
    }

    private boolean isBucket() {
        return limit.algorithm() == Algorithm.BUCKET;
    }

    private OwnUsage earlier() {
        if (isBucket()) {
            return own;
        }
        OwnUsage some = earlier;
        if (some == null) {
            some = new OwnUsage();
            some.adjustTo(limit);
            earlier = some;
        }
        return some;
    }

    /** Adds permits that the primary store has granted. */
    void granted(long permits, long takenAt) {
        if (takenAt > combinedUntil) {
            own.add(limit, takenAt, permits);
        } else {
            // That reply has them already.
            charged(permits, takenAt, takenAt);
        }
    }

    /** Adds permits that the primary store has charged, at this time or later; a grant at the time of its reply. */
    void charged(long permits, long takenAt, long chargedAt) {
        earlier().add(limit, takenAt, permits);
        if (chargedAt <= combinedUntil) {
            combined += permits;
        }
    }

    /**
     * Adds permits that were lost, and that the primary store has again.
     *
     * @param used all permits that it has in the newest reply
     */
    void restored(Evidence lost, long used, long newestReply) {
        earlier().addAll(limit, lost.own);
        if (lost.earlier != null) {
            earlier().addAll(limit, lost.earlier);
        }
        if (!isBucket()) {
            combinedUntil = newestReply;
            combined = (long) Math.ceil(Math.max(0, all(newestReply) - used));
        }
    }

    /**
     * Subtracts permits that the primary store took at a time of its clock.
     *
     * @param newestReply the time of the newest reply, on the same clock
     */
    void refunded(long permits, long takenAt, long newestReply) {
        long left = own.refund(limit, takenAt, permits);
        if (earlier != null) {
            left = earlier.refund(limit, takenAt, left);
        }
        if (limit.algorithm() != Algorithm.LOG
                && newestReply - takenAt < limit.reach().toMillis()) {
            left = own.refundNewest(limit, left);
            if (earlier != null) {
                earlier.refundNewest(limit, left);
            }
        }
    }

    /** Subtracts as many of the oldest permits that are certainly in use at a time of the server's clock. */
    void refundedOldest(long permits, long time) {
        if (earlier != null) {
            // Times in "earlier" may be too early, so it is not certain which are the oldest. By number, the oldest of
            // both are removed, and the permits that stay are not taken for older ones.
            own.moveOldest(limit, time, permits, earlier);
            earlier.refundOldest(limit, time, permits);
        } else {
            own.refundOldest(limit, time, permits);
        }
    }

    /** Returns how many permits must be in use at a time of the server's clock. */
    double at(long time) {
        return Math.max(0, all(time) - combinedAt(time));
    }

    private double all(long time) {
        return own.inUse(limit, time) + (earlier == null ? 0 : earlier.inUse(limit, time));
    }

    private long combinedAt(long time) {
        return combined > 0 && time - combinedUntil < limit.reach().toMillis() ? combined : 0;
    }

    /**
     * Returns about how many permits of a counter are in use, by its formula. For a share only: as a lower bound, it
     * would be half as high.
     */
    double inUse(CounterState counter, long time) {
        return own.inUse(limit, counter, time) + (earlier == null ? 0 : earlier.inUse(limit, counter, time));
    }

    /**
     * Returns how many of the permits in use at a reply have certainly expired since.
     *
     * @param time the present time, on the server's clock
     */
    long released(long repliedAt, long time) {
        return own.released(limit, repliedAt, time);
    }

    /** Returns the next time after this one at which more may have expired; it may be without effect. */
    long nextRelease(long time) {
        return own.nextRelease(limit, time);
    }

    /**
     * Returns about which part of these permits is still in use some time after a reply; 1 if there were none. For a
     * share only: the permits of others are taken to expire alike.
     */
    double partLeft(long repliedAt, long time) {
        double then = at(repliedAt);
        long expired =
                own.released(limit, repliedAt, time) + (earlier == null ? 0 : earlier.released(limit, repliedAt, time));
        return then == 0 ? 1 : (then - Math.max(0, expired - combinedAt(repliedAt))) / then;
    }

    /** Returns the permits with a certain time that are in use at a reply, with their ages. */
    List<Grants> ages(long repliedAt, long time) {
        return own.ages(limit, repliedAt, time);
    }
}
