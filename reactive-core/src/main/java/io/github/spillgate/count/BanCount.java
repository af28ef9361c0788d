package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.count.RestoredMark.Restored;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The ban of a key, and the denials that may begin one. No API. */
final class BanCount extends RateCount {
    // Design notes.
    //
    // A request costs nothing here, so a key that is not denied needs no value. A denial by another limit of the charge
    // is recorded with its time; as many as the limit says, within its window, begin a ban, and are forgotten then.
    // While the key is banned, no denial is recorded, so a ban does not extend itself.
    //
    // Of two bans, the one that ends later counts. That makes every merge idempotent: a call, a hand-over of the
    // fallback and a restoration all extend the ban to their end. There, the time of the ban has the place of permits,
    // and its age that of the grant. A reset ends the ban and forgets the denials; the life tells it from lost data.
    //
    // If the clock was set back to before the start of a ban, the ban starts now, and lasts as long as it had left.

    private static final int HEAD = 24;
    private static final int STRIKE = 6;
    private static final int MOST_LEVEL = 40;
    private static final long DAY = Duration.ofDays(1).toMillis();

    /** The times of denials, the oldest first; until the next change, some may count no more. */
    private final Deque<Long> strikes = new ArrayDeque<>();

    /** How many bans have followed one another within a day. */
    private int level;

    private long start;
    private long end;
    private long expires;
    private Limit.Ban limit = Limit.pausable();
    private long now;

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            limit = (Limit.Ban) claim.limit();
        }
        this.now = now;
        boolean isChanged = start > now;
        if (isChanged) {
            end = Math.max(0, end - (start - now));
            start = now;
        }
        int future = 0;
        while (!strikes.isEmpty() && strikes.getLast() > now) {
            strikes.removeLast();
            future++;
        }
        isChanged |= future > 0;
        for (; future > 0; future--) {
            strikes.addLast(now);
        }
        if (isChanged) {
            forgetExpired();
            changed();
        }
    }

    /** Forgets denials that count no more, as each change does; a request that changes nothing must not. */
    private void forgetExpired() {
        long from = now - limit.within().toMillis();
        while (!strikes.isEmpty() && strikes.getFirst() <= from) {
            strikes.removeFirst();
        }
    }

    private boolean isBanned() {
        return end > now;
    }

    @Override
    public long used() {
        return isBanned() ? 1 : 0;
    }

    @Override
    public boolean fits(long cost) {
        return !isBanned() && cost == 0;
    }

    /** {@inheritDoc} A cost is what the fallback knows of bans elsewhere, which end later. */
    @Override
    public long fitsAt(long cost) {
        return cost > 0 ? Long.MAX_VALUE : wholeAt();
    }

    @Override
    public long wholeAt() {
        return Math.max(now, end);
    }

    @Override
    public List<Grants> grants() {
        return isBanned() ? List.of(new Grants(start, start, end - start)) : List.of();
    }

    /** {@inheritDoc} No request takes anything. */
    @Override
    public void take(long cost) {}

    @Override
    public void takeBeyond(long cost, long most) {}

    @Override
    public void recordDenied(long cost) {
        forgetExpired();
        strikes.addLast(now);
        if (strikes.size() >= limit.permits()) {
            strikes.clear();
            boolean isFirst = !limit.isGrowing() || now >= end + DAY;
            level = isFirst ? 1 : Math.min(MOST_LEVEL, level + 1);
            extend((long) Math.min(Long.MAX_VALUE, limit.time().toMillis() * Math.pow(2, level - 1)));
        }
        changed();
    }

    /** Bans for a time from now on, unless the present ban ends later; returns whether this is later. */
    private boolean extend(long millis) {
        long until = now + Math.min(millis, LimitKind.reach(limit));
        if (until <= Math.max(now, end)) {
            return false;
        }
        start = now;
        end = until;
        forgetExpired();
        changed();
        return true;
    }

    @Override
    public void refund(long takenAt, long permits) {}

    @Override
    public void refundOldest(long permits) {}

    @Override
    public long charge(List<Grants> ages) {
        boolean isLater = false;
        for (Grants some : ages) {
            isLater |= extend(some.permits() - some.toMillis());
        }
        return isLater ? end - now : 0;
    }

    /** {@inheritDoc} The first number is the end. */
    @Override
    @Nullable
    Restored restore(List<Grants> ages, Restored earlier) {
        return charge(ages) > 0 ? earlier.with(end, 0, 0) : null;
    }

    @Override
    public void clear() {
        strikes.clear();
        level = 0;
        end = 0;
        changed();
    }

    @Override
    int emptyLength() {
        return HEAD;
    }

    @Override
    boolean readValue(Limit limit, byte[] value) {
        if (value.length == 0) {
            return true;
        }
        CountValue in = new CountValue(value);
        if (value.length < HEAD || (value.length - HEAD) % STRIKE != 0 || in.nextKind() != CountValue.BAN) {
            return false;
        }
        this.limit = (Limit.Ban) limit;
        readLife(in);
        level = (int) in.next(1);
        start = in.next(6);
        end = in.next(6);
        expires = in.next(6);
        while (in.hasMore()) {
            strikes.addLast(in.next(STRIKE));
        }
        return true;
    }

    @Override
    public byte[] write(long micros) {
        expires = expiresAt();
        CountValue out = new CountValue(HEAD + STRIKE * strikes.size(), CountValue.BAN, lifeAt(micros))
                .add(level, 1)
                .add(start, 6)
                .add(end, 6)
                .add(expires, 6);
        strikes.forEach(struck -> out.add(struck, STRIKE));
        return out.bytes();
    }

    @Override
    public long expiresAt() {
        long grows = limit.isGrowing() && level > 0 ? DAY : 0;
        long struck = strikes.isEmpty() ? 0 : strikes.getLast() + limit.within().toMillis();
        return Math.max(Math.max(expires, now + 1), Math.max(end + grows, struck));
    }
}
