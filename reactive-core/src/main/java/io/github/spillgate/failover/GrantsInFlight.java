package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;

/**
 * Grants of one count that were handed over for reconciliation, if it is not known yet whether the primary store has
 * charged them. Guarded by the monitor of their {@link RateLedger}.
 */
final class GrantsInFlight {
    // Design notes.
    //
    // A reconciliation is sent again, with other ages, until there is a reply. The primary store counts a grant from
    // the time at which it executes the request that charges it, less the age in that request. If the reply belongs to
    // that request (it has a stamp), the times in the primary store are known exactly. Otherwise an earlier request was
    // executed, and perhaps sooner after it was sent.
    //
    // Invariant: the times that are used here are never later than those in the primary store (agesIn). If data was
    // lost, grants that the primary store takes for permits that it has kept must be restored (takenForKept). One that
    // is missing stands for a lost permit, which over-admits. One too many counts twice, which errs towards denying.

    private final Reconciliation reconciliation;
    private final long since;
    private final long newestReply;
    private long until;
    private long permits;
    private long refunded;
    private long refundedFrom = Long.MAX_VALUE;

    /**
     * Creates the grants of a reconciliation.
     *
     * @param since the epoch of the first grant
     * @param until when none of them is in use any more
     * @param newestReply the newest reply before they were handed over, on the primary store's clock
     */
    GrantsInFlight(Reconciliation reconciliation, long since, long until, long newestReply) {
        this.reconciliation = reconciliation;
        this.since = since;
        this.until = until;
        this.newestReply = newestReply;
        this.permits = reconciliation.permits();
    }

    boolean isOf(Reconciliation other) {
        return reconciliation == other;
    }

    /** Moves to a time: a local clock that was set back has left the end too far ahead. */
    void advance(Limit limit, long now) {
        until = Math.min(until, now + limit.reach().toMillis());
    }

    /** Returns when none of them is in use any more. */
    long until() {
        return until;
    }

    /** Returns how many permits are in use at a time, without those refunded. */
    long at(long time) {
        return time < until ? permits : 0;
    }

    /** Returns how many permits were handed over. */
    long handedOver() {
        return reconciliation.permits();
    }

    /** Returns the epoch of the first grant. */
    long since() {
        return since;
    }

    /** Returns the time of the last grant. */
    long to() {
        return reconciliation.lastMillis();
    }

    // Refunds.

    /** Refunds permits that were granted at a time. */
    void refund(long takenAt, long most) {
        long less = Math.min(permits, most);
        if (less > 0) {
            permits -= less;
            refunded += less;
            refundedFrom = Math.min(refundedFrom, takenAt);
        }
    }

    /** Returns how many were refunded: they are to be refunded in the primary store once it has charged them. */
    long refunded() {
        return refunded;
    }

    /** Returns the time at which the oldest of the refunded permits was granted. */
    long refundedFrom() {
        return refundedFrom;
    }

    // The reply.

    /**
     * Returns the grants with the ages at which the primary store has charged them, or higher ones.
     *
     * @param reply the reply to the reconciliation
     */
    List<Grants> agesIn(StoreDecision reply) {
        return reply.stamp() > 0 ? reconciliation.sentAges() : reconciliation.ages();
    }

    /** Returns how many permits a reply certainly includes. */
    double certainlyIn(StoreDecision reply, Limit limit) {
        List<Grants> ages = agesIn(reply);
        double window = limit.window().toMillis();
        if (limit.algorithm() == Algorithm.BUCKET) {
            long level = BucketState.units(limit, handedOver());
            return BucketState.levelAfter(limit, level, ages.get(0).fromMillis()) / window;
        }
        boolean isLog = limit.algorithm() == Algorithm.LOG;
        double certain = 0;
        for (Grants some : ages) {
            // In a log they count in full until they expire. In a counter they may fade from the beginning.
            double part = Math.max(0, 1 - some.fromMillis() / window);
            certain += some.permits() * (isLog ? Math.ceil(part) : part);
        }
        return certain;
    }

    /**
     * Returns whether the primary store has certainly charged them since its newest reply before this one.
     *
     * @param newestBefore the time of that reply
     */
    boolean areChargedSince(long newestBefore, StoreDecision reply) {
        return reply.stamp() > 0 || newestReply == newestBefore;
    }

    /**
     * Returns the grants, with their ages, that the primary store will take for permits that it has kept, because they
     * are older than its newest reply before a loss.
     *
     * @param newest the time of that reply
     */
    List<Grants> takenForKept(StoreUsage usage, StoreDecision reply, long newest, Limit limit) {
        long repliedAt = reply.at().toEpochMilli();
        List<Grants> ages = agesIn(reply);
        if (limit.algorithm() == Algorithm.LOG) {
            long slot = limit.resolution().toMillis();
            return ages.stream()
                    .filter(some -> (repliedAt - some.toMillis()) / slot <= newest / slot)
                    .toList();
        }
        // A counter or a bucket is in addition as a whole, or not at all.
        CounterState counter = usage.counter();
        long began = counter == null ? repliedAt - ages.get(0).toMillis() : counter.start();
        return began < newest ? ages : List.of();
    }
}
