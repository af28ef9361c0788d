package io.github.spillgate.failover;

import io.github.spillgate.Source;
import io.github.spillgate.count.Count;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.InstantSource;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The ledger of one count while the primary store may be down: what the primary store has confirmed, what this instance
 * has granted itself, and which of these grants are being reconciled.
 *
 * <p>This class has what all limits have in common: the share of the instance, and how many permits are to be
 * reconciled. {@link RateLedger} is for rate limits, {@link HoldLedger} for concurrency limits.
 */
abstract class Ledger extends Count implements Outbox.DeliverySource<Reconciliation> {

    /** Whether permits that the primary store granted fit into the limit together with local grants. */
    enum Fit {
        /** They fit, whatever the primary store knows. */
        YES,

        /** They fit only if the primary store has already charged the grants that are in flight. */
        IF_RECONCILED,

        /** To allow the request would over-admit. */
        NO
    }

    private final HandOvers handOvers;
    private final OutageShare share;
    private final Instances.@Nullable Group instances;

    /** How many granted permits are to be reconciled, including those that have expired since. */
    private long toReconcile;

    /** The epoch since which grants are here. Earlier ones are in flight, or were charged or lost. */
    private long openSince;

    /** Whether this waits for its turn in the outbox. */
    private boolean isQueued;

    /** Whether it waits for it before others. */
    private boolean isUrgent;

    /** Whether the grants in flight were sent, and the primary store has not failed to answer since. */
    private boolean isSent;

    /** Whether the primary store cannot charge the grants in flight, because another program has written the key. */
    private boolean isForeign;

    /** The first claim under the present limit. Not the newest one: its identity would be in memory a second time. */
    private Claim claim;

    private long now;
    private double localShare = 1;

    /**
     * Creates an empty ledger.
     *
     * @param claim a claim on the count
     * @param handOvers delivers what is to be reconciled
     * @param share the share of the limit that this instance may grant
     * @param instances the instances of the limiter; null if they are not counted
     */
    Ledger(Claim claim, HandOvers handOvers, OutageShare share, Instances.@Nullable Group instances) {
        this.claim = claim;
        this.handOvers = handOvers;
        this.share = share;
        this.instances = instances;
        this.openSince = handOvers.nextEpoch();
    }

    @Override
    public void advance(Claim claim, long now) {
        if (!claim.limit().equals(this.claim.limit())) {
            this.claim = claim;
        }
        this.now = now;
    }

    /** Moves to a time outside a decision. */
    final void advanceTo(long time) {
        advance(claim, time);
    }

    /** Returns the time to which this ledger has moved. */
    final long now() {
        return now;
    }

    /** Returns the clock of its times. */
    final InstantSource clock() {
        return handOvers.clock();
    }

    /** Returns a claim on this count, with the limit in its present form. */
    @Override
    public final Claim claim() {
        return claim;
    }

    // The share.

    /** Returns the share of the limit that this instance may grant, for the decision that begins now. */
    final double share() {
        localShare = share.of(claim.limit(), instances == null ? 1 : instances.number(), use());
        return localShare;
    }

    /** Returns the use that the primary store has last reported. */
    abstract OutageShare.Use use();

    /** Returns the last share. */
    final double localShare() {
        return localShare;
    }

    // The replies of the primary store.

    /**
     * Records a reply of the primary store to a request, and returns whether a request that it allows fits together
     * with the local grants. Replies may arrive in any order, and more than once.
     */
    abstract Fit confirm(StoreUsage usage, StoreDecision decision);

    /** Returns the reply to a correction as a decision, with a stamp if it was applied now. */
    static StoreDecision reply(Corrected result) {
        Corrected.Reply reply = result.reply();
        StoreUsage usage = reply == null ? null : reply.usage();
        return StoreDecision.ofPeek(
                Source.OTHER,
                reply == null ? 0 : reply.at(),
                reply != null && result.outcome() == CorrectionOutcome.APPLIED ? reply.stamp() : 0,
                usage == null ? List.of() : List.of(usage));
    }

    /**
     * Refunds permits of a decision of the fallback.
     *
     * @param stamp the stamp of the decision, its epoch
     * @param takenAt the time of the decision
     * @return those that must be refunded in the primary store now, because it has charged them; null if there are
     *     none. Those in flight are returned by {@link #charged}
     */
    abstract @Nullable RefundCharged refundGrant(long stamp, long takenAt, long permits);

    /**
     * Cancels permits that were granted at a time, because the primary store has charged the same request after all.
     *
     * @return how many of them a refund without a decision had refunded here already
     */
    abstract long cancelGrant(long takenAt, long permits);

    // Reconciliation.

    /** Returns how many permits are to be reconciled and not handed over. */
    final long toReconcile() {
        return toReconcile;
    }

    final void addToReconcile(long permits) {
        if (permits <= 0 || !handOvers.isBound()) {
            return;
        }
        if (isEvicted()) {
            handOvers.lost(permits);
            return;
        }
        toReconcile += permits;
        handOvers.granted(permits);
        if (!isQueued) {
            isQueued = true;
            handOvers.way().add(this);
        }
    }

    final void removeToReconcile(long permits) {
        long less = Math.min(toReconcile, permits);
        if (less > 0) {
            toReconcile -= less;
            handOvers.removed(less);
        }
    }

    /** Drops what is to be reconciled: there is nothing left that counts, or a reset has removed it. */
    void forgetGrants() {
        removeToReconcile(toReconcile);
    }

    /**
     * Returns whether the primary store must not decide on this count, because it does not know all grants; if so, they
     * are delivered soon. Grants that were sent to it are known by the time that it decides.
     */
    final boolean mustBeHandedOver() {
        boolean must = toReconcile > 0 || waitsForNextAttempt();
        if (must && !isUrgent) {
            isUrgent = true;
            handOvers.way().expedite(this);
        }
        if (must) {
            handOvers.way().hurry(this);
        }
        return must;
    }

    /** Returns the epoch since which grants are here. */
    final long openSince() {
        return openSince;
    }

    /** Returns whether grants were handed over and are not being sent. */
    final boolean waitsForNextAttempt() {
        return isInFlight() && !isSent;
    }

    /** Returns whether the grants in flight cannot be charged, because another program has written the key. */
    final boolean isForeign() {
        return isForeign;
    }

    /** Returns whether grants were handed over, and it is not known yet whether they are charged. */
    abstract boolean isInFlight();

    /** Returns whether these grants are in flight. */
    abstract boolean isInFlight(Reconciliation reconciliation);

    /** Returns the grants to hand over; null if none of them counts any more. */
    abstract @Nullable Reconciliation reconciliation(String id);

    /**
     * Notes that the grants are in flight.
     *
     * @param since the first epoch of these grants
     */
    abstract void handOver(Reconciliation reconciliation, long since);

    /**
     * Notes that the primary store has charged a reconciliation.
     *
     * @param reply its reply
     * @return the permits that must be refunded in the primary store now, because they were refunded while in flight;
     *     null if there are none
     */
    abstract @Nullable RefundCharged charged(Reconciliation reconciliation, StoreDecision reply);

    /** Notes that the primary store cannot charge a reconciliation. */
    abstract void notCharged(Reconciliation reconciliation);

    /** Notes that the table has evicted this count, and what it was to reconcile is lost. */
    final void evicted(long time) {
        if (toReconcile > 0) {
            advanceTo(time);
            handOvers.lost(Math.min(toReconcile, recorded()));
        }
        forgetGrants();
    }

    // For the outbox, which does not hold the monitor.

    @Override
    public final synchronized boolean isEmpty() {
        return toReconcile == 0 || isEvicted();
    }

    @Override
    public final synchronized boolean isHeld() {
        return toReconcile > 0 && (isInFlight() || handOvers.way().isUnanswered(claim));
    }

    @Override
    public final boolean isAlone() {
        return true;
    }

    @Override
    public final synchronized @Nullable HandOver take() {
        if (isHeld()) {
            // Since it was asked.
            handOvers.way().add(this);
            return null;
        }
        isQueued = false;
        isUrgent = false;
        if (toReconcile == 0) {
            return null;
        }
        advanceToPresent();
        Reconciliation reconciliation = reconciliation(handOvers.newId());
        if (reconciliation == null) {
            forgetGrants();
            return null;
        }
        handOver(reconciliation, openSince);
        openSince = handOvers.nextEpoch();
        isSent = false;
        // Those that have expired since need not be reconciled.
        handOvers.granted(reconciliation.permits() - toReconcile);
        toReconcile = 0;
        return new HandOver(this, reconciliation);
    }

    private void advanceToPresent() {
        advanceTo(clock().millis());
    }

    /** Returns whether these grants count here, and the result is not known. */
    final synchronized boolean awaits(Reconciliation reconciliation) {
        return isInFlight(reconciliation) && !(isForeign && isEvicted());
    }

    final synchronized void sent(Reconciliation reconciliation, boolean isAnswerExpected) {
        if (isInFlight(reconciliation)) {
            isSent = isAnswerExpected;
        }
    }

    final synchronized void refused(Reconciliation reconciliation) {
        if (isInFlight(reconciliation)) {
            isForeign = true;
            isSent = false;
            handOvers.way().reportForeign(claim);
        }
    }

    /**
     * Ends a hand-over.
     *
     * @param reply the reply of the primary store; null if the grants cannot be charged
     */
    final void ended(Reconciliation reconciliation, @Nullable StoreDecision reply) {
        RefundCharged refund = null;
        boolean isLost;
        synchronized (this) {
            advanceToPresent();
            // Those that a reset has removed are not lost.
            isLost = reply == null && isInFlight(reconciliation) && reconciliation.counts();
            isForeign = false;
            if (reply == null) {
                notCharged(reconciliation);
            } else {
                refund = charged(reconciliation, reply);
            }
        }
        if (reply != null) {
            handOvers.charged(reconciliation.permits());
        } else {
            handOvers.removed(reconciliation.permits());
            handOvers.lost(isLost ? reconciliation.permits() : 0);
        }
        if (refund != null) {
            handOvers.way().refund(refund);
        }
    }
}
