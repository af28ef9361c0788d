package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.lease.DenialCache;
import io.github.spillgate.failover.lease.Leases;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.internal.fleet.Instances;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * The permits that the fallback has granted instead of the primary store, and their reconciliation. If the fallback is
 * no {@link LocalFallback}, its grants are only counted, as lost to the primary store.
 */
final class LocalGrants implements Leases.Charges {

    private final LimitStore primary;
    private final Instances instances;
    private final @Nullable Local local;
    private final CircuitGates gates;
    private final DenialCache denials;
    private final Releases releases;
    private final LongAdder unknown = new LongAdder();
    private final LongAdder lost = new LongAdder();

    LocalGrants(LimitStore primary, LimitStore fallback, CircuitGates gates, DenialCache denials) {
        this.primary = primary;
        this.instances = Fleet.of(primary).instances();
        this.gates = gates;
        this.denials = denials;
        this.releases = new Releases(primary, gates);
        this.local = fallback instanceof LocalFallback recording ? bind(recording) : null;
    }

    private Local bind(LocalFallback recording) {
        GrantOutbox outbox = new GrantOutbox(primary, recording, gates, this::refundCharged);
        recording.bindTo(primary, outbox);
        return new Local(recording, outbox);
    }

    /** Returns the fallback that records its grants; null if there is none. */
    @Nullable
    LocalFallback fallback() {
        return local == null ? null : local.fallback;
    }

    // Grants, and replies of the primary store.

    @Override
    public boolean confirm(StoreDecision reply, long sentAt) {
        return local == null || local.fallback.confirm(reply, sentAt);
    }

    /** Records the usage of counts that the primary store has settled. */
    void settled(Corrected result) {
        if (local != null) {
            local.fallback.settled(result);
        }
    }

    /** Notes that the fallback is asked although the primary store may still decide; until then, it gets no grants. */
    void beginCall(List<Claim> claims) {
        if (local != null) {
            local.fallback.beginCall(claims);
        }
    }

    /** Notes that both stores have decided. */
    void endCall(List<Claim> claims) {
        if (local != null) {
            local.fallback.endCall(claims);
        }
    }

    /** Notes a grant of the fallback, which is lost to the primary store if that does not record it. */
    void granted(StoreDecision decision) {
        if (local == null) {
            lost.add(permits(decision));
        }
    }

    /** Notes a grant of the fallback that the primary store may also have charged; this will never be known. */
    void grantedWithUnknownCharge(StoreDecision decision) {
        unknown.add(permits(decision));
    }

    /**
     * Cancels a grant of the fallback that the primary store has charged after all. Later refunds and settlements of
     * the grant are made there, and what was refunded before, also by a settlement, is refunded there now. If the
     * charge was lost or reset, or may be, it is refunded instead.
     *
     * @param isNoted whether the charge counts as granted here
     */
    void cancel(StoreDecision granted, StoreDecision charged, boolean isNoted) {
        if (local == null) {
            return;
        }
        if (!local.fallback.isInPresentLives(charged)) {
            refund(Refund.of(charged));
            return;
        }
        if (!isNoted) {
            // Before the local grant moves, because the caller may refund it from then on.
            local.fallback.grantedInPrimary(charged);
        }
        List<Claim> moved = move(granted, charged);
        refundRest(charged, moved);
        for (Claim refunded : local.fallback.cancelGrants(granted, moved)) {
            for (StoreUsage usage : charged.usages()) {
                if (usage.claim().handle().equals(refunded.handle())) {
                    StoreUsage inStore = usage.inStore();
                    long until = refunded.limit() instanceof Limit.Quota
                            ? inStore.wholeAtMillis()
                            : inStore.reply().at()
                                    + refunded.limit().quotaWindow().toMillis();
                    refundCharged(new RefundCharged(refunded, inStore.life(), until));
                }
            }
        }
    }

    /**
     * Notes that the permits of a grant are in the primary store from now on.
     *
     * @return the claims of the grant, with as many of their permits as have moved: without those that were refunded
     *     before, or settled to a lower cost
     */
    static List<Claim> move(StoreDecision granted, StoreDecision charged) {
        Map<Object, Long> before = granted.permitUse().moveTo(charged);
        List<Claim> moved = new ArrayList<>(before.size());
        for (Claim claim : granted.claims()) {
            long left = Math.min(claim.permits(), before.getOrDefault(claim.handle(), claim.permits()));
            if (left > 0) {
                moved.add(left == claim.permits() ? claim : claim.withPermits(left));
            }
        }
        return moved;
    }

    // Refunds.

    /** Refunds what was charged beyond the permits that are in use. */
    private void refundRest(StoreDecision charged, List<Claim> inUse) {
        Map<Object, Long> used = inUse.stream().collect(Collectors.toMap(Claim::handle, Claim::permits));
        releaseUnused(charged.claims().stream()
                .filter(claim -> !used.containsKey(claim.handle()))
                .toList());
        refund(Refund.of(charged).stream()
                .map(one -> one.without(used.getOrDefault(one.claim().handle(), 0L)))
                .filter(one -> one.claim().permits() > 0)
                .toList());
    }

    /** Refunds a charge of the primary store that no request uses. If the refund fails, that errs towards denying. */
    void refundUnused(StoreDecision charged) {
        releaseUnused(charged.claims());
        refund(Refund.of(charged));
    }

    @Override
    public void refund(List<Refund> refunds) {
        if (refunds.isEmpty()) {
            return;
        }
        if (local != null) {
            refunds.forEach(local.fallback::refundedInPrimary);
        }
        List<Claim> claims = refunds.stream().map(Refund::claim).toList();
        denials.freeing(claims, Mono.defer(() -> primary.correct(refunds).then()))
                .subscribe(null, error -> {});
    }

    /** Refunds a charge for which no caller waits. If this fails, that errs towards denying. */
    private void refundCharged(RefundCharged charged) {
        List<Claim> claims = List.of(charged.claim());
        noteRefundOfOldest(claims);
        denials.freeing(
                        claims,
                        Mono.defer(() -> primary.correct(List.of(charged)).then()))
                .subscribe(null, error -> {});
    }

    /** Notes that the oldest permits are about to be refunded in the primary store. */
    void noteRefundOfOldest(List<Claim> claims) {
        if (local != null) {
            local.fallback.refundedOldestInPrimary(claims);
        }
    }

    // Holds.

    /** Releases holds that no request uses. */
    void releaseUnused(List<Claim> claims) {
        List<Claim> holds = holdsOf(claims);
        if (!holds.isEmpty()) {
            if (local != null) {
                local.fallback.releaseHolds(holds);
            }
            Mono.defer(() -> primary.hold(holds, HoldAction.RELEASE)).subscribe(null, error -> releases.add(holds));
        }
    }

    /** Returns the claims that hold permits of concurrency limits: they are released, and not refunded. */
    private static List<Claim> holdsOf(List<Claim> claims) {
        return claims.stream().filter(claim -> claim.holdId() != null).toList();
    }

    /** Returns the holds that are to be released in the primary store when it is back. */
    Releases releases() {
        return releases;
    }

    // Reconciliation.

    /**
     * Returns whether grants on these counts must reach the primary store before it decides on them, and speeds that
     * up.
     */
    boolean mustReconcileFirst(List<Claim> claims) {
        return local != null && !local.fallback.isReconciled() && local.fallback.mustHandOver(claims);
    }

    /** Returns whether grants on one of these counts cannot be charged, because another program has written its key. */
    boolean cannotCharge(List<Claim> claims) {
        return local != null && local.fallback.cannotHandOver(claims);
    }

    /** Returns whether this instance may take these permits, soon after an outage. */
    boolean haveShare(List<Claim> claims) {
        return local == null || local.fallback.haveShare(claims);
    }

    /** Returns whether the primary store knows all grants on these counts. */
    boolean isReconciled(List<Claim> claims) {
        return local == null || !(mustReconcileFirst(claims) || local.fallback.isUnanswered(claims));
    }

    /** Returns whether the primary store knows all grants. */
    boolean isReconciled() {
        return local == null || local.fallback.isReconciled();
    }

    /** Sends at once what waits for a node that is available again. */
    void nodeIsBack(String node) {
        releases.nodeIsBack(node);
        if (local != null) {
            local.outbox.nodeIsBack(node);
        }
    }

    // The instances of limiters.

    @Override
    public int instances(String limiter) {
        return instances.of(limiter).number();
    }

    // State.

    /** Returns how many permits were granted by a fallback that does not record them. */
    long lost() {
        return lost.sum();
    }

    /** Returns how many permits were granted although the primary store may have charged them too. */
    long unknown() {
        return unknown.sum();
    }

    /** Makes a last attempt to reconcile, and ends. */
    Mono<Void> end() {
        Mono<Void> released = releases.end();
        return local == null ? released : Mono.when(local.outbox.end(), released);
    }

    private static long permits(StoreDecision decision) {
        return decision.claims().stream().mapToLong(Claim::permits).sum();
    }

    /** A fallback that records its grants, and the way of the grants. */
    private record Local(LocalFallback fallback, GrantOutbox outbox) {}
}
