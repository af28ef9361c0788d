package io.github.spillgate.failover.lease;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Background;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Mono;

/**
 * The permits of leased limits that the primary store has charged in advance, and from which this instance decides
 * without asking it.
 *
 * <p>Bounded in number and time: an instance leases on as many counts as there are slots, and each lease ends after the
 * lease time L of its limit.
 */
public final class Leases {
    // Design notes.
    //
    // Invariant: in any window of a log, at most the limit's permits are granted, whichever instances lease; in any
    // interval of a token bucket, at most the burst and what returns in it.
    //
    // Logs. The store charges a block of permits at a time t, in the slot of t + L. So they count from t until a window
    // after the end of that slot. An instance spends them only while less than L has passed since it sent the request.
    // It sent it before t, so it spends them from t until t + L by the store's clock. That is the time of the decision:
    // t plus what has passed since the request was sent.
    //
    // So a permit that is granted at a time a, from a lease or not, counts in the store from some time c <= a until
    // after a + W, for a window W. Take all permits that are granted in a window, and the last moment c at which one of
    // them was charged. At that moment all of them count in the store: each was charged by then, and c is at most the
    // time of a grant in the window, less than W after all others. The store never charges above the limit. So there
    // are at most as many as the limit has.
    //
    // This needs two more things. Times must not decrease: while leased permits are in the slot of t + L, others are
    // charged there too (log.lua, LogCount), instead of earlier. And a set back clock moves permits to now + L, not to
    // now, because they may be spent until then.
    //
    // Token buckets. The level falls at the rate r, and has no times. A block that is charged at a time t must not have
    // returned when it is spent at t + L. So the store raises a lower level to r L, which is what returns in L, before
    // it adds the block and checks the sum against the burst (bucket.lua, BucketCount).
    //
    // At the store's time c the level is on a falling line. Let f be that line, extended to all times x: f(x) = level +
    // r (c - x). Claim: of the permits that are charged, at most f(x) may be granted at x or later, for each x up to
    // the latest time at which any may be granted. What changes f:
    //
    //   - A take of q at c. A level that would be negative is zero, which raises f, so f(x) >= 0 for x <= c. Then q
    //     is added to f. The permits that may be granted at x or later become more by q for x <= c only.
    //   - A lease of q at c. The level is raised to r L, so that f(x) >= 0 for x <= c + L. Then q is added to f. The
    //     permits that may be granted at x or later become more by q for x <= c + L only.
    //   - A refund of d subtracts d from f. It returns no more than keeps the claim true (BucketCount).
    //   - If the clock is set back, the level stays the same. So the line moves to the left, and not further than the
    //     times at which permits may be granted.
    //
    // Take all permits that are granted from s to e, and the last moment c <= e at which one of them was charged. They
    // are at most f(s) at that moment, which is the level + r (c - s). The level was at most the burst then. So they
    // are at most the burst and what returns from s to e.
    //
    // "Has passed" is measured by the monotonic clock. That may stand still while a machine is suspended, so the wall
    // clock must agree.
    //
    // The size of a block is what the key needs in a lease time at its recent rate, and a reserve: if requests arrive
    // at random, their number varies by its square root. It is at most half of the permits that are left, divided by
    // the number of instances. So the last permits are decided by the store, one by one. What is not spent is refunded
    // when the lease ends, together with the rest of other leases that end at about the same time.
    //
    // docs/decisions/0044-permits-are-leased-until-a-time.md has the reasons.

    private static final int SLOTS = 1 << 16;

    /** The number of slots in which a key may be. */
    private static final int PLACES = 2;

    /** An odd number, which spreads the bits of a hash. */
    private static final int OTHER_PLACE = 0x9e3779b1;

    /** The time for which a key keeps its place after a lease. */
    private static final long LONGEST_KEPT = TimeUnit.SECONDS.toNanos(1);

    /** A block is at most this part, a half, of the permits that are left, divided by the number of instances. */
    private static final int RESERVED_PART = 2;

    /** The longest time for which permits wait to be refunded together with others, in milliseconds. */
    private static final long REFUND_DELAY = 5;

    private static final int REFUNDS_TOGETHER = 64;

    private final LimitStore primary;
    private final Charges charges;
    private final AtomicReferenceArray<@Nullable LeasedKey> keys = new AtomicReferenceArray<>(SLOTS);
    private final LongAdder decisions = new LongAdder();
    private final LongAdder blocks = new LongAdder();
    private final LongAdder leasedPermits = new LongAdder();
    private final LongAdder refundedPermits = new LongAdder();
    private final LongAdder deniedPermits = new LongAdder();
    private final Queue<Refund> toRefund = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean willRefund = new AtomicBoolean();
    private volatile boolean closed;

    public Leases(LimitStore primary, Charges charges) {
        this.primary = primary;
        this.charges = charges;
    }

    // Spending.

    /**
     * Returns a decision that grants claims from leases; null if the store has to decide. It always decides on requests
     * with a limit that is not leased. These are not counted, because a block for them would not be spent.
     */
    @Nullable
    public StoreDecision spend(List<Claim> claims) {
        if (!areLeased(claims)) {
            return null;
        }
        return claims.size() == 1 ? spendOne(claims.get(0)) : spendAll(claims);
    }

    private static boolean areLeased(List<Claim> claims) {
        for (int i = 0; i < claims.size(); i++) {
            if (!claims.get(i).limit().isLeased()) {
                return false;
            }
        }
        return true;
    }

    private @Nullable StoreDecision spendOne(Claim claim) {
        LeasedKey key = findOrCreate(claim);
        key.asked(claim.permits());
        Lease lease = key.lease();
        if (lease == null) {
            return null;
        }
        StoreUsage spent = lease.spend(claim, Time.nanos(), Time.millis());
        if (spent == null) {
            return null;
        }
        decisions.increment();
        return StoreDecision.ofTake(spent.reply(), List.of(spent));
    }

    private @Nullable StoreDecision spendAll(List<Claim> claims) {
        // All of them first, because spending ends at the first key without a lease, and the others are in demand too.
        List<LeasedKey> asked = new ArrayList<>(claims.size());
        for (Claim claim : claims) {
            LeasedKey key = findOrCreate(claim);
            key.asked(claim.permits());
            asked.add(key);
        }
        List<StoreUsage> usages = new ArrayList<>(claims.size());
        List<Lease> spentFrom = new ArrayList<>(claims.size());
        // By one clock, none of the times is before now, and each lease was charged before now. So the earliest one is
        // right for all. The times of other clocks, of nodes of a cluster, are converted to it.
        Reply earliest = new Reply(Source.LEASE, Long.MAX_VALUE);
        for (int i = 0; i < claims.size(); i++) {
            Claim claim = claims.get(i);
            Lease lease = asked.get(i).lease();
            StoreUsage spent = lease == null ? null : lease.spend(claim, Time.nanos(), Time.millis());
            if (lease == null || spent == null) {
                for (int j = 0; j < i; j++) {
                    unspend(spentFrom.get(j), claims.get(j).permits());
                }
                return null;
            }
            earliest = spent.reply().at() < earliest.at() ? spent.reply() : earliest;
            spentFrom.add(lease);
            usages.add(spent);
        }
        decisions.increment();
        Reply at = earliest;
        return StoreDecision.ofTake(
                at, usages.stream().map(usage -> usage.shownAt(at)).toList());
    }

    private void unspend(Lease lease, long permits) {
        if (permits > 0 && !lease.unspend(permits)) {
            refund(lease.refund(permits));
        }
    }

    /** Returns the entry of a key. If there is no slot for a new one, it is not kept, and this key does not lease. */
    private LeasedKey findOrCreate(Claim claim) {
        Object handle = claim.handle();
        LeasedKey known = find(handle);
        if (known != null) {
            return known;
        }
        long now = Time.nanos();
        LeasedKey created = new LeasedKey(handle, now);
        keep(created, now);
        return created;
    }

    /**
     * Keeps an entry in an empty slot. If there is none, it replaces that of a key that has not leased recently, and of
     * two such keys the one that has not asked the store for longer.
     */
    private void keep(LeasedKey created, long now) {
        int oldestSlot = 0;
        LeasedKey oldest = null;
        for (int place = 0; place < PLACES; place++) {
            int slot = slot(created.handle(), place);
            LeasedKey other = keys.get(slot);
            if (other == null) {
                keys.compareAndSet(slot, null, created);
                return;
            }
            if (!other.hasLeasedSince(now - LONGEST_KEPT) && (oldest == null || other.isOlderThan(oldest))) {
                oldestSlot = slot;
                oldest = other;
            }
        }
        if (oldest != null) {
            keys.compareAndSet(oldestSlot, oldest, created);
        }
    }

    private @Nullable LeasedKey find(Object handle) {
        for (int place = 0; place < PLACES; place++) {
            LeasedKey known = keys.get(slot(handle, place));
            if (known != null && known.isOf(handle)) {
                return known;
            }
        }
        return null;
    }

    /** Returns a slot of a key. Each key has two, so that two hot keys rarely compete for one. */
    private static int slot(Object handle, int place) {
        int hash = handle.hashCode();
        return (place == 0 ? hash ^ hash >>> 16 : (hash * OTHER_PLACE) >>> 16) & (SLOTS - 1);
    }

    // Leasing.

    /** Leases permits for the keys of a request that is being sent to the store, if they are hot. */
    public void lease(List<Claim> claims) {
        for (int i = 0; i < claims.size(); i++) {
            Claim claim = claims.get(i);
            if (claim.limit().isLeased() && !closed) {
                LeasedKey key = findOrCreate(claim);
                long now = Time.nanos();
                if (key.has(claim.permits(), now)) {
                    continue;
                }
                long block = key.beginLease(now, claim.limit().leaseTime().toNanos());
                if (block > 0) {
                    lease(key, claim.withPermits(Math.min(block, claim.limit().capacity())), now);
                }
            }
        }
    }

    private void lease(LeasedKey key, Claim block, long sentAt) {
        long wallAt = Time.millis();
        long length = block.limit().leaseTime().toNanos();
        int parts = RESERVED_PART * Math.max(1, charges.instances(block.limiter()));
        Mono.defer(() -> primary.take(StoreRequest.lease(block, parts, sentAt + length)))
                .subscribe(
                        charge -> leased(key, charge, sentAt, wallAt), error -> key.endLease(), () -> key.endLease());
    }

    private void leased(LeasedKey key, StoreDecision charge, long sentAt, long wallAt) {
        boolean fits = charges.confirm(charge, sentAt);
        if (!charge.isCharged()) {
            return;
        }
        Claim claim = charge.claims().get(0);
        blocks.increment();
        leasedPermits.add(claim.permits());
        Lease lease = new Lease(charge, sentAt, wallAt);
        long left = sentAt + lease.nanos() - Time.nanos();
        if (!fits || left <= 0 || closed) {
            end(lease);
            return;
        }
        Lease before = key.replace(lease);
        if (before != null) {
            end(before);
        }
        // A second check, because the store may have been closed, or the count reset, since the first one.
        if (closed || key.isResetSince(sentAt) || find(key.handle()) != key) {
            end(lease);
            return;
        }
        Background.scheduler()
                .schedule(
                        () -> {
                            key.measure(Time.nanos(), lease.nanos());
                            end(lease);
                        },
                        left,
                        TimeUnit.NANOSECONDS);
    }

    /** Ends a lease, and refunds what is left of it. */
    private void end(Lease lease) {
        long unspent = lease.end();
        if (unspent > 0) {
            refund(lease.refund(unspent));
        }
    }

    /** Refunds leased permits soon. If this fails, that errs towards denying. */
    private void refund(Refund one) {
        refundedPermits.add(one.claim().permits());
        toRefund.add(one);
        if (closed) {
            refundAll();
        } else if (!willRefund.get() && willRefund.compareAndSet(false, true)) {
            Background.scheduler().schedule(this::refundAll, REFUND_DELAY, TimeUnit.MILLISECONDS);
        }
    }

    private void refundAll() {
        willRefund.set(false);
        // Each count once in a request.
        Map<Object, Refund> together = new HashMap<>();
        for (Refund one = toRefund.poll(); one != null; one = toRefund.poll()) {
            Object handle = one.claim().handle();
            if (together.size() == REFUNDS_TOGETHER || together.containsKey(handle)) {
                charges.refund(List.copyOf(together.values()));
                together.clear();
            }
            together.put(handle, one);
        }
        charges.refund(List.copyOf(together.values()));
    }

    /** Notes a reply of the store, which may have denied because of leases. */
    public void replied(StoreDecision decision) {
        if (decision.isAllowed()) {
            return;
        }
        for (StoreUsage usage : decision.usages()) {
            if (usage.isViolated() && (showsLeases(usage) || hasUnspent(usage))) {
                deniedPermits.add(usage.claim().permits());
            }
        }
    }

    /**
     * Returns whether a usage shows that permits of a log are leased, by any instance: they are charged later than all
     * that were taken by now, unless a slot is longer than the lease time. For some time after the store's clock was
     * set back it is true without leases. The level of a bucket does not show them.
     */
    static boolean showsLeases(StoreUsage usage) {
        return usage.inStore().chargedAt() > usage.inStore().reply().at();
    }

    /** Returns whether this instance has leased permits of a log. The reply does not show it if slots are long. */
    private boolean hasUnspent(StoreUsage usage) {
        if (!usage.limit().isLeased() || !(usage.limit() instanceof Limit.Log)) {
            return false;
        }
        LeasedKey key = find(usage.claim().handle());
        return key != null && key.has(1, Time.nanos());
    }

    /**
     * Ends the leases of counts that are reset. What is not spent is refunded, because the reset may fail. If it has
     * removed the permits, the store refunds nothing.
     */
    public void reset(List<Claim> claims) {
        for (Claim claim : claims) {
            // Two threads may have created an entry in each place.
            for (int place = 0; place < PLACES; place++) {
                LeasedKey key = keys.get(slot(claim.handle(), place));
                if (key != null && key.isOf(claim.handle())) {
                    key.reset(Time.nanos());
                    Lease lease = key.lease();
                    if (lease != null) {
                        end(lease);
                    }
                }
            }
        }
    }

    /** Returns what was leased and spent so far. */
    public StoreState.LeaseStatistics state() {
        return new StoreState.LeaseStatistics(
                decisions.sum(), blocks.sum(), leasedPermits.sum(), refundedPermits.sum(), deniedPermits.sum());
    }

    /** Ends all leases. */
    public void close() {
        closed = true;
        for (int i = 0; i < SLOTS; i++) {
            LeasedKey key = keys.get(i);
            Lease lease = key == null ? null : key.lease();
            if (lease != null) {
                end(lease);
            }
        }
    }

    /** What this instance knows of the permits that the primary store has charged. */
    public interface Charges {

        /** Records a reply of the primary store, and returns whether it fits together with the local grants. */
        boolean confirm(StoreDecision reply, long sentAt);

        /** Refunds charges, no two on the same count. If this fails, that errs towards denying. */
        void refund(List<Refund> refunds);

        /** Returns how many instances of a limiter there are, as far as is known. */
        int instances(String limiter);
    }
}
