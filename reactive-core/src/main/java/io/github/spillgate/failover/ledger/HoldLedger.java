package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.HoldCount;
import io.github.spillgate.internal.fleet.Instances;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The ledger of a concurrency limit: what this instance holds, whichever store has granted it. */
public final class HoldLedger extends Ledger {
    // Design notes.
    //
    // A hold has the same id in both stores. So a request that both of them have granted holds its permits once, and
    // nothing has to be cancelled.
    //
    //   own            what this instance holds. It expires here a little later than in the primary store
    //   unreconciled   those of them that the fallback has granted or renewed, so that the primary store may not know
    //                  them
    //   in flight      those that are being reconciled
    //   others         what other instances hold, as of the last reply of the primary store
    //
    // The fallback grants permits as long as what this instance holds stays within its share, and at least one. Holds
    // that the primary store knows count in full: they are still in use. If the share is 1, there are no other
    // instances, and what others held until they ended counts until it expires.
    //
    // While there are unreconciled holds, the fallback decides (StoreCall). A reply of the primary store that arrives
    // in spite of that is without them, so they are added to it. When the primary store has learned of them, an older
    // reply may still arrive. So for as long as that is possible, what is held here must fit together with the reply's
    // own permits.
    //
    // Permits that the primary store has granted are held from their reply on, even if the decision has other limits
    // that do not fit. The request is then decided by the fallback under the same id, or its hold is released.

    /**
     * Replies arrive out of order by at most the time for which late replies are accepted. If one is older than that,
     * the server's clock was set back.
     */
    private static final long OUT_OF_ORDER = 61_000;

    private final HoldCount own = new HoldCount();
    private final Map<UUID, Claim> unreconciled = new LinkedHashMap<>();
    private @Nullable Reconciliation inFlight;

    /** The claim of the present step. */
    private Claim current;

    // As of the newest reply.

    private long repliedAt;
    private long reported;
    private long reportedOwn;
    private long othersUntil;

    /** Until when a reply may be without holds of which the primary store has learned since. */
    private long staleUntil;

    public HoldLedger(Claim claim, HandOvers handOvers, OutageShare share, Instances.@Nullable Group instances) {
        super(claim, handOvers, share, instances);
        this.current = claim;
    }

    @Override
    public void advance(Claim claim, long now) {
        super.advance(claim, now);
        own.advance(claim, now);
        current = claim;
        othersUntil = Math.min(othersUntil, now + Limit.LONGEST_HOLD.toMillis());
        staleUntil = Math.min(staleUntil, now + HoldCount.TOMBSTONE_LIFE);
    }

    @Override
    OutageShare.Use use() {
        return new OutageShare.Use((double) reportedOwn, (double) reported, 0);
    }

    // The decision of the fallback.

    @Override
    public boolean fits(long cost) {
        return own.fits(cost + others());
    }

    private long others() {
        return localShare() < 1 || now() >= othersUntil ? 0 : Math.max(0, reported - reportedOwn);
    }

    @Override
    public long fitsAt(long cost) {
        return own.fitsAt(cost + others());
    }

    @Override
    public long used() {
        return own.used() + others();
    }

    @Override
    public long wholeAt() {
        return others() > 0 ? Math.max(own.wholeAt(), othersUntil) : own.wholeAt();
    }

    @Override
    public void take(long cost) {
        UUID id = current.holdId();
        if (id != null && !own.isHeld(id)) {
            own.take(cost);
            addUnreconciled(id, cost);
        }
    }

    private void addUnreconciled(UUID id, long permits) {
        if (!unreconciled.containsKey(id) && !isInFlight(id)) {
            unreconciled.put(id, current.withPermits(permits));
            addToReconcile(permits);
        }
    }

    private boolean isInFlight(UUID id) {
        return inFlight != null && inFlight.holds().stream().anyMatch(claim -> id.equals(claim.holdId()));
    }

    private void reconciled(UUID id) {
        Claim claim = unreconciled.remove(id);
        if (claim != null) {
            removeToReconcile(claim.permits());
            noteStaleReplies();
        }
    }

    /** Notes that the primary store knows holds that were not in its earlier replies. */
    private void noteStaleReplies() {
        staleUntil = now() + HoldCount.TOMBSTONE_LIFE;
    }

    // Holds.

    @Override
    public void release() {
        UUID id = current.holdId();
        if (id != null) {
            boolean mayStillArrive = unreconciled.containsKey(id) || isInFlight(id);
            own.release();
            if (mayStillArrive) {
                // Leaves a tombstone, so that a late reply of the primary store does not count it again.
                own.release();
            }
            reconciled(id);
            if (inFlight != null) {
                inFlight.holds().removeIf(claim -> id.equals(claim.holdId()));
            }
        }
    }

    /** Renews the hold of the claim, which the primary store cannot. */
    public HoldRenewal.RenewalOutcome renew() {
        UUID id = current.holdId();
        HoldRenewal.RenewalOutcome outcome = own.renew(current.permits());
        if (id != null && own.isHeld(id)) {
            addUnreconciled(id, current.permits());
        }
        return outcome;
    }

    /** Notes that the primary store has renewed the hold of the claim. */
    public void renewedInPrimary() {
        UUID id = current.holdId();
        if (id != null) {
            own.renew(current.permits());
            reconciled(id);
        }
    }

    // The replies of the primary store.

    @Override
    public boolean confirm(StoreUsage usage, boolean isCharged, long sentAt) {
        Claim claim = usage.claim();
        UUID id = isCharged && claim.permits() > 0 ? claim.holdId() : null;
        boolean fits = id == null || fits(usage, id);
        boolean isNew = id != null && fits && !own.isHeld(id);
        report(usage, usage.reply().at(), isNew ? claim.permits() : 0);
        if (id != null && fits) {
            own.take(claim.permits());
        }
        return fits;
    }

    private void report(StoreUsage usage, long at, long added) {
        if (at >= repliedAt || repliedAt - at >= OUT_OF_ORDER) {
            repliedAt = at;
            reported = usage.used();
            reportedOwn = own.used() - heldOf(unreconciled.values()) + added;
            othersUntil = now() + Math.max(0, usage.wholeAtMillis() - at);
        }
    }

    /** Returns whether permits that the primary store has granted fit together with what it does not know. */
    private boolean fits(StoreUsage usage, UUID id) {
        if (own.isHeld(id)) {
            return true;
        }
        long permits = usage.limit().permits();
        long free = permits - usage.used() - heldOf(unreconciled.values());
        boolean mayBeStale = now() < staleUntil;
        if (free < 0 || (mayBeStale && own.used() + usage.claim().permits() > permits)) {
            return false;
        }
        return inFlight == null || free >= heldOf(inFlight.holds());
    }

    private long heldOf(Iterable<Claim> claims) {
        long permits = 0;
        for (Claim claim : claims) {
            UUID id = claim.holdId();
            permits += id != null && own.isHeld(id) ? claim.permits() : 0;
        }
        return permits;
    }

    /** {@inheritDoc} A hold is released by its id, and by nothing else. */
    @Override
    @Nullable
    public RefundCharged refundGrant(Reply granted, long permits) {
        return null;
    }

    /** Both stores have granted it, under one id. */
    @Override
    public long cancelGrant(long takenAt, long permits) {
        UUID id = current.holdId();
        if (id != null) {
            reconciled(id);
        }
        return 0;
    }

    // Reconciliation.

    @Override
    @Nullable
    Reconciliation reconciliation(String source, long number) {
        List<Claim> holds = unreconciled.entrySet().stream()
                .filter(hold -> own.isHeld(hold.getKey()))
                .map(Map.Entry::getValue)
                // Some may be released while it is being sent.
                .collect(Collectors.toCollection(CopyOnWriteArrayList::new));
        return holds.isEmpty() ? null : Reconciliation.ofHolds(source, number, claim(), holds, clock());
    }

    @Override
    boolean isInFlight() {
        return inFlight != null;
    }

    @Override
    boolean isInFlight(Reconciliation reconciliation) {
        return inFlight == reconciliation;
    }

    @Override
    void handOver(Reconciliation reconciliation, long since) {
        unreconciled.clear();
        inFlight = reconciliation;
    }

    @Override
    @Nullable
    RefundCharged charged(Reconciliation reconciliation, Corrected result) {
        landed(reconciliation);
        return null;
    }

    @Override
    void notCharged(Reconciliation reconciliation) {
        landed(reconciliation);
    }

    private void landed(Reconciliation reconciliation) {
        if (isInFlight(reconciliation)) {
            inFlight = null;
            noteStaleReplies();
        }
    }

    @Override
    void forgetGrants() {
        unreconciled.clear();
        super.forgetGrants();
    }

    /** {@inheritDoc} If the reset does not take place, the next renewals restore what is held. */
    @Override
    Runnable forget() {
        forgetGrants();
        own.clear();
        inFlight = null;
        reported = 0;
        reportedOwn = 0;
        return () -> {};
    }

    @Override
    void forgetEarlierReplies() {}

    @Override
    public long recorded() {
        return own.used();
    }
}
