package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.Comparator;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The ledger of a rate limit. */
final class RateLedger extends Ledger {
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
    // which the permits leave the window (RefundCharged): however late it is, it does not remove later permits.
    //
    // Lost data shows in the first reply that has fewer permits than this instance itself has certainly been granted.
    // What is missing moves to "lost", and is restored (DataLoss). If another instance has reset the count, the primary
    // store knows that, and restores nothing.
    //
    // Not covered: lost permits of a count that this instance did not use, evicted counts, and grants of other
    // instances.
    //
    // docs/decisions/0033-one-ledger-per-count.md has the reasons.

    /** The retry time, in milliseconds, if no permits that are reserved here expire. */
    private static final long RETRY = 1_000;

    private static final long NEVER = Long.MAX_VALUE;

    /** No usage. Never changed, so that all ledgers may share it. */
    private static final ConfirmedUsage NOTHING = new ConfirmedUsage(Limit.perSecond(1));

    private final BiConsumer<LostPermits, ConfirmedUsage> onLoss;
    private final RateCount granted;
    private ConfirmedUsage confirmed;

    /** The usage that the primary store had confirmed and has lost. */
    private @Nullable ConfirmedUsage lost;

    /** When that was restored, on the primary store's clock; later replies include it. */
    private long restoredAt = NEVER;

    private @Nullable GrantsInFlight inFlight;
    private ChargedGrants charged = ChargedGrants.NONE;

    /**
     * Of a bucket, until when permits returned that were in flight and cannot be charged. No others return in that
     * time, so that no time counts twice.
     */
    private long returnedUntil;

    /** How many granted permits were refunded without a decision since grants were last handed over. */
    private long refundedWithoutDecision;

    /** The epoch since which all grants that were handed over and are not in flight are charged. */
    private long chargedSince;

    /**
     * Creates an empty ledger.
     *
     * @param onLoss called under the monitor of the count if a reply shows that permits are lost. Once the primary
     *     store has them again, call {@link #restored} with the same usage
     */
    RateLedger(
            Claim claim,
            HandOvers handOvers,
            OutageShare share,
            Instances.@Nullable Group instances,
            BiConsumer<LostPermits, ConfirmedUsage> onLoss) {
        super(claim, handOvers, share, instances);
        Limit limit = claim.limit();
        this.onLoss = onLoss;
        this.granted = limit.algorithm() == Algorithm.BUCKET ? new BucketGrants() : RateCount.of(limit);
        this.confirmed = new ConfirmedUsage(limit);
        this.chargedSince = openSince();
    }

    @Override
    public void advance(Claim claim, long now) {
        super.advance(claim, now);
        returnedUntil = Math.min(returnedUntil, now + limit().reach().toMillis());
        granted.advance(claim, now);
        confirmed.advance(claim.limit(), now);
        if (lost != null) {
            lost.advance(claim.limit(), now);
            if (lost.endsAt(now) <= now) {
                lost = null;
            }
        }
        if (inFlight != null) {
            inFlight.advance(claim.limit(), now);
        }
    }

    @Override
    OutageShare.Use use() {
        return confirmed.use();
    }

    private Limit limit() {
        return claim().limit();
    }

    // The decision of the fallback.

    @Override
    public boolean fits(long cost) {
        return grantsNow().fits(cost + reserved(now()));
    }

    @Override
    public void take(long cost) {
        grantsNow().take(cost);
        addToReconcile(cost);
    }

    @Override
    public void recordDenied(long cost) {
        long before = grantsNow().recorded();
        granted.recordDenied(cost);
        addToReconcile(Math.max(0, granted.recorded() - before));
    }

    @Override
    public long used() {
        return grantsNow().used() + reserved(now());
    }

    @Override
    public long recorded() {
        return granted.recorded();
    }

    @Override
    public long wholeAt() {
        long end = Math.max(confirmed.endsAt(now()), missing().endsAt(now()));
        return Math.max(Math.max(grantsNow().wholeAt(), end), inFlightUntil());
    }

    /**
     * {@inheritDoc}
     *
     * <p>Reserved permits count as if the claim asked for more; the time is computed again for each moment at which
     * some of them expire.
     */
    @Override
    public long fitsAt(long cost) {
        long from = now();
        while (true) {
            long until = reservedUntil(from);
            long all = cost + reserved(from);
            if (all <= limit().burst()) {
                long fitsAt = Math.max(from, grantsNow().fitsAt(all));
                if (fitsAt < until) {
                    return fitsAt;
                }
            } else if (until == NEVER) {
                return now() + RETRY;
            }
            from = until;
        }
    }

    /** Returns the grants. Those of a bucket return only once nothing else is in use that returns at the same rate. */
    private RateCount grantsNow() {
        if (granted instanceof BucketGrants bucket) {
            long from = Math.max(confirmed.emptyAt(now()), missing().emptyAt(now()));
            bucket.drain(Math.max(Math.max(from, returnedUntil), inFlightUntil()), localShare());
        }
        return granted;
    }

    /** Returns how many permits are in use at a time, besides those granted; confirmed ones by the share. */
    private long reserved(long time) {
        long used = localShare() < 1 ? confirmed.estimatedAt(time) : confirmed.at(time);
        return (long) Math.ceil((used + missing().at(time)) * localShare()) + inFlight(time);
    }

    /** Returns the next time after this one at which fewer permits are reserved. */
    private long reservedUntil(long time) {
        long next = Math.min(confirmed.changesAfter(time), missing().changesAfter(time));
        return inFlight(time) > 0 ? Math.min(next, inFlightUntil()) : next;
    }

    /** Returns the lost usage that is not restored. */
    private ConfirmedUsage missing() {
        return lost == null || restoredAt != NEVER ? NOTHING : lost;
    }

    private long inFlight(long time) {
        return inFlight == null ? 0 : inFlight.at(time);
    }

    private long inFlightUntil() {
        return inFlight == null ? 0 : inFlight.until();
    }

    // The replies of the primary store.

    @Override
    Fit confirm(StoreUsage usage, StoreDecision decision) {
        recordUsage(usage, decision, null);
        Limit limit = usage.limit();
        long repliedAt = decision.at().toEpochMilli();
        boolean hasGranted = toReconcile() > 0 || inFlight != null || charged.isInWindow(limit(), now());
        long used = usage.used();
        if (hasGranted || confirmed.exceeds()) {
            used = Math.max(used + charged.missingIn(used, repliedAt), confirmed.at(now()));
        }
        used += lostIn(repliedAt);
        if (!hasGranted && used <= limit.burst()) {
            return Fit.YES;
        }
        RateCount grants = grantsNow();
        if (!grants.fits(used)) {
            return Fit.NO;
        }
        return grants.fits(used + inFlight(now())) ? Fit.YES : Fit.IF_RECONCILED;
    }

    /** Returns how many lost permits are still in use and not included in a reply. */
    private long lostIn(long repliedAt) {
        return lost == null || repliedAt > restoredAt ? 0 : lost.at(now());
    }

    /** Notes that the primary store has granted permits of a decision that fits. Call this once for each. */
    void grantedInPrimary(StoreUsage usage, StoreDecision decision) {
        confirmed.granted(usage.claim().permits(), decision.at().toEpochMilli());
    }

    /**
     * Records the usage in a reply of the primary store.
     *
     * @param sent the grants in flight, if this is the reply to their reconciliation; null otherwise
     */
    private void recordUsage(StoreUsage usage, StoreDecision reply, @Nullable GrantsInFlight sent) {
        checkForLoss(usage, reply, sent);
        confirmed.report(usage, reply.at().toEpochMilli(), now());
    }

    /** If the primary store has lost permits, they still count here, and are added to what it replies from now on. */
    private void checkForLoss(StoreUsage usage, StoreDecision reply, @Nullable GrantsInFlight sent) {
        long usedBefore = usage.used() - (reply.isCharged() ? usage.claim().permits() : 0);
        double reconciled = sent == null ? 0 : sent.certainlyIn(reply, limit());
        boolean areNew = sent != null && sent.areChargedSince(confirmed.newestReply(), reply);
        long certain = confirmed.certainIn(reply.at().toEpochMilli());
        if (usedBefore - (areNew ? (long) reconciled : 0) < certain) {
            // A store that still has the mark of the reconciliation has most likely charged it after the loss.
            confirmed.keepAtLeast(certain, now());
            if (confirmed.isOfOtherLife(usage)) {
                moveToLost(0, confirmed.ages(now()));
                return;
            }
            long kept = usedBefore - (long) Math.ceil(reconciled - ConfirmedUsage.ROUNDING);
            moveToLost(kept, agesToRestore(usage, reply, sent));
        }
    }

    /** Returns the ages of the permits that were confirmed, the oldest first; empty if none is in use any more. */
    private List<Grants> agesToRestore(StoreUsage usage, StoreDecision reply, @Nullable GrantsInFlight sent) {
        List<Grants> ages = confirmed.ages(now());
        return sent == null || ages.isEmpty()
                ? ages
                : Stream.concat(
                                ages.stream(),
                                sent.takenForKept(usage, reply, confirmed.newestReply(), limit()).stream())
                        .sorted(Comparator.comparingLong(Grants::toMillis).reversed())
                        .toList();
    }

    /**
     * Moves the confirmed usage to the lost one.
     *
     * @param kept how many permits the primary store still has
     * @param ages the permits to restore
     */
    private void moveToLost(long kept, List<Grants> ages) {
        ConfirmedUsage moved = confirmed;
        moved.becomeLost(kept, missing(), now());
        confirmed = ConfirmedUsage.afterLoss(limit());
        lost = moved;
        restoredAt = NEVER;
        if (!ages.isEmpty()) {
            onLoss.accept(new LostPermits(claim(), moved.newestReply(), moved.life(), ages), moved);
        }
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
                recordUsage(usage, reply, null);
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
        if (lost != null && takenAt < confirmed.firstReply()) {
            // They are no evidence once the others are restored, which may overtake the refund.
            lost.refunded(permits, takenAt);
        }
    }

    /** Notes that the oldest permits, of any instance, are refunded in the primary store. */
    void refundedOldestInPrimary(long permits) {
        confirmed.refundedOldest(permits, now());
    }

    // Refunds and resets.

    /**
     * Subtracts permits that the primary store took at a time of its clock, if they are certainly confirmed.
     *
     * @param isEvidence whether they were {@linkplain #grantedInPrimary noted}
     */
    void refundConfirmed(long permits, long takenAt, boolean isEvidence) {
        if (isEvidence) {
            refundedInPrimary(permits, takenAt);
        }
        if (confirmed.includes(takenAt)) {
            confirmed.subtract(permits, now());
        }
    }

    /** Refunds permits without a decision: confirmed ones first, because they are older. */
    void refundOldest(long permits) {
        confirmed.refundedOldest(permits, now());
        refundOldestGranted(permits - confirmed.subtract(permits, now()));
    }

    /** Refunds the oldest granted permits, and returns how many. */
    long refundOldestGranted(long permits) {
        long before = granted.recorded();
        granted.refundOldest(permits);
        long refunded = countRefunded(before);
        refundedWithoutDecision += refunded;
        return refunded;
    }

    /** Refunds permits that were granted at a time, and returns how many. */
    private long refundGranted(long takenAt, long permits) {
        long before = granted.recorded();
        granted.refund(takenAt, permits);
        return countRefunded(before);
    }

    /** Returns how many granted permits were refunded since so many were recorded; they are not to be reconciled. */
    private long countRefunded(long recordedBefore) {
        long refunded = recordedBefore - granted.recorded();
        removeToReconcile(refunded);
        return refunded;
    }

    @Override
    @Nullable
    RefundCharged refundGrant(long stamp, long takenAt, long permits) {
        if (stamp >= openSince()) {
            long unused = refundGranted(takenAt, permits);
            return null;
        } else if (inFlight != null && stamp >= inFlight.since()) {
            inFlight.refund(takenAt, permits);
            return null;
        }
        return stamp >= chargedSince ? charged.refund(claim(), takenAt, permits, now()) : null;
    }

    /** Refunds permits that the primary store has charged, while it cannot be asked. */
    void refundCharged(RefundCharged permits, long takenAt) {
        if (now() < ChargedGrants.leavesWindowAt(limit(), takenAt)) {
            subtractCharged(permits.claim().permits());
        }
    }

    /**
     * Subtracts charged permits from those confirmed. Not of a counter or bucket: they may have faded, and what would
     * be subtracted instead is in use.
     */
    private void subtractCharged(long permits) {
        if (limit().algorithm() == Algorithm.LOG) {
            confirmed.subtract(permits, now());
        }
    }

    @Override
    long cancelGrant(long takenAt, long permits) {
        long left = permits - refundGranted(takenAt, permits);
        long refunded = Math.min(refundedWithoutDecision, left);
        refundedWithoutDecision -= refunded;
        return refunded;
    }

    @Override
    public void clear() {
        forgetGrants();
        granted.clear();
        confirmed = ConfirmedUsage.afterReset(limit(), now());
        lost = null;
        inFlight = null;
        charged = ChargedGrants.NONE;
        returnedUntil = 0;
        refundedWithoutDecision = 0;
    }

    // Reconciliation.

    @Override
    boolean isInFlight() {
        return inFlight != null;
    }

    @Override
    boolean isInFlight(Reconciliation reconciliation) {
        return inFlight != null && inFlight.isOf(reconciliation);
    }

    @Override
    @Nullable
    Reconciliation reconciliation(String id) {
        List<Grants> grants = grantsNow().grants();
        return grants.isEmpty() ? null : Reconciliation.of(id, claim(), grants, clock());
    }

    @Override
    void handOver(Reconciliation reconciliation, long since) {
        inFlight = new GrantsInFlight(reconciliation, since, grantsNow().wholeAt(), confirmed.newestReply());
        refundedWithoutDecision = 0;
        granted.clear();
    }

    @Override
    @Nullable
    RefundCharged charged(Reconciliation reconciliation, StoreDecision reply) {
        GrantsInFlight sent = isInFlight(reconciliation) ? inFlight : null;
        StoreUsage usage = usageIn(reply);
        if (usage != null) {
            recordUsage(usage, reply, sent);
        }
        if (sent == null) {
            return null;
        }
        inFlight = null;
        if (reply.stamp() > 0) {
            long at = reply.at().toEpochMilli();
            for (Grants some : sent.agesIn(reply)) {
                confirmed.charged(some.permits(), at - some.toMillis(), at);
            }
        }
        ChargedGrants newest = ChargedGrants.of(sent, reply, usage, now());
        charged = newest.after(charged, limit(), now());
        RefundCharged refund = newest.refund(claim(), sent.refundedFrom(), sent.refunded(), now());
        if (refund != null) {
            subtractCharged(sent.refunded());
        }
        return refund;
    }

    private @Nullable StoreUsage usageIn(StoreDecision reply) {
        return reply.usages().stream()
                .filter(usage -> usage.claim().identity().equals(claim().identity()))
                .findFirst()
                .orElse(null);
    }

    @Override
    void notCharged(Reconciliation reconciliation) {
        if (inFlight != null && inFlight.isOf(reconciliation)) {
            returnedUntil = Math.max(returnedUntil, inFlight.until());
            inFlight = null;
            chargedSince = openSince();
        }
    }
}
