package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.Count;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.fleet.Instances;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.time.InstantSource;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The ledger of one count while the primary store may be down: what the primary store has confirmed, what this instance
 * has granted itself, and which of these grants are being reconciled.
 *
 * <p>This class has what all limits have in common: the share of the instance, open calls and resets, and the place in
 * the outbox. {@link RateLedger} is for rate limits, {@link HoldLedger} for concurrency limits.
 */
public abstract class Ledger extends Count implements DeliverySource<Reconciliation> {

    private final HandOvers handOvers;
    private final OutageShare share;
    private final Instances.@Nullable Group instances;

    /** The epoch in which this was created. */
    private final long born;

    /** How many granted permits are to be reconciled, including those that have expired since. */
    private long toReconcile;

    /** The epoch since which grants are here. Earlier ones are in flight, or were charged or lost. */
    private long openSince;

    /** Whether this waits for its turn in the outbox. */
    private boolean isQueued;

    /** Whether it waits for it before others. */
    private boolean isUrgent;

    /** How many calls on this count the primary store may still execute. Until they end, nothing is handed over. */
    private int openCalls;

    /** How many resets of this instance it may still execute; the same applies. */
    private int resets;

    /** A hand-over that was executed in a life that is lost since, and is to be made again. */
    private @Nullable Reconciliation toRepeat;

    /** Whether the primary store cannot charge the grants in flight, because another program has written the key. */
    private boolean isForeign;

    /** The first claim under the present limit. Not the newest one: its identity would be in memory a second time. */
    private Claim claim;

    /** Its limit. A claim of its own is seldom in the caches of the processor. */
    private Limit limit;

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
        this.limit = claim.limit();
        this.handOvers = handOvers;
        this.share = share;
        this.instances = instances;
        this.born = handOvers.nextEpoch();
        this.openSince = born;
    }

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            this.claim = claim;
            limit = claim.limit();
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

    /** Returns the limit in its present form. */
    final Limit limit() {
        return limit;
    }

    // The share.

    /**
     * Returns the share of the limit that this instance may grant, for the decision that begins now. It does not rise
     * before all grants are charged, those of others too: at the end of an outage, the store knows the use of those
     * instances that are back.
     */
    public final double share() {
        double present = share.of(limit, instances == null ? 1 : instances.number(), use());
        boolean mayRise = share.fixed().isPresent() || (toReconcile == 0 && !isInFlight() && !keepsToShare());
        localShare = mayRise ? present : Math.min(localShare, present);
        return localShare;
    }

    /** Returns whether this instance keeps to its share because other instances may be about to reconcile. */
    boolean keepsToShare() {
        return false;
    }

    /** Returns the use that the primary store has last reported. */
    abstract OutageShare.Use use();

    /** Returns the last share. */
    final double localShare() {
        return localShare;
    }

    // The replies of the primary store, and what they change.

    /**
     * Records a reply of the primary store to a request, and returns whether a request that it allows fits together
     * with the local grants. Replies may arrive in any order.
     *
     * @param isCharged whether the primary store has charged the request
     * @param sentAt when the request was sent
     */
    public abstract boolean confirm(StoreUsage usage, boolean isCharged, long sentAt);

    /**
     * Refunds permits of a decision of the fallback.
     *
     * @param granted the decision; its stamp is its epoch
     * @return those that must be refunded in the primary store now, because it has charged them; null if there are
     *     none. Those in flight are returned by {@link #charged}
     */
    public abstract @Nullable RefundCharged refundGrant(Reply granted, long permits);

    /**
     * Cancels permits that were granted at a time, because the primary store has charged the same request after all.
     *
     * @return how many of them a refund without a decision had refunded here already
     */
    public abstract long cancelGrant(long takenAt, long permits);

    // Resets, and calls without a reply.

    /**
     * Forgets all permits.
     *
     * @return takes them again, because they were not reset after all
     */
    abstract Runnable forget();

    /** Forgets a reply from before the reset that ends now, which may have arrived since the reset began. */
    abstract void forgetEarlierReplies();

    @Override
    public final void clear() {
        Runnable unused = forget();
    }

    /**
     * Begins a reset. Nothing is handed over until it has ended: it could remove the charges of later grants.
     *
     * @return a function that ends it; its argument is whether it took place; only the first call counts
     */
    public final Consumer<Boolean> beginReset() {
        Runnable undo = forget();
        noteReset(handOvers.nextEpoch());
        resets++;
        AtomicBoolean hasEnded = new AtomicBoolean();
        return isReset -> {
            if (hasEnded.compareAndSet(false, true)) {
                endReset(isReset ? this::forgetEarlierReplies : undo);
            }
        };
    }

    private synchronized void endReset(Runnable end) {
        advanceToPresent();
        resets--;
        end.run();
    }

    /** Returns whether a reset of this instance may remove what the primary store has charged. */
    final boolean isBeingReset() {
        return resets > 0;
    }

    /** Notes a call that the primary store may still execute. */
    public final void beginCall() {
        openCalls++;
    }

    /** Notes that such a call has ended. */
    public final void endCall() {
        // It may have begun in a ledger that was evicted since.
        openCalls = Math.max(0, openCalls - 1);
    }

    /** Returns whether the primary store may still execute a call. */
    public final boolean isUnanswered() {
        return openCalls > 0 || resets > 0;
    }

    // The grants that are to be handed over.

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
        enqueue();
    }

    /** Adds this to the outbox. */
    final void enqueue() {
        if (!isQueued && !isEvicted() && handOvers.isBound()) {
            isQueued = true;
            handOvers.store().add(this);
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
     * are delivered soon.
     */
    public final boolean mustBeHandedOver() {
        boolean must = toReconcile > 0 || hasMore() || isInFlight();
        if (must && !isUrgent && isQueued) {
            isUrgent = true;
            handOvers.store().moveToFront(this);
        }
        if (must) {
            handOvers.store().wakeNode(this);
        }
        return must;
    }

    private String source() {
        return handOvers.source(born);
    }

    /** Returns the epoch since which grants are here. */
    final long openSince() {
        return openSince;
    }

    /** Returns whether the node of this count was down lately. */
    final boolean isAfterOutage() {
        return handOvers.store().isAfterOutage(claim);
    }

    /** Returns whether the grants in flight cannot be charged, because another program has written the key. */
    public final boolean isForeign() {
        return isForeign;
    }

    // The hand-over, by the kind of the limit.

    /** Returns whether there is something to hand over besides grants. */
    boolean hasMore() {
        return false;
    }

    /** Returns whether grants were handed over, and it is not known yet whether they are charged. */
    abstract boolean isInFlight();

    /** Returns whether these grants are in flight. */
    abstract boolean isInFlight(Reconciliation reconciliation);

    /** Returns the grants to hand over; null if none of them counts any more. */
    abstract @Nullable Reconciliation reconciliation(String source, long number);

    /**
     * Notes that the grants are in flight.
     *
     * @param since the first epoch of these grants
     */
    abstract void handOver(Reconciliation reconciliation, long since);

    /**
     * Returns the hand-over in flight under another number, because it was executed in a life that is lost since; null
     * if there is none.
     */
    @Nullable
    Reconciliation repeatAs(long number) {
        return null;
    }

    /** Records the reply to a hand-over, and returns whether it is of the present life of the count. */
    boolean recordReply(StoreUsage usage, long sentAt) {
        return true;
    }

    /**
     * Notes that the primary store has charged a reconciliation.
     *
     * @return the permits that must be refunded in the primary store now, because they were refunded while in flight;
     *     null if there are none
     */
    abstract @Nullable RefundCharged charged(Reconciliation reconciliation, Corrected result);

    /** Notes that the primary store cannot charge a reconciliation. */
    abstract void notCharged(Reconciliation reconciliation);

    /** Notes that the table has evicted this count, and what it was to reconcile is lost. */
    public final void evicted(long time) {
        if (toReconcile > 0) {
            advanceTo(time);
            handOvers.lost(Math.min(toReconcile, recorded()));
        }
        forgetGrants();
    }

    // For the outbox, which does not hold the monitor.

    @Override
    public final synchronized boolean isEmpty() {
        return toRepeat == null && (isEvicted() || (toReconcile == 0 && !hasMore()));
    }

    @Override
    public final synchronized boolean isHeld() {
        return toRepeat == null && !isEmpty() && (isInFlight() || isUnanswered());
    }

    @Override
    public final boolean isAlone() {
        return true;
    }

    @Override
    public final synchronized @Nullable HandOver take() {
        if (isHeld()) {
            // Since it was asked.
            handOvers.store().add(this);
            return null;
        }
        isQueued = false;
        isUrgent = false;
        advanceToPresent();
        if (toRepeat != null) {
            return repeat(toRepeat);
        }
        if (isEmpty()) {
            return null;
        }
        // Not the epoch of the first grant: a hand-over that was repeated since has a higher number than that.
        long number = handOvers.nextEpoch();
        Reconciliation reconciliation = reconciliation(source(), number);
        if (reconciliation == null) {
            forgetGrants();
            return null;
        }
        handOver(reconciliation, openSince);
        openSince = number;
        // Those that have expired since need not be reconciled.
        handOvers.granted(reconciliation.permits() - toReconcile);
        toReconcile = 0;
        return new HandOver(this, reconciliation);
    }

    private @Nullable HandOver repeat(Reconciliation before) {
        toRepeat = null;
        Reconciliation again = isInFlight(before) ? repeatAs(handOvers.nextEpoch()) : null;
        // Without those that were refunded since.
        handOvers.removed(before.permits() - (again == null ? 0 : again.permits()));
        if (!isEmpty()) {
            enqueue();
        }
        return again == null ? null : new HandOver(this, again);
    }

    private void advanceToPresent() {
        advanceTo(clock().millis());
    }

    /** Returns whether any permits of a message still count: they have not left the window or, of a counter, both. */
    final boolean counts(Reconciliation message) {
        // Grants of a quota have the end of their period, on the store's clock.
        long last = message.claim().limit() instanceof Limit.Quota
                ? clock().millis() + handOvers.storeAhead()
                : clock().millis() - LimitKind.reach(message.claim().limit());
        return counts(message.grants(), last) || message.lost().stream().anyMatch(some -> counts(some.grants(), last));
    }

    private static boolean counts(List<Grants> some, long last) {
        return !some.isEmpty() && some.get(some.size() - 1).toMillis() > last;
    }

    /** Returns whether these grants count here, and the result is not known. */
    final synchronized boolean awaits(Reconciliation reconciliation) {
        return isInFlight(reconciliation) && !(isForeign && isEvicted());
    }

    final synchronized void refused(Reconciliation reconciliation) {
        if (isInFlight(reconciliation)) {
            isForeign = true;
            handOvers.store().reportForeign(claim);
        }
    }

    /** Ends a hand-over that will not be charged. */
    final void lost(Reconciliation reconciliation, String why) {
        long lost = ended(reconciliation, null, 0);
        if (lost > 0) {
            handOvers.store().reportLost(lost, why);
        }
    }

    /**
     * Ends a hand-over.
     *
     * @param result the result in the primary store; null if the grants cannot be charged
     * @param sentAt when it was last sent
     * @return how many permits are lost that still count
     */
    final long ended(Reconciliation reconciliation, @Nullable Corrected result, long sentAt) {
        RefundCharged refund = null;
        boolean isCharged;
        boolean isLost;
        synchronized (this) {
            advanceToPresent();
            isForeign = false;
            StoreUsage usage = result == null ? null : result.usage();
            boolean isOfLostLife = usage != null && !recordReply(usage, sentAt) && isInFlight(reconciliation);
            if (isOfLostLife && !isEvicted()) {
                toRepeat = reconciliation;
                enqueue();
                return 0;
            }
            isCharged = result != null && !isOfLostLife;
            // Those that a reset has removed are not lost.
            isLost = !isCharged && isInFlight(reconciliation) && counts(reconciliation);
            if (result == null || isOfLostLife) {
                notCharged(reconciliation);
            } else {
                refund = charged(reconciliation, result);
            }
        }
        long lost = isLost ? reconciliation.permits() : 0;
        if (isCharged) {
            handOvers.charged(reconciliation.permits());
            if (!reconciliation.lost().isEmpty()) {
                handOvers.store().reportRestored();
            }
        } else {
            handOvers.removed(reconciliation.permits());
            handOvers.lost(lost);
        }
        if (refund != null) {
            handOvers.store().refund(refund);
        }
        return lost;
    }
}
