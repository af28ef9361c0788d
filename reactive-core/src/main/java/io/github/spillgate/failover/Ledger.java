package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.local.Count;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.InstantSource;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The ledger of one count while the primary store may be down: what the primary store has confirmed, what this instance
 * has granted itself, and which of these grants are being reconciled.
 */
class Ledger extends Count {
    // Design notes.
    //
    // Four numbers:
    //
    //   confirmed   permits in use by all instances, as the primary store has replied
    //   lost        permits that it had confirmed and has lost, with its data
    //   granted     permits that this instance granted itself and has not handed over for reconciliation
    //   in flight   permits that were handed over, if it is not known yet whether the primary store has charged
    //               them; without those refunded since
    //
    // Invariant: a request is reported as allowed, by the primary store or by the fallback, only if it fits into the
    // limit together with all requests that this instance has reported as allowed before and that still count.
    //
    // Every request that was allowed and still counts is in at least one of the numbers. So it is enough to check, with
    // the new request included, that their sum is at most the limit. Each method below is one step under the monitor of
    // this count: of a grant and a reply at the same time, the later one sees the earlier one.
    //
    //   fits()      A grant of the fallback must fit with all; those that the primary store knows or knew count by the
    //               share, and the CountTable reserves the shares of other instances. It ignores requests to the
    //               primary store that are in flight, because their replies go through confirm().
    //   confirm()   A reply of the primary store is recorded first, and may be passed on only if it fits with the
    //               others then.
    //
    // A permit that moves from one number to another is in both for a moment, and always in one: reconciled grants are
    // confirmed before they leave "in flight" (Reconciler), and so is a late reply before its grant is cancelled
    // (GrantPair). A reply may already include what is in flight. A request that does not fit only because of that is
    // checked again when the result is known (Fit.IF_RECONCILED).
    //
    // Refunds are subtracted before the primary store is asked, because its next reply may be without them already.
    // A refund of permits in flight is sent when the primary store has charged them: before that, it would remove
    // permits that other instances use. Every refund of a charged grant has the stamp of the charge and the time at
    // which the permits leave the window (ChargedPermits): however late it is, it does not remove later permits.
    //
    // Lost data shows in the first reply that has fewer permits than this instance itself has certainly been granted.
    // What is missing moves to "lost", and is restored (DataLoss). If another instance has reset the count, the primary
    // store knows that, and restores nothing.
    //
    // Grants that are charged after the loss may be restored together with what is lost (takenForKept). Their times are
    // never taken to be later than those that the primary store has for them. A grant that should be restored and is
    // not stands for a lost one, which over-admits. One that should not be and is counts twice, which errs towards
    // denying. So if a reply does not show which sending was charged, the earliest possible times count (chargedAges).
    //
    // Not covered: lost permits of a count that this instance did not use, evicted counts, and grants of other
    // instances.
    //
    // docs/decisions/0033-one-ledger-per-count.md has the reasons.

    /** Whether permits that the primary store granted fit into the limit together with local grants. */
    enum Fit {
        /** They fit, whatever the primary store knows. */
        YES,

        /** They fit only if the primary store has already charged the grants that are in flight. */
        IF_RECONCILED,

        /** To allow the request would over-admit. */
        NO
    }

    /** The retry time, in milliseconds, if no permits that are reserved here expire. */
    private static final long RETRY = 1_000;

    private static final long NEVER = Long.MAX_VALUE;

    private final ReconciliationQueue queue;
    private final OutageShare share;
    private final Instances.@Nullable Group instances;
    private final LossListener losses;
    private final Count granted;
    private ConfirmedUsage confirmed;

    /** The usage that the primary store had confirmed and has lost. */
    private @Nullable ConfirmedUsage lost;

    /** When that was restored, on the primary store's clock; later replies include it. */
    private long restoredAt = NEVER;

    private @Nullable InFlight inFlight;
    private @Nullable ChargedPeriod chargedPeriod;
    private @Nullable NewestCharge newestCharge;

    /** How many granted permits are to be reconciled, including those that have expired since. */
    private long toReconcile;

    /** How many granted permits were refunded without a decision since grants were last handed over. */
    private long refundedUnnamed;

    /** The first claim under the present limit. Not the newest one: its identity would be in memory a second time. */
    private Claim claim;

    private long now;

    /** When grants were last handed over. Earlier grants are not in {@code granted}, although a slot may look so. */
    private long handedOverAt;

    private double localShare = 1;

    /**
     * Creates an empty ledger.
     *
     * @param claim a claim on the count
     * @param queue gets this ledger when it has something to reconcile
     * @param share the share of the limit that this instance may grant
     * @param instances the instances of the limiter; null if they are not counted
     * @param losses learns of permits that the primary store may have lost
     */
    Ledger(
            Claim claim,
            ReconciliationQueue queue,
            OutageShare share,
            Instances.@Nullable Group instances,
            LossListener losses) {
        this(
                claim,
                queue,
                share,
                instances,
                losses,
                claim.limit().algorithm() == Algorithm.BUCKET ? new BucketGrants() : Count.of(claim.limit()));
    }

    /**
     * Creates an empty ledger.
     *
     * @param granted the count of what this instance grants
     */
    Ledger(
            Claim claim,
            ReconciliationQueue queue,
            OutageShare share,
            Instances.@Nullable Group instances,
            LossListener losses,
            Count granted) {
        this.claim = claim;
        this.losses = losses;
        this.queue = queue;
        this.share = share;
        this.instances = instances;
        this.granted = granted;
        this.confirmed = new ConfirmedUsage(claim.limit());
    }

    @Override
    public void advance(Claim claim, long now) {
        if (!claim.limit().equals(this.claim.limit())) {
            this.claim = claim;
        }
        this.now = now;
        handedOverAt = Math.min(handedOverAt, now);
        granted.advance(claim, now);
        confirmed.advance(claim.limit(), now);
        if (lost != null) {
            lost.advance(claim.limit(), now);
            if (lost.endsAt(now) <= now) {
                lost = null;
            }
        }
        if (inFlight != null) {
            inFlight.until =
                    Math.min(inFlight.until, now + claim.limit().reach().toMillis());
        }
    }

    /** Returns the share of the limit that this instance may grant, for the decision that begins now. */
    double share() {
        return share(confirmed.reportedOwn(), confirmed.reported());
    }

    /** Returns the share of this instance, which has that part of the permits in use. */
    final double share(long own, long all) {
        localShare = share.of(claim.limit(), instances == null ? 1 : instances.number(), own, all);
        return localShare;
    }

    final double localShare() {
        return localShare;
    }

    // The decision of the fallback.

    @Override
    public boolean fits(Limit limit, long cost) {
        return grantsNow().fits(limit, cost + reserved(now));
    }

    @Override
    public void take(long cost) {
        grantsNow().take(cost);
        addToReconcile(cost);
    }

    @Override
    public void recordDenied(Limit limit, long cost) {
        long before = grantsNow().recorded();
        granted.recordDenied(limit, cost);
        addToReconcile(Math.max(0, granted.recorded() - before));
    }

    final void addToReconcile(long permits) {
        if (!queue.isOpen()) {
            return;
        }
        if (isEvicted()) {
            queue.lost(permits);
        } else if (permits > 0) {
            toReconcile += permits;
            queue.add(this, permits);
        }
    }

    @Override
    public long used() {
        return grantsNow().used() + reserved(now);
    }

    @Override
    public long wholeAt() {
        long end = Math.max(grantsNow().wholeAt(), confirmed.endsAt(now));
        if (lost != null && restoredAt == NEVER) {
            end = Math.max(end, lost.endsAt(now));
        }
        return inFlight == null ? end : Math.max(end, inFlight.until);
    }

    /**
     * {@inheritDoc}
     *
     * <p>Reserved permits count as if the claim asked for more; the time is computed again for each moment at which
     * some of them expire.
     */
    @Override
    public long fitsAt(Limit limit, long cost) {
        long from = now;
        while (true) {
            long until = reservedUntil(from);
            long all = cost + reserved(from);
            if (all <= limit.burst()) {
                long fitsAt = Math.max(from, grantsNow().fitsAt(limit, all));
                if (fitsAt < until) {
                    return fitsAt;
                }
            } else if (until == NEVER) {
                return now + RETRY;
            }
            from = until;
        }
    }

    /** Returns the grants. Those of a bucket return only once nothing else is in use that returns at the same rate. */
    private Count grantsNow() {
        if (granted instanceof BucketGrants bucket) {
            long from = confirmed.emptyAt(now);
            if (lost != null && restoredAt == NEVER) {
                from = Math.max(from, lost.emptyAt(now));
            }
            bucket.drain(inFlight == null ? from : Math.max(from, inFlight.until), localShare);
        }
        return granted;
    }

    /** Returns how many permits are in use at a time, besides those granted; confirmed ones by the share. */
    private long reserved(long time) {
        long used = localShare < 1 ? confirmed.estimatedAt(time) : confirmed.at(time);
        return (long) Math.ceil((used + lost(time)) * localShare) + inFlight(time);
    }

    /** Returns the next time after this one at which fewer permits are reserved. */
    private long reservedUntil(long time) {
        long next = confirmed.changesAfter(time);
        if (lost != null && restoredAt == NEVER) {
            next = Math.min(next, lost.changesAfter(time));
        }
        return inFlight != null && time < inFlight.until ? Math.min(next, inFlight.until) : next;
    }

    private long lost(long time) {
        return lost == null || restoredAt != NEVER ? 0 : lost.at(time);
    }

    /** Returns how many permits that are in use a reply does not include, because they are lost. */
    private long lostIn(long repliedAt) {
        return lost == null || repliedAt > restoredAt ? 0 : lost.at(now);
    }

    private long inFlight(long time) {
        return inFlight != null && time < inFlight.until ? inFlight.permits : 0;
    }

    // The replies of the primary store.

    /**
     * Records a reply of the primary store, and returns whether a request that it allows fits together with the local
     * grants. Replies may arrive in any order.
     *
     * @param isReconciliation whether it is the reply to the reconciliation that is in flight
     * @param isOnly whether the decision has no other usage, so that a request that fits here is granted
     */
    Fit confirm(StoreUsage usage, StoreDecision decision, boolean isReconciliation, boolean isOnly) {
        long repliedAt = decision.at().toEpochMilli();
        checkForLoss(usage, decision, isReconciliation);
        confirmed.report(usage, repliedAt, now);
        Limit limit = usage.limit();
        boolean hasGranted = toReconcile > 0
                || inFlight != null
                || (chargedPeriod != null && now < leavesWindowAt(chargedPeriod.to));
        long used = hasGranted || confirmed.exceeds()
                ? Math.max(usage.used() + chargedAfter(usage.used(), repliedAt), confirmed.at(now))
                : usage.used();
        used += lostIn(repliedAt);
        Fit fit = Fit.YES;
        if (hasGranted || used > limit.burst()) {
            Count grants = grantsNow();
            fit = !grants.fits(limit, used)
                    ? Fit.NO
                    : grants.fits(limit, used + inFlight(now)) ? Fit.YES : Fit.IF_RECONCILED;
        }
        if (isOnly && fit == Fit.YES && decision.isCharged()) {
            grantedInPrimary(usage.claim().permits(), repliedAt);
        }
        return fit;
    }

    /**
     * Returns how many permits a reply does not include, because it is older than the charge of their reconciliation:
     * on another connection, a request overtakes it. The permits may have left the window by now, but not then.
     */
    private long chargedAfter(long used, long repliedAt) {
        return newestCharge != null && newestCharge.isAfter(used, repliedAt) ? newestCharge.permits : 0;
    }

    /**
     * Notes that the primary store has granted permits to this instance. Call this once for each decision that fits: a
     * decision that does not fit yet is checked again.
     */
    void grantedInPrimary(long permits, long takenAt) {
        confirmed.granted(permits, takenAt);
    }

    /** If the primary store has lost permits, they still count here, and are added to what it replies from now on. */
    private void checkForLoss(StoreUsage usage, StoreDecision decision, boolean isReconciliation) {
        InFlight sent = isReconciliation ? inFlight : null;
        double charged = sent == null ? 0 : certainlyReconciled(sent, decision);
        long used = usage.used() - (decision.isCharged() ? usage.claim().permits() : 0);
        long certain = confirmed.certainIn(decision.at().toEpochMilli());
        if (used - (isChargedSinceNewest(decision) ? (long) charged : 0) >= certain) {
            return;
        }
        // If the store still has the mark of the reconciliation, it was most likely charged after the loss.
        ConfirmedUsage missing = confirmed;
        missing.keepAtLeast(certain, now);
        List<Grants> ages = missing.ages(now);
        if (sent != null && !ages.isEmpty()) {
            ages = Stream.concat(ages.stream(), takenForKept(sent, usage, decision).stream())
                    .sorted(Comparator.comparingLong(Grants::toMillis).reversed())
                    .toList();
        }
        LostPermits permits = new LostPermits(claim, missing.newestReply(), ages);
        confirmed = ConfirmedUsage.afterLoss(claim.limit());
        long kept = used - (long) Math.ceil(charged - ConfirmedUsage.ROUNDING);
        missing.becomeLost(kept, lost(now) > 0 ? lost : null, now);
        lost = missing;
        restoredAt = NEVER;
        if (!permits.ages().isEmpty()) {
            losses.lost(permits, missing);
        }
    }

    /** Returns whether the primary store has certainly charged the reconciliation in flight since its newest reply. */
    private boolean isChargedSinceNewest(StoreDecision reply) {
        boolean isChargedNow = reply.stamp() > 0;
        return isChargedNow || (inFlight != null && inFlight.newestReply == confirmed.newestReply());
    }

    /**
     * Returns the grants of a charged reconciliation, with their ages, that the primary store will take for permits
     * that it has kept, because they are older than its newest reply. They are restored with those, or they would stand
     * for them.
     */
    private List<Grants> takenForKept(InFlight charged, StoreUsage usage, StoreDecision reply) {
        Limit limit = claim.limit();
        long newest = confirmed.newestReply();
        long repliedAt = reply.at().toEpochMilli();
        List<Grants> ages = chargedAges(charged.reconciliation, reply);
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

    /**
     * Returns the grants of a reconciliation with the ages at which the primary store has charged them, or higher ones.
     * It counts a grant from when it got the request, less the age that was sent.
     */
    private static List<Grants> chargedAges(Reconciliation charged, StoreDecision reply) {
        // If an earlier sending was charged, that may have been faster. The present ages are never too low.
        return reply.stamp() > 0 ? charged.sentAges() : charged.ages();
    }

    /** Returns how many permits of a charged reconciliation a reply certainly includes. */
    private double certainlyReconciled(InFlight sent, StoreDecision reply) {
        Limit limit = claim.limit();
        List<Grants> ages = chargedAges(sent.reconciliation, reply);
        if (limit.algorithm() == Algorithm.BUCKET) {
            long level = BucketState.units(limit, sent.reconciliation.permits());
            return (double) BucketState.levelAfter(limit, level, ages.get(0).fromMillis())
                    / limit.window().toMillis();
        }
        boolean isLog = limit.algorithm() == Algorithm.LOG;
        double window = limit.window().toMillis();
        double certain = 0;
        for (Grants some : ages) {
            // In a log they count in full until they expire. In a counter they may fade from the beginning.
            double part = Math.max(0, 1 - some.fromMillis() / window);
            certain += some.permits() * (isLog ? Math.ceil(part) : part);
        }
        return certain;
    }

    /**
     * Notes that the primary store has these permits again, or that the count was reset. Replies from before that may
     * still arrive, and are without them.
     *
     * @param missing the permits
     * @param reply the usage then; null if it is not known
     */
    void restored(ConfirmedUsage missing, @Nullable StoreDecision reply) {
        if (reply != null) {
            for (StoreUsage usage : reply.usages()) {
                confirmed.report(usage, reply.at().toEpochMilli(), now);
            }
        }
        if (lost != missing) {
            return;
        }
        if (reply == null) {
            lost = null;
            return;
        }
        restoredAt = reply.at().toEpochMilli();
        if (reply.stamp() > 0) {
            confirmed.restored(missing);
        }
    }

    /** Notes that permits of a decision are refunded in the primary store, which took them at a time of its clock. */
    void refundedInPrimary(long permits, long takenAt) {
        confirmed.refunded(permits, takenAt);
    }

    /** Notes that the oldest permits, of any instance, are refunded in the primary store. */
    void refundedOldestInPrimary(long permits) {
        confirmed.refundedOldest(permits);
    }

    // Refunds and resets.

    /**
     * Subtracts permits that the primary store took at a time of its clock, if they are certainly confirmed.
     *
     * @param isEvidence whether they were {@linkplain #grantedInPrimary noted}
     */
    void refundConfirmed(long permits, long takenAt, boolean isEvidence) {
        if (isEvidence) {
            confirmed.refunded(permits, takenAt);
        }
        if (confirmed.includes(takenAt)) {
            confirmed.subtract(permits, now);
        }
    }

    /** Refunds permits without a decision: confirmed ones first, because they are older. */
    @Override
    public void refundOldest(long permits) {
        confirmed.refundedOldest(permits);
        refundOldestGranted(permits - confirmed.subtract(permits, now));
    }

    /** Refunds the oldest granted permits, and returns how many. */
    long refundOldestGranted(long permits) {
        long before = granted.recorded();
        granted.refundOldest(permits);
        long refunded = countRefunded(before);
        refundedUnnamed += refunded;
        return refunded;
    }

    @Override
    public void refund(Limit limit, long takenAt, long permits) {
        refundGranted(takenAt, permits);
    }

    /** Refunds permits that were granted at a time, and returns how many. */
    private long refundGranted(long takenAt, long permits) {
        long before = granted.recorded();
        granted.refund(claim.limit(), takenAt, permits);
        return countRefunded(before);
    }

    /** Returns how many granted permits were refunded since so many were recorded; they are not to be reconciled. */
    private long countRefunded(long recordedBefore) {
        long refunded = recordedBefore - granted.recorded();
        removeToReconcile(refunded);
        return refunded;
    }

    final void removeToReconcile(long permits) {
        long less = Math.min(toReconcile, permits);
        if (less > 0) {
            toReconcile -= less;
            queue.removed(less);
        }
    }

    /**
     * Refunds permits that were granted at a time.
     *
     * @return those that must be refunded in the primary store now, because it has charged them; null if there are
     *     none. Those in flight are returned by {@link #charged}
     */
    @Nullable
    ChargedPermits refundGrant(long takenAt, long permits) {
        long missing = takenAt < handedOverAt ? permits : permits - refundGranted(takenAt, permits);
        if (inFlight != null && inFlight.includes(takenAt)) {
            missing -= inFlight.refund(takenAt, missing);
        }
        return chargedPeriod != null && chargedPeriod.includes(takenAt)
                ? toRefund(chargedPeriod, takenAt, missing)
                : null;
    }

    /** Returns permits to refund in the primary store; null if there are none, or they no longer count. */
    private @Nullable ChargedPermits toRefund(ChargedPeriod period, long takenAt, long permits) {
        long until = leavesWindowAt(takenAt);
        return permits > 0 && now < until
                ? new ChargedPermits(claim.asking(permits), period.stamp, until + period.ahead)
                : null;
    }

    /** Returns when permits that were taken at a time leave the window or, of a bucket, have returned. */
    private long leavesWindowAt(long takenAt) {
        return takenAt + OwnUsage.windowOf(claim.limit());
    }

    /** Refunds permits that the primary store has charged, while it cannot be asked. */
    void refundCharged(ChargedPermits permits, long takenAt) {
        if (now < leavesWindowAt(takenAt)) {
            subtractCharged(permits.claim().permits());
        }
    }

    /**
     * Subtracts charged permits from those confirmed. Not of a counter or bucket: they may have faded, and what would
     * be subtracted instead is in use.
     */
    private void subtractCharged(long permits) {
        if (claim.limit().algorithm() == Algorithm.LOG) {
            confirmed.subtract(permits, now);
        }
    }

    /**
     * Cancels permits that were granted at a time, because the primary store has charged the same request after all.
     *
     * @return how many of them a refund without a decision had refunded here already
     */
    long cancelGrant(long takenAt, long permits) {
        long missing = permits - refundGranted(takenAt, permits);
        long refunded = Math.min(refundedUnnamed, missing);
        refundedUnnamed -= refunded;
        return refunded;
    }

    @Override
    public void clear() {
        forgetGrants();
        granted.clear();
        confirmed.reset(now);
        lost = null;
        inFlight = null;
        chargedPeriod = null;
        newestCharge = null;
        refundedUnnamed = 0;
    }

    // Reconciliation.

    /** Returns how many permits are to be reconciled and not handed over. */
    long toReconcile() {
        return toReconcile;
    }

    /** Returns a claim on this count, with the limit in its present form. */
    Claim claim() {
        return claim;
    }

    boolean isInFlight() {
        return inFlight != null;
    }

    /** Hands over all grants, which must not be empty. */
    void handOver(Reconciliation reconciliation) {
        inFlight = new InFlight(
                reconciliation,
                Math.max(reconciliation.firstMillis(), handedOverAt),
                grantsNow().wholeAt(),
                confirmed.newestReply());
        handedOverAt = now;
        refundedUnnamed = 0;
        granted.clear();
        handedOver();
    }

    final void handedOver() {
        toReconcile = 0;
        queue.remove(this);
    }

    /** Returns the grants to hand over; null if none of them counts any more. */
    @Nullable
    Reconciliation reconciliation(String id, InstantSource clock) {
        List<Grants> grants = grants();
        return grants.isEmpty() ? null : Reconciliation.of(id, claim, grants, clock);
    }

    /**
     * Notes that the primary store has charged a reconciliation.
     *
     * @param reply its reply
     * @return the permits that must be refunded in the primary store now, because they were refunded while in flight;
     *     null if there are none
     */
    @Nullable
    ChargedPermits charged(Reconciliation reconciliation, StoreDecision reply) {
        InFlight sent = inFlight;
        if (sent == null || sent.reconciliation != reconciliation) {
            return null;
        }
        inFlight = null;
        if (reply.stamp() > 0) {
            long at = reply.at().toEpochMilli();
            for (Grants some : chargedAges(reconciliation, reply)) {
                confirmed.charged(some.permits(), at - some.toMillis(), at);
            }
        }
        newestCharge = NewestCharge.of(reconciliation, reply, newestCharge);
        ChargedPeriod period = ChargedPeriod.of(sent, reply, now);
        ChargedPeriod before = chargedPeriod;
        chargedPeriod = before == null || leavesWindowAt(before.to) <= now ? period : period.with(before);
        ChargedPermits refund = toRefund(period, sent.refundedFrom, sent.refunded);
        if (refund != null) {
            subtractCharged(sent.refunded);
        }
        return refund;
    }

    /** Notes that the primary store cannot charge a reconciliation. */
    void notCharged(Reconciliation reconciliation) {
        if (inFlight != null && inFlight.reconciliation == reconciliation) {
            inFlight = null;
            // Merged with the next period, it would include these grants. Their refunds would then be sent to the
            // primary store, and remove permits that other instances use.
            chargedPeriod = null;
        }
    }

    /** Drops what is to be reconciled: there is nothing left that counts, or a reset has removed it. */
    void forgetGrants() {
        removeToReconcile(toReconcile);
        queue.remove(this);
    }

    /** Moves to a time outside a decision. */
    void advanceTo(long now) {
        advance(claim, now);
    }

    /** Notes that the table has evicted this count, and what it was to reconcile is lost. */
    void evicted(long now) {
        if (toReconcile > 0) {
            advanceTo(now);
            queue.lost(Math.min(toReconcile, granted.recorded()));
        }
        forgetGrants();
    }

    @Override
    public long recorded() {
        return granted.recorded();
    }

    @Override
    public List<Grants> grants() {
        return grantsNow().grants();
    }

    /** Learns of permits that are missing in a reply of the primary store. Called under the monitor of the count. */
    @FunctionalInterface
    interface LossListener {

        /**
         * Notes missing permits.
         *
         * @param permits the permits
         * @param missing to be {@linkplain Ledger#restored reported} once the primary store has them again
         */
        void lost(LostPermits permits, ConfirmedUsage missing);
    }

    /** Grants that were handed over, if it is not known yet whether the primary store has charged them. */
    private static final class InFlight {

        private final Reconciliation reconciliation;

        /** The time of the first grant. The reconciliation may know it less precisely. */
        private final long from;

        /** The newest reply before the grants were handed over, on the primary store's clock. */
        private final long newestReply;

        private long until;

        /** How many permits count, without those refunded. */
        private long permits;

        /** How many were refunded: to be refunded in the primary store once charged. */
        private long refunded;

        /** The time at which the oldest of the refunded permits was granted. */
        private long refundedFrom = Long.MAX_VALUE;

        InFlight(Reconciliation reconciliation, long from, long until, long newestReply) {
            this.reconciliation = reconciliation;
            this.from = from;
            this.until = until;
            this.newestReply = newestReply;
            this.permits = reconciliation.permits();
        }

        boolean includes(long takenAt) {
            return takenAt >= from && takenAt <= reconciliation.lastMillis();
        }

        /** Refunds permits that were granted at a time, and returns how many. */
        long refund(long takenAt, long most) {
            long less = Math.min(permits, most);
            if (less > 0) {
                permits -= less;
                refunded += less;
                refundedFrom = Math.min(refundedFrom, takenAt);
            }
            return less;
        }
    }

    /**
     * The time in which all grants were charged in the primary store.
     *
     * @param from the time of the first grant
     * @param to the time of the last grant
     * @param stamp the lowest stamp of the charges
     * @param ahead how far the clock of the primary store is ahead of this one, in milliseconds, at least
     */
    private record ChargedPeriod(long from, long to, long stamp, long ahead) {

        static ChargedPeriod of(InFlight sent, StoreDecision reply, long now) {
            return new ChargedPeriod(
                    sent.from,
                    sent.reconciliation.lastMillis(),
                    reply.stamp(),
                    reply.at().toEpochMilli() - now);
        }

        ChargedPeriod with(ChargedPeriod before) {
            return new ChargedPeriod(
                    Math.min(from, before.from), to, Math.min(stamp, before.stamp), Math.min(ahead, before.ahead));
        }

        boolean includes(long takenAt) {
            return takenAt >= from && takenAt <= to;
        }
    }

    /**
     * The newest charge of a reconciliation in the primary store.
     *
     * @param at the time of the charge, on the primary store's clock, or later
     * @param used the permits in use then
     * @param permits the charged permits, with those of earlier charges to which late replies may be
     */
    private record NewestCharge(long at, long used, long permits) {

        static NewestCharge of(Reconciliation charged, StoreDecision reply, @Nullable NewestCharge before) {
            long at = reply.at().toEpochMilli();
            long used = 0;
            for (StoreUsage usage : reply.usages()) {
                if (usage.claim().identity().equals(charged.claim().identity())) {
                    used = usage.used();
                }
            }
            long permits = charged.permits();
            if (before != null && Math.abs(at - before.at) < ConfirmedUsage.OUT_OF_ORDER) {
                permits += before.permits;
            }
            return new NewestCharge(at, used, permits);
        }

        /** Returns whether a reply with these permits in use is from before the charge. */
        boolean isAfter(long usedInReply, long repliedAt) {
            return repliedAt < at
                    ? at - repliedAt < ConfirmedUsage.OUT_OF_ORDER
                    : repliedAt == at && usedInReply < used;
        }
    }
}
