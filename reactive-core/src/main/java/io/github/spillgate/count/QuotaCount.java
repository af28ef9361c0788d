package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.count.RestoredMark.Restored;
import io.github.spillgate.internal.Bounds;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The count of a calendar quota. No API. */
public class QuotaCount extends RateCount {
    // Design notes.
    //
    // The stored period ends when the clock passes its end, and only then: also if the clock was set back to before its
    // start, or if the limit has another calendar by now. Then the calendar of the limit opens the next one. A count
    // that only looks opens none, so if the clock goes back over a boundary, the permits of the stored period count
    // again; nor does a refund after the boundary, because nothing is left to refund.
    //
    // The grants of a hand-over, and lost permits, have the start and the end of their period in place of times. If
    // there is no present period, they open theirs; otherwise they count in the present one. quota.lua does the same.

    private static final int LENGTH = 25;
    private static final int KEPT = 12;

    private QuotaState stored = new QuotaState(0, 0, 0);

    /** The period that begins if none is stored, as long as the calendar of the limit does not begin it. */
    private QuotaState expected = stored;

    private QuotaState seen = stored;
    private Limit.Quota limit = Limit.daily(1);
    private long now;

    /**
     * Notes the period in which another store counts: permits count in it, and not in one of the limit's calendar.
     *
     * @param start its start, in milliseconds
     * @param end its end
     */
    public void expect(long start, long end) {
        expected = new QuotaState(0, start, end);
    }

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            limit = (Limit.Quota) claim.limit();
        }
        this.now = now;
        if (stored.end() > now) {
            stored = stored.isNear() ? stored.with(stored.used(), false) : stored;
            seen = stored;
        } else if (expected.end() > now) {
            seen = expected;
        } else {
            Instant at = Instant.ofEpochMilli(now);
            seen = new QuotaState(
                    0, limit.periodStart(at).toEpochMilli(), limit.periodEnd(at).toEpochMilli());
        }
    }

    @Override
    public long used() {
        return seen.used();
    }

    @Override
    public boolean fits(long cost) {
        return seen.used() + cost <= limit.permits();
    }

    @Override
    public long fitsAt(long cost) {
        return fits(cost) ? now : seen.end();
    }

    @Override
    public long wholeAt() {
        return seen.wholeAt(now);
    }

    @Override
    public StoreUsage usage(Reply reply, Claim claim, boolean violated, boolean denied) {
        return seen.usage(reply, claim, violated, denied, nextLife(reply.stamp()));
    }

    @Override
    public StoreUsage.Windows period() {
        return seen;
    }

    /** {@inheritDoc} They have the start and the end of their period. */
    @Override
    public List<Grants> grants() {
        return seen.used() == 0 ? List.of() : List.of(new Grants(seen.start(), seen.end(), seen.used()));
    }

    @Override
    public void take(long cost) {
        long used = seen.used() + cost;
        store(used, used >= limit.nearMark() && !seen.isMarked());
    }

    @Override
    public void takeBeyond(long cost, long most) {
        long taken = Math.min(cost, most - seen.used());
        if (taken > 0) {
            store(seen.used() + taken, false);
        }
    }

    @Override
    public void recordDenied(long cost) {
        takeBeyond(cost, limit.permits());
    }

    @Override
    public void refund(long takenAt, long permits) {
        if (takenAt >= seen.start() && takenAt < seen.end()) {
            refundOldest(permits);
        }
    }

    @Override
    public void refundOldest(long permits) {
        long less = Math.min(seen.used(), permits);
        if (less > 0) {
            store(seen.used() - less, false);
        }
    }

    @Override
    public void refundCharged(long permits, long gone) {
        if (gone > seen.start()) {
            refundOldest(permits);
        }
    }

    @Override
    public long charge(List<Grants> ages) {
        boolean isCharged = false;
        for (Grants some : ages) {
            if (some.permits() > 0 && some.toMillis() > now) {
                add(some, some.permits());
                isCharged = true;
            }
        }
        return isCharged ? seen.end() - now : 0;
    }

    /** {@inheritDoc} The numbers are that of the restored permits, and the end of their period. */
    @Override
    @Nullable
    Restored restore(List<Grants> ages, Restored earlier) {
        Grants some = ages.get(0);
        long has = earlier.second() > now ? earlier.first() : 0;
        if (some.toMillis() <= now || some.permits() <= has) {
            return null;
        }
        add(some, some.permits() - has);
        return earlier.with(some.permits(), some.toMillis(), 0);
    }

    private void add(Grants some, long permits) {
        if (stored.end() <= now) {
            seen = new QuotaState(0, some.fromMillis(), some.toMillis());
        }
        store(Math.min(Bounds.MOST_EXACT, seen.used() + permits), false);
    }

    @Override
    public void clear() {
        stored = new QuotaState(0, stored.start(), stored.end());
        seen = new QuotaState(0, seen.start(), seen.end());
    }

    private void store(long used, boolean isNear) {
        seen = seen.with(used, isNear);
        stored = seen;
        changed();
    }

    @Override
    int emptyLength() {
        return LENGTH;
    }

    @Override
    int keptLength() {
        return KEPT;
    }

    @Override
    boolean readValue(Limit limit, byte[] value) {
        if (value.length == 0) {
            return true;
        }
        CountValue in = new CountValue(value);
        if (value.length != LENGTH || in.nextKind() != CountValue.QUOTA) {
            return false;
        }
        readLife(in);
        long used = in.next(7);
        boolean isMarked = in.next(1) > 0;
        stored = new QuotaState(used, in.next(6), in.next(6), isMarked, false);
        return true;
    }

    @Override
    public byte[] write(long micros) {
        return new CountValue(LENGTH, CountValue.QUOTA, lifeAt(micros))
                .add(stored.used(), 7)
                .add(stored.isMarked() ? 1 : 0, 1)
                .add(stored.start(), 6)
                .add(stored.end(), 6)
                .bytes();
    }

    @Override
    public long expiresAt() {
        return stored.end();
    }
}
