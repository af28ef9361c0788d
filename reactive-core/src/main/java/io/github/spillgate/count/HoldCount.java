package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The holders of a concurrency limit. Each step is about the hold of the claim that {@link #advance} was given. For
 * the stores of this library, not for applications: it is no API.
 */
public final class HoldCount extends Count {
    // Design notes.
    //
    // A hold expires when its hold time has passed since it was taken or renewed. If the clock is set back, a hold that
    // began in the future begins now: it lasts no longer than its hold time from then on. A renewal never shortens it.
    //
    // A release can arrive before the request that it ends: the two may use different connections, or the request may
    // wait in a queue. So a release of an unknown hold leaves a tombstone, and the request finds it and takes nothing.
    // Tombstones live as long as a request can be in flight, and there are few of them, because few releases overtake.
    // If there are too many, the oldest is dropped; the hold of that request may then last for its hold time.
    //
    // A renewal takes a hold that is unknown, even above the limit: it is in use, whether the store knows that or not.
    // Its owner does not renew it after its hold time. docs/decisions/0041-concurrency-limits.md has the reasons.
    //
    // Most steps change nothing that was there before. So that these need not visit all holds, two times are kept: the
    // earliest expiry, and the latest beginning. holds.lua does the same.

    /** The life of a tombstone in milliseconds: as long as a late reply is accepted. */
    public static final long TOMBSTONE_LIFE = 60_000;

    /** The highest number of tombstones. */
    public static final int MOST_TOMBSTONES = 64;

    /** A renewal takes unknown permits only while fewer than this number are held: ten times the highest limit. */
    public static final int MOST_HELD = 10_000;

    private static final int HEAD = 31;
    private static final int HOLD = 28;

    /** The highest number of six bytes, in a value without an expiry. */
    private static final long NO_EXPIRY = (1L << 48) - 1;

    private final Map<UUID, Hold> holds = new LinkedHashMap<>();
    private long used;
    private long earliestExpiry = Long.MAX_VALUE;
    private long latestBeginning = Long.MIN_VALUE;

    /** When nothing is left, not even a tombstone; later than that if holds were released. */
    private long ends;

    private Limit limit = Limit.concurrent(1);
    private @Nullable UUID id;
    private long now;

    /** Creates a count without holders. */
    public HoldCount() {}

    @Override
    public void advance(Claim claim, long now) {
        if (!limit.equals(claim.limit())) {
            limit = claim.limit();
        }
        this.id = claim.holdId();
        this.now = now;
        if (latestBeginning > now || earliestExpiry <= now) {
            visitAll();
        }
    }

    /** Moves what lies in the future to now, and removes what has expired. */
    private void visitAll() {
        earliestExpiry = Long.MAX_VALUE;
        latestBeginning = Long.MIN_VALUE;
        ends = 0;
        changed();
        for (Iterator<Map.Entry<UUID, Hold>> all = holds.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry<UUID, Hold> entry = all.next();
            Hold hold = entry.getValue();
            if (hold.beginning() > now) {
                hold = new Hold(now + hold.life, hold.life, hold.permits);
                entry.setValue(hold);
            }
            if (hold.expiry <= now) {
                used -= hold.permits;
                all.remove();
            } else {
                noteTimes(hold);
            }
        }
    }

    private void noteTimes(Hold hold) {
        earliestExpiry = Math.min(earliestExpiry, hold.expiry);
        latestBeginning = Math.max(latestBeginning, hold.beginning());
        ends = Math.max(ends, hold.expiry);
    }

    private @Nullable Hold hold() {
        return id == null ? null : holds.get(id);
    }

    private void put(Hold hold) {
        holds.put(Objects.requireNonNull(id, "a claim that takes permits of a concurrency limit has an id"), hold);
        noteTimes(hold);
        changed();
    }

    /**
     * Returns whether permits are held under an id.
     *
     * @param holdId the id
     * @return whether they are held now
     */
    public boolean isHeld(UUID holdId) {
        Hold hold = holds.get(holdId);
        return hold != null && !hold.isTombstone();
    }

    @Override
    public long used() {
        return used;
    }

    @Override
    public boolean fits(long cost) {
        Hold hold = hold();
        return hold == null ? used + cost <= limit.permits() : !hold.isTombstone();
    }

    @Override
    public long fitsAt(long cost) {
        return fits(cost) ? now : now + limit.retryAfter().toMillis();
    }

    @Override
    public long wholeAt() {
        return lastExpiry(now);
    }

    /** Returns when the last hold with permits expires; not before a time. */
    private long lastExpiry(long least) {
        long last = least;
        for (Hold hold : holds.values()) {
            if (!hold.isTombstone()) {
                last = Math.max(last, hold.expiry);
            }
        }
        return last;
    }

    @Override
    public void take(long cost) {
        if (hold() == null) {
            long life = limit.holdTime().toMillis();
            put(new Hold(now + life, life, cost));
            used += cost;
        }
    }

    /**
     * Renews the hold of the claim.
     *
     * @param cost the permits of the claim
     * @return what has been done
     */
    public HoldRenewal.RenewalOutcome renew(long cost) {
        Hold hold = hold();
        if (hold == null) {
            if (used >= MOST_HELD) {
                return HoldRenewal.RenewalOutcome.FULL;
            }
            take(cost);
            return HoldRenewal.RenewalOutcome.RESTORED;
        }
        if (hold.isTombstone()) {
            return HoldRenewal.RenewalOutcome.RELEASED;
        }
        long expiry = Math.max(hold.expiry, now + limit.holdTime().toMillis());
        put(new Hold(expiry, expiry - now, hold.permits));
        return HoldRenewal.RenewalOutcome.RENEWED;
    }

    @Override
    public void release() {
        Hold hold = hold();
        if (hold == null) {
            put(new Hold(now + TOMBSTONE_LIFE, TOMBSTONE_LIFE, 0));
            dropOldestTombstone();
        } else if (!hold.isTombstone()) {
            holds.remove(id);
            used -= hold.permits;
            changed();
        }
    }

    private void dropOldestTombstone() {
        UUID oldest = null;
        int number = 0;
        for (Map.Entry<UUID, Hold> entry : holds.entrySet()) {
            if (entry.getValue().isTombstone()) {
                oldest = oldest == null ? entry.getKey() : oldest;
                number++;
            }
        }
        if (number > MOST_TOMBSTONES) {
            holds.remove(oldest);
        }
    }

    @Override
    public void clear() {
        holds.clear();
        used = 0;
        earliestExpiry = Long.MAX_VALUE;
        latestBeginning = Long.MIN_VALUE;
        ends = 0;
        changed();
    }

    @Override
    boolean readValue(Limit limit, byte[] value) {
        if (value.length < HEAD) {
            return value.length == 0;
        }
        CountValue in = new CountValue(value);
        if ((value.length - HEAD) % HOLD != 0 || in.nextKind() != CountValue.HOLDS) {
            return false;
        }
        used = in.next(4);
        earliestExpiry = in.next(6);
        latestBeginning = in.next(6);
        in.skip(6);
        ends = in.next(6);
        while (in.hasMore()) {
            UUID holder = new UUID(in.next(Long.BYTES), in.next(Long.BYTES));
            holds.put(holder, new Hold(in.next(6), in.next(4), in.next(2)));
        }
        return true;
    }

    @Override
    public byte[] write(long micros) {
        if (holds.isEmpty()) {
            return new byte[0];
        }
        CountValue out = new CountValue(HEAD + HOLD * holds.size(), CountValue.HOLDS)
                .add(used, 4)
                .add(Math.min(earliestExpiry, NO_EXPIRY), 6)
                .add(Math.max(latestBeginning, 0), 6)
                .add(lastExpiry(0), 6)
                .add(ends, 6);
        holds.forEach((holder, hold) -> out.add(holder.getMostSignificantBits(), Long.BYTES)
                .add(holder.getLeastSignificantBits(), Long.BYTES)
                .add(hold.expiry, 6)
                .add(hold.life, 4)
                .add(hold.permits, 2));
        return out.bytes();
    }

    @Override
    public long expiresAt() {
        return ends;
    }

    /**
     * Permits that are held, or, without permits, the tombstone of a hold.
     *
     * @param expiry when it expires
     * @param life for how long it is held from its beginning
     * @param permits the permits
     */
    private record Hold(long expiry, long life, long permits) {

        long beginning() {
            return expiry - life;
        }

        boolean isTombstone() {
            return permits == 0;
        }
    }
}
