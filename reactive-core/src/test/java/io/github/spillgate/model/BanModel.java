package io.github.spillgate.model;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A ban: the denials of a key, and all bans that it ever had. */
final class BanModel extends CountModel {

    private static final long DAY = 86_400_000;

    private final List<Long> denials = new ArrayList<>();
    private final List<Period> bans = new ArrayList<>();

    /** How many bans by denials have followed one another, each less than a day after the end of all before it. */
    private int inARow;

    @Override
    void pull(Limit limit, long now) {
        denials.replaceAll(time -> Math.min(time, now));
        long ahead = bans.stream().mapToLong(Period::start).max().orElse(0) - now;
        if (ahead > 0) {
            long end = end() - ahead;
            bans.clear();
            bans.add(new Period(now, Math.max(0, end)));
        }
    }

    private long end() {
        return bans.stream().mapToLong(Period::end).max().orElse(0);
    }

    private boolean isBanned(long now) {
        return end() > now;
    }

    @Override
    long used(Limit limit, long now) {
        return isBanned(now) ? 1 : 0;
    }

    @Override
    boolean fits(Limit limit, long cost, long now) {
        return !isBanned(now);
    }

    @Override
    void take(Limit limit, long cost, long now) {
        throw new AssertionError("a ban has no permits");
    }

    @Override
    void recordDenied(Limit limit, long cost, long now) {
        Limit.Ban ban = (Limit.Ban) limit;
        denials.add(now);
        denials.removeIf(time -> time <= now - ban.within().toMillis());
        if (denials.size() >= ban.permits()) {
            denials.clear();
            inARow = ban.isGrowing() && now < end() + DAY ? inARow + 1 : 1;
            double time = ban.time().toMillis() * Math.pow(2, inARow - 1);
            ban(limit, (long) Math.min(time, 1e15), now);
        }
    }

    private boolean ban(Limit limit, long time, long now) {
        long longest = Math.max(DAY, ((Limit.Ban) limit).time().toMillis());
        Period ban = new Period(now, now + Math.min(longest, time));
        if (ban.end <= now || ban.end <= end()) {
            return false;
        }
        bans.add(ban);
        denials.removeIf(denial -> denial <= now - ((Limit.Ban) limit).within().toMillis());
        return true;
    }

    @Override
    void refund(Limit limit, long takenAt, long permits, long now) {}

    @Override
    void refundOldest(Limit limit, long permits, long now) {}

    @Override
    boolean reconcile(Limit limit, List<Grants> times, long now) {
        boolean isLater = false;
        for (Grants some : times) {
            isLater |= ban(limit, some.toMillis() + some.permits() - now, now);
        }
        return isLater;
    }

    @Override
    @Nullable
    Restored restore(Limit limit, List<Grants> ages, @Nullable Restored earlier, long now) {
        return reconcile(limit, StoreModel.times(ages, now), now) ? new Restored(end(), 0, 0, 0) : null;
    }

    @Override
    void reset() {
        denials.clear();
        bans.clear();
        inARow = 0;
    }

    @Override
    long fitsAt(Limit limit, long cost, long now) {
        return wholeAt(limit, now);
    }

    @Override
    long wholeAt(Limit limit, long now) {
        return Math.max(now, end());
    }

    @Override
    boolean isWhole(Limit limit, long now) {
        return !isBanned(now);
    }

    private record Period(long start, long end) {}
}
