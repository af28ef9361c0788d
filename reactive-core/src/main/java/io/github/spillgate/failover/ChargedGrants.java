package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import org.jspecify.annotations.Nullable;

/**
 * The grants of one count that the primary store has charged by reconciliation, as far as their refunds and late
 * replies need them: those that may still be within the window, and the newest charge.
 *
 * @param to the time of the last grant; before any time if there is none
 * @param stamp the lowest stamp of the charges
 * @param ahead how far the clock of the primary store is ahead of this one, in milliseconds, at least
 * @param chargedAt the time of the newest charge, on the primary store's clock, or later
 * @param used the permits in use then
 * @param permits the permits of the newest charge, and of earlier ones to which replies may still be late
 */
record ChargedGrants(long to, long stamp, long ahead, long chargedAt, long used, long permits) {

    /** No grants. */
    static final ChargedGrants NONE = new ChargedGrants(Long.MIN_VALUE, 0, 0, 0, 0, 0);

    /**
     * Returns the grants of one reconciliation.
     *
     * @param usage the usage in the reply; null if it has none
     */
    static ChargedGrants of(GrantsInFlight charged, StoreDecision reply, @Nullable StoreUsage usage, long now) {
        long chargedAt = reply.at().toEpochMilli();
        return new ChargedGrants(
                charged.to(),
                reply.stamp(),
                chargedAt - now,
                chargedAt,
                usage == null ? 0 : usage.used(),
                charged.handedOver());
    }

    /** Returns these grants together with those that were charged before. */
    ChargedGrants after(ChargedGrants before, Limit limit, long now) {
        boolean isInWindow = before.isInWindow(limit, now);
        boolean isReplyLate = Math.abs(chargedAt - before.chargedAt) < ConfirmedUsage.OUT_OF_ORDER;
        return new ChargedGrants(
                to,
                isInWindow ? Math.min(stamp, before.stamp) : stamp,
                isInWindow ? Math.min(ahead, before.ahead) : ahead,
                chargedAt,
                used,
                isReplyLate ? permits + before.permits : permits);
    }

    /** Returns whether any of the grants may still be within the window. */
    boolean isInWindow(Limit limit, long now) {
        return now < leavesWindowAt(limit, to);
    }

    /** Returns when permits that were taken at a time leave the window or, of a bucket, have returned. */
    static long leavesWindowAt(Limit limit, long takenAt) {
        return takenAt + OwnUsage.windowOf(limit);
    }

    /** Returns permits to refund in the primary store; null if there are none, or they no longer count. */
    @Nullable
    RefundCharged refund(Claim claim, long takenAt, long refunded, long now) {
        long until = leavesWindowAt(claim.limit(), takenAt);
        return refunded > 0 && now < until
                ? new RefundCharged(claim.withPermits(refunded), stamp, until + ahead)
                : null;
    }

    /**
     * Returns how many permits a reply does not include, because it is older than their charge: on another connection,
     * a request overtakes it. The permits may have left the window by now, but not then.
     *
     * @param usedInReply the permits in use in the reply
     */
    long missingIn(long usedInReply, long repliedAt) {
        boolean isOlder = repliedAt < chargedAt
                ? chargedAt - repliedAt < ConfirmedUsage.OUT_OF_ORDER
                : repliedAt == chargedAt && usedInReply < used;
        return isOlder ? permits : 0;
    }
}
