package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.count.QuotaState;
import io.github.spillgate.internal.QuotaCalendar.Period;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A quota: what was taken in a period, which is that of the calendar when the period before it has ended, and whether a
 * decision of the period has reached the mark.
 */
final class QuotaModel extends CountModel {

    private Period period = new Period(0, 0);
    private long used;
    private boolean isMarked;
    private boolean isNear;

    private Period periodAt(Limit limit, long now) {
        return now < period.end() ? period : calendarAt(limit, now);
    }

    private static Period calendarAt(Limit limit, long now) {
        Limit.Quota quota = (Limit.Quota) limit;
        Instant at = Instant.ofEpochMilli(now);
        return new Period(
                quota.periodStart(at).toEpochMilli(), quota.periodEnd(at).toEpochMilli());
    }

    private void begin(Period next, long now) {
        if (now >= period.end()) {
            period = next;
            reset();
        }
    }

    @Override
    StoreUsage.Windows period() {
        return new QuotaState(used, period.start(), period.end(), isMarked, isNear);
    }

    @Override
    void pull(Limit limit, long now) {
        isNear = false;
    }

    @Override
    long used(Limit limit, long now) {
        return now < period.end() ? used : 0;
    }

    @Override
    boolean fits(Limit limit, long cost, long now) {
        return used(limit, now) + cost <= limit.permits();
    }

    @Override
    void take(Limit limit, long cost, long now) {
        begin(periodAt(limit, now), now);
        used += cost;
        isNear = !isMarked && used >= limit.nearMark();
        isMarked |= isNear;
    }

    @Override
    void takeBeyond(Limit limit, long cost, long most, long now) {
        long some = Math.min(cost, most - used(limit, now));
        if (some > 0) {
            begin(periodAt(limit, now), now);
            used += some;
        }
    }

    @Override
    void recordDenied(Limit limit, long cost, long now) {
        takeBeyond(limit, cost, limit.permits(), now);
    }

    @Override
    void refund(Limit limit, long takenAt, long permits, long now) {
        if (periodAt(limit, now).contains(takenAt)) {
            refundOldest(limit, permits, now);
        }
    }

    @Override
    void refundOldest(Limit limit, long permits, long now) {
        if (now < period.end()) {
            used -= Math.min(used, permits);
        }
    }

    @Override
    void refundCharged(Limit limit, long permits, long gone, long now) {
        if (gone > period.start()) {
            refundOldest(limit, permits, now);
        }
    }

    @Override
    boolean reconcile(Limit limit, List<Grants> periods, long now) {
        boolean isAny = false;
        for (Grants some : periods) {
            if (now < some.toMillis()) {
                begin(new Period(some.fromMillis(), some.toMillis()), now);
                used += some.permits();
                isAny = true;
            }
        }
        return isAny;
    }

    @Override
    void reset() {
        used = 0;
        isMarked = false;
    }

    @Override
    @Nullable
    Restored restore(Limit limit, List<Grants> periods, @Nullable Restored earlier, long now) {
        Grants lost = periods.get(0);
        long has = earlier == null || now >= earlier.others() ? 0 : earlier.permits();
        if (now >= lost.toMillis() || lost.permits() <= has) {
            return null;
        }
        begin(new Period(lost.fromMillis(), lost.toMillis()), now);
        used += lost.permits() - has;
        return new Restored(now, lost.permits(), 0, lost.toMillis());
    }

    @Override
    long fitsAt(Limit limit, long cost, long now) {
        return fits(limit, cost, now) ? now : period.end();
    }

    @Override
    long wholeAt(Limit limit, long now) {
        return isWhole(limit, now) ? now : period.end();
    }

    @Override
    boolean isWhole(Limit limit, long now) {
        return used(limit, now) == 0;
    }
}
