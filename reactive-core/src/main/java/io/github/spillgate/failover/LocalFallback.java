package io.github.spillgate.failover;

import io.github.spillgate.StoreState;
import io.github.spillgate.failover.ledger.HandOvers;
import io.github.spillgate.failover.ledger.HoldLedger;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.failover.ledger.OutageShare;
import io.github.spillgate.failover.ledger.RateLedger;
import io.github.spillgate.failover.ledger.Snapshot;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.internal.fleet.Instances;
import io.github.spillgate.local.CountTable;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * A fallback that limits requests in the memory of this process while the primary store does not answer.
 *
 * <p>It starts from the usage of each count that the primary store last reported, and records what it grants. A {@link
 * ResilientStore} charges these grants in the primary store afterwards. Use it as the fallback of one store.
 *
 * <p>If several instances fall back at the same time, each of them grants its {@linkplain #share(double) share} of each
 * limit.
 *
 * <p>Its memory is bounded, with the same behaviour at the bound as {@link io.github.spillgate.local.LocalStore
 * LocalStore}. A count takes about 800 bytes of heap.
 */
public final class LocalFallback implements LimitStore {

    private final CountTable<Ledger> ledgers;
    private final HandOvers handOvers;
    private final OutageShare share = new OutageShare();
    private volatile @Nullable Primary primary;

    /**
     * Creates a fallback.
     *
     * @param maximumCounts the highest number of counts
     * @param clock the clock
     */
    LocalFallback(int maximumCounts, InstantSource clock) {
        handOvers = new HandOvers(clock, this::nextEpoch);
        ledgers = new CountTable<>(
                maximumCounts, clock, this::newLedger, Ledger::share, ledger -> ledger.evicted(clock.millis()));
    }

    private long nextEpoch() {
        return ledgers.nextEpoch();
    }

    private Ledger newLedger(Claim claim) {
        Primary bound = primary;
        Instances.Group group = bound == null ? null : bound.instances.of(claim.limiter());
        return claim.limit().holdsPermits()
                ? new HoldLedger(claim, handOvers, share, group)
                : new RateLedger(claim, handOvers, share, group);
    }

    /**
     * Sets the share of each limit that this instance may grant during an outage: a quarter, if there are four
     * instances. It can be changed at any time, and applies from the next decision on. A share of less than one permit
     * is rounded up to one. Permits that other instances use are subtracted in proportion to the share; permits that
     * this instance itself has granted count in full.
     *
     * <p>By default, the share follows from the use of each count: it is about the part that this instance has used of
     * it, and an equal part for each instance of the limiter if the count was not in use. For this, the instances
     * register in the primary store every 5 s. A single instance has a share of 1, and so has one that has not reached
     * the primary store since it was started.
     *
     * <p>In a decision, the remaining permits are those that this instance may still grant; the rest of the limit is
     * reported as used.
     *
     * @param share more than 0, and at most 1
     * @return this fallback
     * @throws IllegalArgumentException if the share is out of range
     */
    public LocalFallback share(double share) {
        this.share.set(share);
        return this;
    }

    /**
     * Returns the share of each limit that was set for this instance.
     *
     * @return the share; empty, by default, if it follows from the use of each count
     */
    public OptionalDouble share() {
        return share.fixed();
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        return switch (request.mode()) {
            case PEEK -> ledgers.peek(request.claims());
            case TAKE -> ledgers.take(request.claims());
            case LEASE -> Mono.empty();
        };
    }

    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return Mono.fromCallable(() -> corrections.stream().map(this::correct).toList());
    }

    private Corrected correct(Correction correction) {
        if (correction instanceof Refund refund) {
            refundGrant(refund);
        } else if (correction instanceof Settlement settlement) {
            settleGrant(settlement);
        } else if (correction instanceof RefundOldest || correction instanceof RefundCharged) {
            refundOldest(correction.claim());
        } else if (correction instanceof Reconciliation ban
                && !ban.claim().limit().takesPermits()) {
            change(ban.claim(), ledger -> ((RateLedger) ledger).ban(ban.agesToSend()));
        } else {
            return Corrected.of(CorrectionOutcome.UNSUPPORTED);
        }
        return Corrected.of(CorrectionOutcome.APPLIED);
    }

    /** Refunds the oldest permits of a count, while the primary store cannot be asked. */
    void refundOldest(Claim claim) {
        ofRate(claim, ledger -> ledger.refundOldest(claim.permits()));
    }

    /** Releases holds, or renews them, to be reconciled. */
    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return Mono.fromCallable(() -> {
            if (action == HoldAction.RELEASE) {
                releaseHolds(holds);
                return HoldRenewal.released(holds);
            }
            return holds.stream()
                    .map(claim -> new HoldRenewal(
                            claim,
                            Objects.requireNonNull(
                                    ledgers.apply(claim, true, ledger -> ((HoldLedger) ledger).renew()))))
                    .toList();
        });
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return Mono.fromRunnable(() -> beginReset(claims).accept(true));
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }

    @Override
    public StoreState state() {
        return handOvers.state();
    }

    // For the store that falls back to this one. All methods below work in memory and return at once.

    /**
     * Makes this store the fallback of a primary store.
     *
     * @param way the way of grants to it
     * @throws IllegalArgumentException if it already is the fallback of a store
     */
    synchronized void bindTo(LimitStore store, HandOvers.Store way) {
        Primary before = primary;
        if (before != null) {
            throw new IllegalArgumentException("this fallback is already in use for " + before.store
                    + ": expected another one, for example Fallback.local(100_000), or one ResilientStore that"
                    + " several limiters share");
        }
        handOvers.bindTo(way);
        primary = new Primary(store, Fleet.of(store).instances());
    }

    // Replies of the primary store.

    /**
     * Records a reply of the primary store. Call this before an allowed decision is passed on, and pass it on only if
     * it fits.
     *
     * @param sentAt when the request was sent
     * @return whether it fits under all limits; then it is {@linkplain #grantedInPrimary noted}. Always true for a
     *     decision that charged nothing
     */
    boolean confirm(StoreDecision decision, long sentAt) {
        // A single count that fits is granted in the same step, which saves a lookup.
        boolean isAlone = decision.isCharged() && decision.usages().size() == 1;
        boolean fits = true;
        for (StoreUsage usage : decision.usages()) {
            fits &= confirm(usage.inStore(), decision.isCharged(), sentAt, isAlone);
        }
        if (!decision.isCharged()) {
            return true;
        }
        if (fits && !isAlone) {
            grantedInPrimary(decision);
        }
        return fits;
    }

    /** Records a reply of which it is not known when its request was sent. */
    boolean confirm(StoreDecision decision) {
        return confirm(decision, Snapshot.NOT_KNOWN);
    }

    private boolean confirm(StoreUsage usage, boolean isCharged, long sentAt, boolean isGrantedIfFits) {
        Claim claim = usage.claim();
        Boolean fits = ledgers.apply(claim, usage.used() > 0, ledger -> {
            boolean fitsHere = ledger.confirm(usage, isCharged, sentAt);
            if (isGrantedIfFits && fitsHere && ledger instanceof RateLedger rate) {
                rate.grantedInPrimary(usage);
            }
            return fitsHere;
        });
        if (usage.isViolated()) {
            long wait = usage.wholeAtMillis() - usage.reply().at();
            ledgers.protect(claim, ledgers.now() + wait);
        }
        return !Boolean.FALSE.equals(fits);
    }

    /** Notes that a decision of the primary store was granted to this instance after all. */
    void grantedInPrimary(StoreDecision decision) {
        for (StoreUsage usage : decision.usages()) {
            ofRate(usage.claim(), ledger -> ledger.grantedInPrimary(usage.inStore()));
        }
    }

    /** Returns whether the primary store still has what a decision of it has charged, and no reset may remove it. */
    boolean isInPresentLives(StoreDecision decision) {
        return decision.usages().stream().allMatch(this::isInPresentLife);
    }

    /** Returns the same for one of its counts. */
    boolean isInPresentLife(StoreUsage usage) {
        return !Boolean.FALSE.equals(ledgers.apply(
                usage.claim(),
                false,
                ledger -> !(ledger instanceof RateLedger rate) || rate.isPresentLife(usage.life())));
    }

    /** Records what the primary store has settled: an additional cost is charged even if it does not fit. */
    void settled(Corrected result) {
        StoreUsage usage = result.usage();
        if (usage != null) {
            StoreDecision charged = StoreDecision.ofTake(usage.reply(), List.of(usage));
            if (!confirm(charged)) {
                grantedInPrimary(charged);
            }
        }
    }

    // Decisions of this store.

    /**
     * Refunds permits of a decision of this store.
     *
     * @return the permits that must be refunded in the primary store now, because it has charged them; null if there
     *     are none. Those in flight are returned by {@link Ledger#charged}
     */
    @Nullable
    RefundCharged refundGrant(Refund one) {
        return refundGrant(one, one.claim().permits());
    }

    private @Nullable RefundCharged refundGrant(Correction.OfDecision one, long permits) {
        Reply reply = one.usage().reply();
        return ofGrant(reply, one.claim(), false, ledger -> ledger.refundGrant(reply, permits));
    }

    /**
     * Settles the cost of a decision of this store.
     *
     * @return the permits that must be refunded in the primary store now, as from {@link #refundGrant}; null if there
     *     are none
     */
    @Nullable
    RefundCharged settleGrant(Settlement one) {
        if (one.toCharge() == 0) {
            return refundGrant(one, one.toRefund());
        }
        return ofGrant(one.usage().reply(), one.claim(), true, ledger -> {
            ledger.takeBeyond(one.toCharge(), one.most());
            return null;
        });
    }

    /** Notes that the primary store may still decide on a request: until then, its counts are not handed over. */
    void beginCall(List<Claim> claims) {
        claims.forEach(claim -> change(claim, Ledger::beginCall));
    }

    /** Notes that it is known what the primary store has decided. */
    void endCall(List<Claim> claims) {
        claims.forEach(claim -> ledgers.update(claim, Ledger::endCall));
    }

    /** Returns whether the primary store may still decide on a request for one of these counts. */
    boolean isUnanswered(List<Claim> claims) {
        return claims.stream()
                .anyMatch(claim -> Boolean.TRUE.equals(ledgers.apply(claim, false, Ledger::isUnanswered)));
    }

    /**
     * Cancels grants of this store, because the primary store has charged the same request after all.
     *
     * @param decision a decision of which nothing has been handed over
     * @param claims the permits to cancel
     * @return a claim for each count with the permits that must be refunded in the primary store, because a refund
     *     without a decision had already refunded them here
     */
    List<Claim> cancelGrants(StoreDecision decision, List<Claim> claims) {
        Reply reply = decision.reply();
        List<Claim> refunded = new ArrayList<>();
        for (Claim claim : claims) {
            Long permits = ofGrant(reply, claim, false, ledger -> ledger.cancelGrant(reply.at(), claim.permits()));
            if (permits != null && permits > 0) {
                refunded.add(claim.withPermits(permits));
            }
        }
        return refunded;
    }

    /**
     * Refunds permits that were granted here and not handed over, the oldest first.
     *
     * @return a claim for each count with the permits that could not be refunded here
     */
    List<Claim> refundOldestGrants(List<Claim> claims) {
        List<Claim> rest = new ArrayList<>();
        for (Claim claim : claims) {
            AtomicLong left = new AtomicLong(claim.permits());
            ofRate(claim, ledger -> left.addAndGet(-ledger.refundOldestGranted(claim.permits())));
            if (left.get() > 0) {
                rest.add(claim.withPermits(left.get()));
            }
        }
        return rest;
    }

    /**
     * Begins to reset counts.
     *
     * @return a function that ends the reset; its argument is whether that took place
     */
    Consumer<Boolean> beginReset(List<Claim> claims) {
        List<Consumer<Boolean>> ends = new ArrayList<>();
        for (Claim claim : claims) {
            // Also if nothing is known yet: the first reply, from before the reset, may be in flight.
            change(claim, ledger -> ends.add(ledger.beginReset()));
        }
        return isReset -> ends.forEach(end -> end.accept(isReset));
    }

    // Decisions of the primary store.

    /**
     * Subtracts what is refunded of a decision of the primary store from the confirmed usage. Call this before that is
     * asked.
     */
    void refundConfirmed(Correction.OfDecision one, long permits) {
        StoreUsage usage = one.usage();
        ofRate(
                one.claim(),
                ledger -> ledger.refundConfirmed(permits, usage.reply().at(), usage.life()));
    }

    /** Refunds here what {@link #refundGrant} has returned, because the primary store cannot be asked. */
    void refundCharged(RefundCharged permits) {
        ofRate(permits.claim(), ledger -> ledger.refundCharged(permits));
    }

    /** Notes that a decision of the primary store is refunded there. Call this before that is asked. */
    void refundedInPrimary(Refund one) {
        StoreUsage usage = one.usage();
        long permits = one.claim().permits();
        ofRate(
                one.claim(),
                ledger -> ledger.refundedInPrimary(permits, usage.reply().at(), usage.life()));
    }

    /** Notes that the oldest permits are refunded in the primary store. Call this before that is asked. */
    void refundedOldestInPrimary(List<Claim> claims) {
        claims.forEach(claim -> ofRate(claim, ledger -> ledger.refundedOldestInPrimary(claim.permits())));
    }

    /** Grants the additional cost of a decision of the primary store, which cannot be asked. */
    void takeBeyond(Settlement one) {
        change(one.claim(), ledger -> ledger.takeBeyond(one.toCharge(), one.most()));
    }

    // Reconciliation.

    /** Returns whether no grants are to be reconciled, neither here nor in flight. */
    boolean isReconciled() {
        return handOvers.isEmpty();
    }

    /**
     * Returns whether the primary store must not decide on these counts, because it would grant permits that are in
     * use. Their grants are then handed over soon.
     */
    boolean mustHandOver(List<Claim> claims) {
        boolean must = false;
        for (Claim claim : claims) {
            must |= Boolean.TRUE.equals(ledgers.apply(claim, false, Ledger::mustBeHandedOver));
        }
        return must;
    }

    /** Returns whether this instance may take these permits, soon after an outage. */
    boolean haveShare(List<Claim> claims) {
        boolean haveShare = true;
        for (Claim claim : claims) {
            haveShare &= !Boolean.FALSE.equals(ledgers.apply(
                    claim, false, ledger -> !(ledger instanceof RateLedger rate) || rate.hasShare(claim.permits())));
        }
        return haveShare;
    }

    /** Returns whether grants on one of these counts cannot be charged, because another program has written its key. */
    boolean cannotHandOver(List<Claim> claims) {
        return claims.stream().anyMatch(claim -> Boolean.TRUE.equals(ledgers.apply(claim, false, Ledger::isForeign)));
    }

    // Holds.

    /** Releases holds here. Call this before the primary store is asked. */
    void releaseHolds(List<Claim> holds) {
        for (Claim claim : holds) {
            change(claim, Ledger::release);
        }
    }

    /** Notes that the primary store has renewed holds, so that it knows them. */
    void renewedInPrimary(List<HoldRenewal> renewals) {
        for (HoldRenewal renewal : renewals) {
            if (renewal.outcome() == HoldRenewal.RenewalOutcome.RENEWED
                    || renewal.outcome() == HoldRenewal.RenewalOutcome.RESTORED) {
                change(renewal.claim(), ledger -> ((HoldLedger) ledger).renewedInPrimary());
            }
        }
    }

    // The ledger of a claim.

    /** Changes the ledger of a claim, and creates it if there is none. */
    private void change(Claim claim, Consumer<Ledger> change) {
        ledgers.apply(claim, true, ledger -> {
            change.accept(ledger);
            return true;
        });
    }

    /** Changes the ledger of a rate limit, if there is one. A hold is released by its id, and by nothing else. */
    private void ofRate(Claim claim, Consumer<RateLedger> change) {
        ledgers.update(claim, ledger -> {
            if (ledger instanceof RateLedger rate) {
                change.accept(rate);
            }
        });
    }

    /** Changes the ledger of a grant of this store, unless the count was reset since. */
    private <T> @Nullable T ofGrant(Reply granted, Claim claim, boolean create, Function<Ledger, T> change) {
        return ledgers.apply(
                claim, create, ledger -> ledger.isResetSince(granted.stamp()) ? null : change.apply(ledger));
    }

    /** Returns the ledgers, for tests. */
    CountTable<Ledger> ledgers() {
        return ledgers;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "LocalFallback";
    }

    /** The store that falls back to this one, and its instances. */
    private record Primary(LimitStore store, Instances instances) {}
}
