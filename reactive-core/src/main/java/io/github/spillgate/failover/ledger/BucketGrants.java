package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.List;

/** The permits that a {@link RateLedger} of a token bucket has granted and not handed over. */
final class BucketGrants extends RateCount {
    // Design notes.
    //
    // A bucket returns permits at its rate once. The usage that the primary store has confirmed falls at that rate, so
    // these grants fall only from the time on at which nothing of it is left (drainFrom). Then the sum of both is the
    // level of one bucket with all permits: no time is counted twice. In the same way, each of several instances lets
    // its grants fall at its share of the rate.
    //
    // Grants are kept in slots of a 16th of the time in which a bucket is filled, so that a refund can find them. All
    // permits of a slot count from its last grant on. Slots that are older than that time become one number, the base.
    //
    // A reconciliation has the youngest slots in full. The primary store lets them fall itself: if others have used the
    // bucket since, they have not fallen. Older ones have fallen here, because in a long outage they add up. Those from
    // before drainFrom count from then on: until then, other permits in the bucket returned in their place, and the
    // primary store may have forgotten those, because it keeps no empty bucket.

    private static final int SLOTS_IN_REACH = 16;
    private static final int MOST_SLOTS = 64;

    /** The part of the slots, in 16ths of the time in which a bucket is filled, that are reconciled in full. */
    private static final int YOUNG = 4;

    /** The oldest first. */
    private final List<Slot> slots = new ArrayList<>();

    /** What is left of older grants, in units, at a time. */
    private long base;

    private long baseAt;

    private long drainFrom;
    private double share = 1;
    private Limit limit = Limit.perSecond(1).burst(1);
    private long now;

    /**
     * Sets how the grants fall.
     *
     * @param from the time at which they begin to fall
     * @param share the part of the limit's rate at which they fall
     */
    void drain(long from, double share) {
        this.drainFrom = from;
        this.share = share;
    }

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            limit = claim.limit();
        }
        this.now = now;
        baseAt = Math.min(baseAt, now);
        for (int i = slots.size() - 1; i >= 0 && slots.get(i).last > now; i--) {
            slots.get(i).first = Math.min(slots.get(i).first, now);
            slots.get(i).last = now;
        }
    }

    /** Returns the level at the present time. It stays the same until {@code drainFrom}. */
    private long level() {
        return fallen(levelAfter(slots.size()), lastOf(slots.size()), now);
    }

    /** Returns the level after the base and a number of slots. */
    private long levelAfter(int number) {
        long level = base;
        for (int i = 0; i < number; i++) {
            Slot slot = slots.get(i);
            level = fallen(level, lastOf(i), slot.last) + BucketState.units(limit, slot.permits);
        }
        return level;
    }

    private long lastOf(int number) {
        return number == 0 ? baseAt : slots.get(number - 1).last;
    }

    private long fallen(long level, long from, long to) {
        long millis = to - Math.max(from, drainFrom);
        if (millis <= 0 || share == 1) {
            return BucketState.levelAfter(limit, level, millis);
        }
        return Math.max(0, level - (long) Math.floor((double) limit.permits() * share * millis));
    }

    /** Returns how long it takes until so many units have returned, in milliseconds. */
    private long timeFor(long units) {
        if (share == 1) {
            return new BucketState(units, 0).wholeAt(limit);
        }
        return (long) Math.ceil(units / (limit.permits() * share)) + 1;
    }

    @Override
    public long used() {
        return new BucketState(level(), now).used(limit);
    }

    @Override
    public boolean fits(long cost) {
        return new BucketState(level(), now).fits(limit, cost);
    }

    @Override
    public long fitsAt(long cost) {
        long missing = level() - BucketState.units(limit, limit.capacity() - cost);
        return missing <= 0 ? now : Math.max(now, drainFrom) + timeFor(missing);
    }

    @Override
    public long wholeAt() {
        long level = level();
        return level == 0 ? now : Math.max(now, drainFrom) + timeFor(level);
    }

    /** {@inheritDoc} Those that have returned since are included, as long as their slots are kept. */
    @Override
    public long recorded() {
        long permits = new BucketState(base, 0).used(limit);
        for (Slot slot : slots) {
            permits += slot.permits;
        }
        return permits;
    }

    @Override
    public List<Grants> grants() {
        long young = Math.max(now - LimitKind.reach(limit) * YOUNG / SLOTS_IN_REACH, Math.min(drainFrom, now));
        int old = 0;
        while (old < slots.size() && slots.get(old).last <= young) {
            old++;
        }
        List<Grants> grants = new ArrayList<>();
        long level = fallen(levelAfter(old), lastOf(old), young);
        if (level > 0) {
            grants.add(new Grants(young, young, new BucketState(level, 0).used(limit)));
        }
        for (int i = old; i < slots.size(); i++) {
            Slot slot = slots.get(i);
            if (slot.permits > 0) {
                grants.add(new Grants(slot.first, slot.last, slot.permits));
            }
        }
        return grants;
    }

    @Override
    public void take(long cost) {
        long reach = LimitKind.reach(limit);
        while (!slots.isEmpty() && (now - slots.get(0).last >= reach || slots.size() >= MOST_SLOTS)) {
            base = levelAfter(1);
            baseAt = slots.remove(0).last;
        }
        Slot newest = slots.isEmpty() ? null : slots.get(slots.size() - 1);
        if (newest == null || now - newest.first >= Math.max(1, reach / SLOTS_IN_REACH)) {
            newest = new Slot(now);
            slots.add(newest);
        }
        newest.last = now;
        newest.permits += cost;
    }

    /** {@inheritDoc} Not above the burst. */
    @Override
    public void recordDenied(long cost) {
        long free = limit.capacity() - used();
        if (free > 0) {
            take(Math.min(cost, free));
        }
    }

    @Override
    public void refund(long takenAt, long permits) {
        for (Slot slot : slots) {
            if (takenAt >= slot.first && takenAt <= slot.last) {
                slot.permits -= Math.min(slot.permits, permits);
                return;
            }
        }
    }

    @Override
    public void refundOldest(long permits) {
        long window = limit.window().toMillis();
        long left = permits - Math.min(permits, base / window);
        base -= (permits - left) * window;
        for (Slot slot : slots) {
            long some = Math.min(left, slot.permits);
            slot.permits -= some;
            left -= some;
        }
    }

    @Override
    public void clear() {
        slots.clear();
        base = 0;
    }

    /** Permits that were granted in a period. */
    private static final class Slot {

        private long first;
        private long last;
        private long permits;

        Slot(long first) {
            this.first = first;
        }
    }
}
