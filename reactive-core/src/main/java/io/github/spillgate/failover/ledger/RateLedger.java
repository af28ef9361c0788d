package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.internal.Time;
import io.github.spillgate.internal.fleet.Instances;
import io.github.spillgate.local.CountTable;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The ledger of a rate limit. */
public final class RateLedger extends Ledger {
    // Design notes.
    //
    // Four numbers:
    //
    //   seen      permits in use by all instances, in the newest reply of the primary store
    //   lost      permits of earlier replies that the primary store has lost, with its data
    //   granted   permits that this instance has granted itself and not handed over
    //   pending   permits that were handed over, if it is not known yet whether the primary store has charged them;
    //             without those refunded since. With them, "lost" is handed over
    //
    // Invariant: a request is reported as allowed, by the primary store or by the fallback, only if it fits into the
    // limit together with all requests that this instance has reported as allowed before and that still count.
    //
    // Every request that was allowed and still counts is in at least one of the numbers. So it is enough to check, with
    // the new request included, that their sum is at most the limit. Each method below is one step under the monitor of
    // this count: of a grant and a reply at the same time, the later one sees the earlier one.
    //
    //   fits()      A grant of the fallback must fit with all; "seen" and "lost" count by the share, and the CountTable
    //               reserves the shares of other instances. It ignores requests to the primary store that are in
    //               flight, because their replies go through confirm().
    //   confirm()   A reply of the primary store is recorded first, and may be passed on only if it fits with the
    //               others then.
    //
    // A permit that moves from one number to another is in both for a moment, and always in one: what was handed over
    // is in "seen" before it leaves "pending".
    //
    // Each count in the primary store has a life (StoreUsage). A reply of another life, while the permits in "seen"
    // must still count, means that their data was lost: they move to "lost", and are handed over. A reply says
    // something only if it is newer than "seen", or of the same life (Snapshot.isOlderThan). If it says nothing, its
    // grant is of a life that was lost or reset, so it is refunded, and the fallback decides.
    //
    // Refunds are subtracted before the primary store is asked, because its next reply may be without them already.
    // A refund of pending permits is sent when the primary store has charged them: before that, it would remove
    // permits that other instances use. An epoch says where the permits of a decision are: from openSince() on they are
    // here, from that of "pending" on they are in flight, and from chargedSince on they are in the present life of
    // the count, as it is since its last reset. Earlier ones are gone.
    //
    // Not covered: lost permits of a count that this instance did not use, evicted counts, and grants of other
    // instances.
    //
    // docs/decisions/0049-a-ledger-by-lives-and-epochs.md has the reasons.

    /** The retry time, in milliseconds, if no permits that are reserved here expire. */
    private static final long RETRY = 1_000;

    private static final long NEVER = Long.MAX_VALUE;

    /** The longest time for which an instance keeps to its share after an outage, in milliseconds. */
    private static final long LONGEST_SHARED = 3_000;

    /** The highest number of lost lives; of more, the oldest are forgotten. */
    private static final int MOST_LOST = 16;

    private final HandOvers handOvers;
    private final RateCount granted;

    /** What was taken lately of a bucket; null for others. */
    private final @Nullable BucketTraffic traffic;

    private Snapshot seen = Snapshot.none(new OwnPermits());

    /** The oldest first. */
    private List<Snapshot> lost = List.of();

    private @Nullable PendingGrants pending;
    private long chargedSince;

    /** The life of the count before its last reset. */
    private int lifeBefore;

    /** How far the store's clock was ahead of this one when it charged grants since then, at least. */
    private long storeAhead;

    /**
     * Of a bucket, until when permits returned that were pending and cannot be charged. No others return in that time,
     * so that no time counts twice.
     */
    private long returnedUntil;

    /** How many granted permits were refunded without a decision since grants were last handed over. */
    private long refundedWithoutDecision;

    /**
     * Until when this instance keeps to its share although the primary store decides: others may not have handed over
     * yet what they granted during the outage.
     */
    private long sharedUntil;

    /** Of a bucket, when that began, and how many permits it might take then. */
    private long sharedFrom;

    private long sharedLeft;

    /** Creates an empty ledger. */
    public RateLedger(Claim claim, HandOvers handOvers, OutageShare share, Instances.@Nullable Group instances) {
        super(claim, handOvers, share, instances);
        this.traffic = Snapshot.isBucket(claim.limit()) ? new BucketTraffic() : null;
        this.granted =
                isBucket() ? new BucketGrants() : isQuota() ? new QuotaGrants(handOvers) : RateCount.of(claim.limit());
        this.handOvers = handOvers;
        this.chargedSince = openSince();
        seen.own().adjustTo(claim.limit());
    }

    @Override
    public void advance(Claim claim, long now) {
        super.advance(claim, now);
        returnedUntil = Math.min(returnedUntil, now + LimitKind.reach(limit()));
        sharedUntil = Math.min(sharedUntil, now + LONGEST_SHARED);
        granted.advance(claim, now);
        seen.own().adjustTo(limit());
        if (now < seen.arrived()) {
            seen = seen.arrivedAt(now);
        }
        if (!lost.isEmpty()) {
            lost = lost.stream()
                    .map(one -> now < one.arrived() ? one.arrivedAt(now) : one)
                    .filter(one -> isBucket() ? levelAt(now) > 0 : one.localEnd() > now)
                    .toList();
        }
        if (pending != null) {
            pending.advance(now);
        }
    }

    @Override
    OutageShare.Use use() {
        return traffic == null ? new OutageShare.Use(seen.ownUsed(limit()), (double) seen.used(), 0) : traffic.use();
    }

    private boolean isBucket() {
        return traffic != null;
    }

    private boolean isQuota() {
        return limit() instanceof Limit.Quota;
    }

    // The decision of the fallback.

    @Override
    public boolean fits(long cost) {
        return hasShare(cost - ofOthers()) && grantsNow().fits(cost + reserved(now()));
    }

    @Override
    public void take(long cost) {
        grantsNow().take(cost);
        sharedLeft -= cost;
        addToReconcile(cost);
    }

    @Override
    public void recordDenied(long cost) {
        long before = grantsNow().recorded();
        granted.recordDenied(cost);
        addToReconcile(Math.max(0, granted.recorded() - before));
    }

    /** Bans the key, while the primary store cannot be asked; the ban is handed over. */
    public void ban(List<Grants> ages) {
        if (granted.charge(ages) > 0) {
            addToReconcile(1);
        }
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
        return Math.max(Math.max(grantsNow().wholeAt(), knownEnd()), pendingUntil());
    }

    /**
     * {@inheritDoc}
     *
     * <p>Reserved permits count as if the claim asked for more; the time is computed again for each moment at which
     * some of them expire.
     */
    @Override
    public long fitsAt(long cost) {
        long from = hasShare(cost - ofOthers()) ? now() : sharedUntil;
        while (true) {
            long until = reservedUntil(from);
            long all = cost + reserved(from);
            if (all <= limit().capacity()) {
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

    /** Returns how many permits the table adds to the cost of a claim, because they are for other instances. */
    private long ofOthers() {
        return CountTable.ofOthers(limit(), localShare());
    }

    @Override
    boolean keepsToShare() {
        return now() < sharedUntil;
    }

    /** Returns whether this instance may take as many permits, soon after an outage. */
    public boolean hasShare(long permits) {
        return permits == 0 || !keepsToShare() || permits <= shareLeft();
    }

    /**
     * Returns how many permits this instance may take after an outage, so that its own in use are at most its share,
     * and with those of others, as far as the store knows them, at most the limit. So it may take again what expires.
     * Of a bucket, it gets its part of what returns.
     */
    private long shareLeft() {
        if (traffic != null) {
            double returned = (double) limit().permits()
                    * (now() - sharedFrom)
                    / limit().window().toMillis();
            return sharedLeft + (long) Math.floor(returned * localShare());
        }
        long own = (long) Math.ceil(seen.ownUsedAt(limit(), now()));
        return ownShare(seen.estimatedAt(limit(), now()) - own) - own - granted.used() - pendingAt(now());
    }

    /** Returns how many permits this instance may have in use, if others have so many, or more, up to their shares. */
    private long ownShare(long others) {
        long share = limit().capacity() - ofOthers();
        return Math.min(share, limit().capacity() - Math.max(0, others));
    }

    /** Returns the grants. Those of a bucket return only once nothing else is in use that returns at the same rate. */
    private RateCount grantsNow() {
        if (granted instanceof BucketGrants bucket) {
            bucket.drain(Math.max(Math.max(knownEnd(), returnedUntil), pendingUntil()), localShare());
        }
        return granted;
    }

    /** Returns how many permits are in use at a time, besides those granted; those in the store by the share. */
    private long reserved(long time) {
        return (long) Math.ceil(storeUse(time) * localShare()) + pendingAt(time);
    }

    /** Returns the next time after this one at which fewer permits are reserved. */
    private long reservedUntil(long time) {
        long next = pending != null && pending.at(time) > 0 ? pending.changesAfter(time) : NEVER;
        if (isBucket()) {
            return time < knownEnd() ? Math.min(Math.min(next, knownEnd()), stepAfter(time)) : next;
        }
        for (Snapshot one : snapshots()) {
            next = Math.min(next, one.changesAfter(limit(), time));
        }
        return next;
    }

    /** Returns how many permits are in use at a time that the primary store knows, or knew before they were lost. */
    private long storeUse(long time) {
        if (isBucket()) {
            return new BucketState(levelAt(time), time).used(limit());
        }
        long used = localShare() < 1 ? seen.estimatedAt(limit(), time) : seen.usedAt(limit(), time);
        return used + lostAt(time);
    }

    // A bucket has one level, of all permits that are or were in the primary store, which return at one rate.

    private long levelAt(long time) {
        long passed = Math.max(0, time - seen.arrived());
        boolean isEmpty = BucketState.levelAfter(limit(), levelAtReply(), passed) == 0;
        return isEmpty ? 0 : BucketState.levelAfter(limit(), levelAtReply(), passed - passed % Snapshot.step(limit()));
    }

    /** Returns that level when the newest reply arrived. */
    private long levelAtReply() {
        return BucketState.units(limit(), seen.used() + lostAt(seen.arrived()));
    }

    private long stepAfter(long time) {
        long step = Snapshot.step(limit());
        return seen.arrived() + ((Math.max(0, time - seen.arrived()) / step) + 1) * step;
    }

    /** Returns the usages of which {@link #storeUse(long)} is the sum, if this is no bucket. */
    private List<Snapshot> snapshots() {
        if (lost.isEmpty() && pending == null) {
            return List.of(seen);
        }
        List<Snapshot> known = allLost();
        known.add(seen);
        return known;
    }

    private List<Snapshot> allLost() {
        List<Snapshot> all = new ArrayList<>(lost);
        if (pending != null) {
            all.addAll(pending.lost());
        }
        return all;
    }

    /** Returns how many lost permits count; of a bucket all, because only the level in "seen" falls. */
    private long lostAt(long time) {
        if (lost.isEmpty() && pending == null) {
            return 0;
        }
        long sum = 0;
        for (Snapshot one : allLost()) {
            sum += isBucket() ? one.used() : one.usedAt(limit(), time);
        }
        return sum;
    }

    /** Returns the local time from which nothing is in use that the primary store knows or knew; may have passed. */
    private long knownEnd() {
        if (isBucket()) {
            return seen.arrived() + new BucketState(levelAtReply(), 0).wholeAt(limit());
        }
        long end = 0;
        for (Snapshot one : snapshots()) {
            end = Math.max(end, one.localEnd());
        }
        return end;
    }

    private long pendingAt(long time) {
        return pending == null ? 0 : pending.at(time);
    }

    private long pendingUntil() {
        return pending == null ? 0 : pending.until();
    }

    // The replies of the primary store.

    @Override
    public boolean confirm(StoreUsage usage, boolean isCharged, long sentAt) {
        boolean isKnown = record(usage, sentAt);
        if (!isKnown || seen.life() != usage.life()) {
            return false;
        }
        Limit limit = usage.limit();
        long used = Math.max(usage.used(), seen.usedAt(limit, now())) + lostAt(now());
        boolean isAlone = toReconcile() == 0 && pending == null;
        // The store does not know what other instances have granted during an outage either.
        boolean isBeyondShare = !hasShare(usage.cost()) || (!isAlone && localShare() < 1 && isAfterOutage());
        if (isCharged && isBeyondShare) {
            return false;
        }
        boolean isLimit = isAlone && limit.takesPermits();
        return isLimit ? used <= limit.capacity() : grantsNow().fits(used + pendingAt(now()));
    }

    /** Returns whether a life is the present one, and neither reset nor being reset, as far as is known. */
    public boolean isPresentLife(int life) {
        return seen.life() == life && !isBeingReset();
    }

    /** Notes that the primary store has granted permits of a decision that fits. Call this once for each. */
    public void grantedInPrimary(StoreUsage usage) {
        sharedLeft -= usage.claim().permits();
        granted(usage.claim().permits(), usage.reply().at(), usage.life());
    }

    private void granted(long permits, long takenAt, int life) {
        if (traffic != null) {
            traffic.took(limit(), permits, takenAt);
        } else if (life == seen.life() && takenAt <= seen.at()) {
            seen.own().add(takenAt, permits);
        }
    }

    /**
     * Records a reply of the primary store.
     *
     * @param sentAt when its request was sent
     * @return whether it is of the present life, as far as is known
     */
    private boolean record(StoreUsage usage, long sentAt) {
        Snapshot last = seen;
        long at = usage.reply().at();
        long nanos = Time.nanos();
        boolean isSameLife = last.isOfSameLife(usage.life());
        if (!last.isOlderThan(usage, sentAt, nanos)) {
            return isSameLife;
        }
        boolean isLost = !isSameLife && last.isAlive(limit(), at, now());
        if (!isSameLife && !lost.isEmpty()) {
            // Not lost after all: the server with it is back.
            lost = lost.stream().filter(one -> !one.isOfSameLife(usage.life())).toList();
        }
        boolean isOtherLife = last.life() != usage.life();
        if (isLost) {
            lose(last);
            seen = Snapshot.none(new OwnPermits());
            seen.own().adjustTo(limit());
        } else if (isOtherLife || at < last.at() || (isQuota() && at >= last.ends())) {
            last.own().clear();
        }
        if (isOtherLife) {
            chargedSince = pending == null ? openSince() : pending.since();
        }
        seen.replace(usage, now(), sentAt, nanos);
        if (traffic != null) {
            traffic.replied(limit(), usage.used() + lostAt(now()), at);
        }
        if (granted instanceof QuotaGrants quota) {
            handOvers.noteStoreAhead(at - now());
            quota.follow(seen);
        }
        if (isLost) {
            // Last, because it may be handed over at once.
            enqueue();
        }
        return true;
    }

    private void lose(Snapshot one) {
        List<Snapshot> all = new ArrayList<>(lost);
        all.removeIf(other -> other.isOfSameLife(one.life()));
        all.add(isBucket() ? one.fallenTo(limit(), now()) : one);
        lost = newest(all);
    }

    private static List<Snapshot> newest(List<Snapshot> all) {
        return List.copyOf(all.subList(Math.max(0, all.size() - MOST_LOST), all.size()));
    }

    // Refunds and resets.

    /** Notes that permits of a decision are refunded in the primary store, which took them at a time of its clock. */
    public void refundedInPrimary(long permits, long takenAt, int life) {
        if (traffic != null) {
            traffic.refunded(limit(), permits, takenAt);
        } else if (life == seen.life()) {
            seen.own().refund(takenAt, permits);
        }
    }

    /** Notes that the oldest permits, of any instance, are refunded in the primary store. */
    public void refundedOldestInPrimary(long permits) {
        if (traffic != null) {
            traffic.refunded(limit(), permits, seen.at());
        } else {
            seen.own().refundOldest(limit(), seen.at() + Math.max(0, now() - seen.arrived()), permits);
        }
    }

    /** Subtracts permits that are refunded in the primary store, which took them at a time of its clock. */
    public void refundConfirmed(long permits, long takenAt, int life) {
        refundedInPrimary(permits, takenAt, life);
        if (life == seen.life()) {
            seen = seen.without(limit(), permits, takenAt);
        }
    }

    /** Refunds permits without a decision: those in the primary store first, because they are older. */
    public void refundOldest(long permits) {
        refundedOldestInPrimary(permits);
        long before = seen.usedAt(limit(), now());
        seen = seen.withoutOldest(limit(), Math.min(before, permits));
        refundOldestGranted(permits - Math.min(before, permits));
    }

    /** Refunds the oldest granted permits, and returns how many. */
    public long refundOldestGranted(long permits) {
        long before = granted.recorded();
        granted.refundOldest(permits);
        long removed = removed(before);
        refundedWithoutDecision += removed;
        return removed;
    }

    /** Removes permits that were granted at a time, and returns how many. */
    private long remove(long takenAt, long permits) {
        long before = granted.recorded();
        granted.refund(takenAt, permits);
        return removed(before);
    }

    /** Returns how many granted permits were removed since so many were recorded; they are not to be reconciled. */
    private long removed(long recordedBefore) {
        long removed = recordedBefore - granted.recorded();
        removeToReconcile(removed);
        return removed;
    }

    @Override
    @Nullable
    public RefundCharged refundGrant(Reply grant, long permits) {
        long stamp = grant.stamp();
        long takenAt = grant.at();
        if (stamp >= openSince()) {
            long unused = remove(takenAt, permits);
            return null;
        } else if (pending != null && stamp >= pending.since()) {
            if (isQuota() || now() < takenAt + limit().quotaWindow().toMillis()) {
                pending.refund(takenAt, permits);
            }
            return null;
        }
        return stamp >= chargedSince ? chargedRefund(takenAt, permits) : null;
    }

    /** Returns the refund of grants that the primary store has charged; null if there are none that still count. */
    private @Nullable RefundCharged chargedRefund(long takenAt, long permits) {
        if (isQuota()) {
            boolean counts = permits > 0 && seen.used() > 0 && takenAt + handOvers.storeAhead() >= seen.start();
            return counts ? new RefundCharged(claim().withPermits(permits), seen.life(), seen.ends()) : null;
        }
        long leavesAt = takenAt + limit().quotaWindow().toMillis();
        if (permits == 0 || now() >= leavesAt || !seen.isKnown()) {
            return null;
        }
        return new RefundCharged(claim().withPermits(permits), seen.life(), leavesAt + storeAhead);
    }

    /** Refunds permits that the primary store has charged, while it cannot be asked. */
    public void refundCharged(RefundCharged permits) {
        long storeTime = seen.at() + Math.max(0, now() - seen.arrived());
        if (permits.life() == seen.life() && storeTime < permits.until()) {
            seen.own()
                    .refundSince(
                            permits.until() - limit().quotaWindow().toMillis(),
                            permits.claim().permits());
            seen = seen.withoutCharged(limit(), permits.claim().permits());
        }
    }

    @Override
    public long cancelGrant(long takenAt, long permits) {
        long removed = remove(takenAt, permits);
        sharedLeft += removed;
        long left = permits - removed;
        long refunded = Math.min(refundedWithoutDecision, left);
        refundedWithoutDecision -= refunded;
        return refunded;
    }

    @Override
    Runnable forget() {
        long grantedBefore = granted.recorded();
        long bannedBefore = limit().takesPermits() ? 0 : Math.max(granted.wholeAt(), pendingUntil());
        Snapshot seenBefore = seen;
        List<Snapshot> lostBefore = allLost();
        PendingGrants pendingBefore = pending;
        long returnedUntilBefore = returnedUntil;
        long sharedUntilBefore = sharedUntil;
        forgetGrants();
        granted.clear();
        lost = List.of();
        pending = null;
        returnedUntil = 0;
        sharedUntil = 0;
        refundedWithoutDecision = 0;
        chargedSince = openSince();
        lifeBefore = seen.isKnown() ? seen.life() : lifeBefore;
        forgetReplies();
        return () -> {
            returnedUntil = Math.max(returnedUntil, returnedUntilBefore);
            sharedUntil = Math.max(sharedUntil, sharedUntilBefore);
            seen = seen.isKnown() ? seen : seenBefore;
            lost = newest(Stream.concat(lostBefore.stream(), lost.stream()).toList());
            // The hand-over in flight may have ended, so its grants are handed over again, as of now.
            long handedOver = pendingBefore == null ? 0 : pendingBefore.at(now());
            if (bannedBefore > 0) {
                ban(List.of(new Grants(0, 0, bannedBefore - now())));
            } else if (grantedBefore + handedOver > 0) {
                take(grantedBefore + handedOver);
            }
            if (hasMore()) {
                enqueue();
            }
        };
    }

    @Override
    void forgetEarlierReplies() {
        if (seen.life() == lifeBefore || !seen.isKnown()) {
            forgetReplies();
        }
    }

    /** Forgets the newest reply: those to requests from before now say nothing. */
    private void forgetReplies() {
        seen = Snapshot.reset(new OwnPermits(), now(), Time.nanos());
        seen.own().adjustTo(limit());
    }

    // The hand-over.

    @Override
    boolean hasMore() {
        return !lost.isEmpty();
    }

    @Override
    boolean isInFlight() {
        return pending != null;
    }

    @Override
    boolean isInFlight(Reconciliation reconciliation) {
        return pending != null && pending.message() == reconciliation;
    }

    @Override
    @Nullable
    Reconciliation reconciliation(String source, long number) {
        List<Grants> grants = grantsNow().grants();
        List<LostPermits> some = lost.stream()
                .map(one -> new LostPermits(one.life(), one.at(), one.grants(limit(), now())))
                .filter(one -> !one.grants().isEmpty())
                .toList();
        return grants.isEmpty() && some.isEmpty()
                ? null
                : Reconciliation.of(source, number, claim(), grants, some, clock());
    }

    @Override
    void handOver(Reconciliation reconciliation, long since) {
        pending = new PendingGrants(
                reconciliation, since, seen.life(), grantsNow().wholeAt(), lost);
        refundedWithoutDecision = 0;
        granted.clear();
        lost = List.of();
    }

    @Override
    @Nullable
    Reconciliation repeatAs(long number) {
        PendingGrants once = pending;
        if (once == null) {
            return null;
        }
        pending = once.again(number);
        return pending.message();
    }

    @Override
    boolean recordReply(StoreUsage usage, long sentAt) {
        return record(usage, sentAt);
    }

    @Override
    @Nullable
    RefundCharged charged(Reconciliation reconciliation, Corrected result) {
        PendingGrants once = pending;
        if (once == null || !isInFlight(reconciliation)) {
            return null;
        }
        pending = null;
        StoreUsage usage = result.usage();
        // They were charged by this message or, perhaps before a reset, by an earlier one.
        int life = usage == null || result.outcome() != CorrectionOutcome.APPLIED ? once.life() : usage.life();
        if (usage != null && life != seen.life()) {
            chargedSince = openSince();
            return null;
        }
        if (usage != null && result.outcome() == CorrectionOutcome.APPLIED) {
            // Of those that an earlier message has charged or restored, it is not known exactly when they expire.
            for (Grants some : reconciliation.sentAges()) {
                long age = isQuota() ? 0 : some.toMillis();
                granted(some.permits(), usage.reply().at() - age, seen.life());
            }
        }
        keepToShare(reconciliation.permits());
        long isAhead = usage == null ? 0 : usage.reply().at() - now();
        storeAhead = chargedSince < once.since() ? Math.min(storeAhead, isAhead) : isAhead;
        RefundCharged refund = once.refunded() == 0 ? null : chargedRefund(once.refundedFrom(), once.refunded());
        if (refund != null) {
            seen = seen.withoutCharged(limit(), once.refunded());
        }
        return refund;
    }

    /** After an outage, keeps to the share of this instance for a while. */
    private void keepToShare(long handedOver) {
        // Once for each outage: the charges of denied requests go on.
        boolean isLimited = localShare() < 1 && limit().takesPermits();
        if (isLimited && now() >= sharedUntil + LONGEST_SHARED && isAfterOutage()) {
            long own = Math.min(handedOver, seen.used());
            sharedLeft = ownShare(seen.used() - own) - own;
            sharedFrom = now();
            sharedUntil = now() + Math.min(LONGEST_SHARED, limit().window().toMillis());
        }
    }

    @Override
    void notCharged(Reconciliation reconciliation) {
        if (pending != null && isInFlight(reconciliation)) {
            returnedUntil = Math.max(returnedUntil, pending.until());
            pending = null;
            chargedSince = openSince();
        }
    }
}
