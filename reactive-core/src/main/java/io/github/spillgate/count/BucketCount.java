package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.count.RestoredMark.Restored;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The count of a token bucket: its level, and two low-water marks of it that bound what a refund may return. */
final class BucketCount extends RateCount {
    // Design notes.
    //
    // Of permits that were taken some time ago, a part has returned already. A refund must not return that part again:
    // with a burst of 10 and one permit a second, 5 taken at 0 s and 5 at 4 s leave a level of 6. If the first 5 were
    // subtracted from it, 9 more would fit at 4 s, 14 in all.
    //
    // In a history of takes, one of them can be made smaller by d units, so that the level is lower by d now, if and
    // only if the level has been at least d ever since. What is known of that:
    //
    //   - A low-water mark is a lower bound of the level since a time.
    //   - Between a take and a later time, the level is at least what was taken, less what has returned since.
    //
    // So a refund returns at most the mark and, if the mark began after the take, at most what cannot have returned
    // until then. Afterwards the mark is smaller by as much, because the level of that history is.
    //
    // There are two marks. The newer one begins again at each take. Since a level only falls, and a refund lowers both
    // by as much, that mark is the level itself. The older one covers a long time. A mark only falls, so it is replaced
    // by the newer one when that is at least twice as high. Permits of the millisecond in which a mark began may have
    // been taken before it or after it: that makes no difference, because nothing returns within it. Several takes in
    // one millisecond have the same effect as one, because a script decides equal requests together.
    //
    // The level is stored as it was after the last take, and a refund makes that smaller. So a later time does not have
    // to be stored.
    //
    // Permits that are leased at a time t may be spent until t + L. So the level is first raised to what returns in L,
    // if it is lower. Then the level at t + L is at least what it would be if they were taken at that time. Leases.java
    // has the proof that this suffices. For refunds:
    //
    //   - Leased permits are refunded as if they were taken at t + L. A refund of earlier permits must not take from
    //     them, so a mark is at most the level at t + L without the leased permits.
    //   - Between an earlier take and t + L, more may have returned than until t, by what returns in L. So if permits
    //     were leased since the bucket was empty, a mark counts as if it had begun later by L.
    //
    // If the clock is set back, times do not tell what was taken before a mark. Then both marks are zero, and permits
    // with a later time are not refunded. BucketModel and bucket.lua do the same.
    //
    // docs/decisions/0040-a-token-bucket-in-integers.md has the reasons.

    private static final int SHORT = 24;
    private static final int LONG = 36;

    /** Added to the time of a value if permits were leased. */
    private static final long LEASED = 1L << 47;

    /** In milliseconds: a bucket that was empty before, and is empty by then, lives longer than necessary. */
    private static final int SOON = 1_000;

    /** The level after the last take, which was at the time {@link #takenAt}. */
    private long stored;

    /** The time since when the level has been at least the newer mark. */
    private long takenAt;

    private long storedOlderMark;
    private long olderMarkedAt;
    private boolean isSetBack;

    /** Whether permits were leased since the bucket was empty. */
    private boolean isLeased;

    /** When the value expires, and whether it has the older mark. */
    private long expires;

    private boolean isLong;

    /** Until then, even an empty bucket is kept: the time in which a charge has returned must not count for another. */
    private long keptUntil;

    // At the present time.

    private long level;
    private long mark;
    private long olderMark;

    private Limit limit = NO_LIMIT;
    private long now;

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            limit = claim.limit();
        }
        if (now < takenAt && stored > 0) {
            takenAt = now;
            storedOlderMark = 0;
            olderMarkedAt = now;
            isSetBack = true;
            isLeased = false;
            changed();
        }
        see(now);
    }

    private void see(long time) {
        now = time;
        level = BucketState.levelAfter(limit, stored, now - takenAt);
        mark = isSetBack ? 0 : level;
        olderMark = Math.min(storedOlderMark, level);
    }

    @Override
    public long used() {
        return state().used(limit);
    }

    @Override
    public boolean fits(long cost) {
        return state().fits(limit, cost);
    }

    @Override
    public long fitsAt(long cost) {
        return state().fitsAt(limit, cost);
    }

    @Override
    public long wholeAt() {
        return state().wholeAt(limit);
    }

    @Override
    public List<Grants> grants() {
        return level == 0 ? List.of() : List.of(new Grants(now, now, used()));
    }

    @Override
    public void take(long cost) {
        add(BucketState.units(limit, cost));
    }

    @Override
    public void takeBeyond(long cost, long most) {
        add(Math.min(BucketState.units(limit, cost), BucketState.units(limit, most) - level));
    }

    @Override
    public void recordDenied(long cost) {
        add(Math.min(BucketState.units(limit, cost), BucketState.units(limit, limit.capacity()) - level));
    }

    private void add(long units) {
        if (units > 0) {
            addAny(units);
        }
    }

    private void addAny(long units) {
        isLeased &= level > 0;
        renewOlderMark();
        level += units;
        taken();
    }

    private void renewOlderMark() {
        if (takenAt != now && 2 * olderMark <= mark) {
            olderMark = mark;
            olderMarkedAt = takenAt;
        }
    }

    private void taken() {
        stored = level;
        takenAt = now;
        storedOlderMark = olderMark;
        isSetBack = false;
        mark = level;
        changed();
    }

    @Override
    public long lease(long most, int parts) {
        long returned = limit.permits() * limit.leaseTime().toMillis();
        long raised = Math.max(level, returned);
        long free = Math.max(0, BucketState.units(limit, limit.capacity()) - raised);
        long leased = Math.min(most, free / limit.window().toMillis() / parts);
        if (leased > 0) {
            long atEnd = raised - returned;
            mark = Math.min(mark, atEnd);
            olderMark = Math.min(olderMark, atEnd);
            renewOlderMark();
            level = raised + BucketState.units(limit, leased);
            isLeased = true;
            taken();
        }
        return leased;
    }

    @Override
    public void refund(long takenAt, long permits) {
        long lease = isLeased ? limit.leaseTime().toMillis() : 0;
        if (takenAt > now + lease) {
            return;
        }
        long taken = BucketState.units(limit, permits);
        long left = Math.min(mark, BucketState.levelAfter(limit, taken, this.takenAt + lease - takenAt));
        long leftBefore = Math.min(olderMark, BucketState.levelAfter(limit, taken, olderMarkedAt + lease - takenAt));
        subtract(Math.max(left, leftBefore), takenAt >= this.takenAt + lease);
    }

    @Override
    public void refundOldest(long permits) {
        subtract(Math.min(BucketState.units(limit, permits), level), false);
    }

    /** {@inheritDoc} One that was charged later than it was taken leaves a reach after that, at the latest. */
    @Override
    public void refundCharged(long permits, long gone) {
        refund(Math.max(0, gone - LimitKind.reach(limit)), permits);
    }

    private void subtract(long units, boolean isSinceMark) {
        if (units <= 0) {
            return;
        }
        stored = units < level ? stored - units : 0;
        isLeased &= stored > 0;
        level -= units;
        mark = Math.max(0, mark - units);
        olderMark = isSinceMark ? Math.min(olderMark, mark) : Math.max(0, olderMark - units);
        storedOlderMark = olderMark;
        changed();
    }

    /**
     * {@inheritDoc} A grant counts from its time on, as if it had been taken then. If the bucket has changed since, it
     * is not known how long it was empty after the grant. Then the grant counts from that change on.
     */
    @Override
    public long charge(List<Grants> ages) {
        long present = now;
        long reach = LimitKind.reach(limit);
        boolean isCharged = false;
        for (Grants some : ages) {
            if (some.permits() > 0 && some.toMillis() < reach) {
                see(Math.max(present - some.toMillis(), takenAt));
                addAny(Math.min(BucketState.units(limit, some.permits()), Bounds.MOST_EXACT - level));
                isCharged = true;
            }
        }
        see(present);
        keptUntil = isCharged ? now + reach : keptUntil;
        return isCharged ? reach : 0;
    }

    /**
     * {@inheritDoc} Lost permits return only after they were restored: until then, others in the bucket return in their
     * place. The numbers are that of the restored permits, and the time of the restoration.
     */
    @Override
    @Nullable
    Restored restore(List<Grants> ages, Restored earlier) {
        long known = 0;
        for (Grants some : ages) {
            known += some.toMillis() < LimitKind.reach(limit) ? some.permits() : 0;
        }
        long has = BucketState.levelAfter(limit, BucketState.units(limit, earlier.first()), now - earlier.second());
        long missing = Math.min(BucketState.units(limit, known) - has, Bounds.MOST_EXACT - level);
        add(missing);
        return missing > 0 ? earlier.with(known, now, 0) : null;
    }

    @Override
    public void clear() {
        stored = 0;
        storedOlderMark = 0;
        isSetBack = false;
        isLeased = false;
        level = 0;
        mark = 0;
        olderMark = 0;
    }

    @Override
    int emptyLength() {
        return SHORT;
    }

    @Override
    boolean readValue(Limit limit, byte[] value) {
        if (value.length == 0) {
            return true;
        }
        if (value.length != SHORT && value.length != LONG) {
            return false;
        }
        CountValue in = new CountValue(value);
        int kind = in.nextKind();
        readLife(in);
        stored = in.next(7);
        long at = in.next(6);
        expires = in.next(6);
        isLong = value.length == LONG;
        storedOlderMark = isLong ? in.next(7) : 0;
        if (stored > 0) {
            isSetBack = kind == CountValue.BUCKET_SET_BACK;
            isLeased = at >= LEASED;
            takenAt = isLeased ? at - LEASED : at;
            olderMarkedAt = takenAt - (isLong ? in.next(5) : 0);
        }
        return (kind == CountValue.BUCKET || kind == CountValue.BUCKET_SET_BACK) && storedOlderMark <= stored;
    }

    /** {@inheritDoc} The expiry is that of writeBucket in bucket.lua, by the same operations on doubles. */
    @Override
    public byte[] write(long micros) {
        double left = Math.max((double) keptUntil - now, (double) level / limit.permits());
        boolean livesOn = now + left <= expires;
        if (!livesOn || !isLong) {
            boolean hasMark = storedOlderMark > 0;
            double more = hasMark ? (double) BucketState.units(limit, limit.capacity()) / limit.permits() / 2 : SOON;
            isLong = hasMark || (!livesOn && left < SOON);
            expires =
                    Math.max(expires, isLong ? (long) Math.floor(now + left + more) + 1 : now + (long) Math.ceil(left));
        }
        int kind = isSetBack ? CountValue.BUCKET_SET_BACK : CountValue.BUCKET;
        CountValue out = new CountValue(isLong ? LONG : SHORT, kind, lifeAt(micros))
                .add(stored, 7)
                .add(isLeased ? takenAt + LEASED : takenAt, 6)
                .add(expires, 6);
        return (isLong ? out.add(storedOlderMark, 7).add(takenAt - olderMarkedAt, 5) : out).bytes();
    }

    @Override
    public long expiresAt() {
        return expires;
    }

    /** Returns the level at the present time. */
    BucketState state() {
        return new BucketState(level, now);
    }
}
