package io.github.spillgate.count;

import io.github.spillgate.Limit;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreUsage;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import org.jspecify.annotations.Nullable;

/**
 * The permits in use under one identity, by the rules of one kind of limit. For the stores of this library, not for
 * applications: it is no API.
 *
 * <p>Not thread-safe. In a table of counts, a thread holds the monitor of the count while it uses it.
 *
 * <p>Each step begins with {@link #advance}; the other methods refer to the limit and the time that it was given. As
 * long as the clock does not go back, advancing changes nothing that a later step depends on: a denied request leaves
 * no trace, and the scripts in Redis, which write only when something changes, return the same.
 *
 * <p>A step does not write the limit again if it is the same: a count is in the old generation of the heap, where G1
 * follows up each write of a reference. With many keys that takes longer than the step.
 */
public abstract class Count {

    /** The shortest time for which a reset is known, in milliseconds. */
    private static final long LEAST_LIFE_OF_RESET = 600_000;

    /** In place of a limit, before the first step. */
    static final Limit NO_LIMIT = Limit.perSecond(1);

    /** Where the table keeps a count. */
    private enum Place {
        CACHE,
        PROTECTED,
        EVICTED
    }

    private static final AtomicReferenceFieldUpdater<Count, Place> PLACE =
            AtomicReferenceFieldUpdater.newUpdater(Count.class, Place.class, "place");

    private volatile Place place = Place.CACHE;

    /** The period of the last use, and the number of uses in it, up to a bound. Races make little difference. */
    private int periodOfUse;

    private int usesInPeriod;

    private long resetStamp;
    private boolean isChanged;

    /** Creates an empty count. */
    protected Count() {}

    /**
     * Returns an empty count for a limit.
     *
     * @param limit the limit
     * @return a count of its {@linkplain LimitKind kind}
     */
    public static Count of(Limit limit) {
        return LimitKind.of(limit).newCount();
    }

    // Where a table keeps it.

    /**
     * Marks this count as evicted, unless it is protected.
     *
     * @return whether it is evicted now
     */
    public final boolean evict() {
        return PLACE.compareAndSet(this, Place.CACHE, Place.EVICTED);
    }

    /**
     * Returns whether the table has evicted this count. What is recorded in it from then on is lost.
     *
     * @return whether it is evicted
     */
    public final boolean isEvicted() {
        return place == Place.EVICTED;
    }

    /**
     * Protects this count from eviction.
     *
     * @return false if it is evicted already
     */
    public final boolean protect() {
        return PLACE.compareAndSet(this, Place.CACHE, Place.PROTECTED);
    }

    /**
     * Returns whether this count is protected from eviction.
     *
     * @return whether it is protected
     */
    public final boolean isProtected() {
        return place == Place.PROTECTED;
    }

    /** Ends the protection from eviction. */
    public final void unprotect() {
        PLACE.compareAndSet(this, Place.PROTECTED, Place.CACHE);
    }

    /**
     * Returns whether the table has to record this use of the count: in each period some uses, and then one of as many.
     *
     * @param period the number of the present period
     * @param some how many uses
     * @return whether it is to be recorded
     */
    public final boolean isUseDue(int period, int some) {
        boolean isNew = period != periodOfUse;
        periodOfUse = period;
        usesInPeriod = isNew ? 1 : usesInPeriod + 1;
        if (usesInPeriod < 2 * some) {
            return usesInPeriod <= some;
        }
        usesInPeriod = some;
        return true;
    }

    // As the value of a store, in the format of counts.lua. Only "of" and "read" return counts that have one.

    /**
     * Returns the count for a limit with the value of a store, which is then to be {@linkplain #advance advanced}.
     *
     * @param limit the limit
     * @param value the value; empty if there is none
     * @return the count; null if this library has not written the value
     */
    public static @Nullable Count read(Limit limit, byte[] value) {
        Count count = of(limit);
        return count.readValue(limit, value) ? count : null;
    }

    /** Reads a value into this empty count; returns false if it is foreign. */
    boolean readValue(Limit limit, byte[] value) {
        throw withoutValue();
    }

    /** Notes that the value has to be written. */
    final void changed() {
        isChanged = true;
    }

    /**
     * Returns whether the value has to be written: if a step has changed the count, and after a denial or a peek if the
     * clock was set back.
     *
     * @return whether it has changed since it was read
     */
    public final boolean isChanged() {
        return isChanged;
    }

    /**
     * Returns the value to write. Each value has the life of the one that was read; without one, a life begins.
     *
     * @param micros the time of the last step, in microseconds
     * @return the value; empty if it is to be deleted
     */
    public byte[] write(long micros) {
        throw withoutValue();
    }

    /**
     * Returns when the value that was read or written last expires. A store keeps it until then, or for as long as it
     * would have kept the value before, if that is longer.
     *
     * @return the time, in milliseconds
     */
    public long expiresAt() {
        throw withoutValue();
    }

    /**
     * Returns what a reset leaves of a value: its kind, its life, which counts the reset, and its expiry.
     *
     * @param limit the limit
     * @param value a value
     * @return the value without permits; empty if it is to be deleted, because it is foreign or has holders
     */
    public static byte[] emptied(Limit limit, byte[] value) {
        Count count = read(limit, value);
        return count == null ? CountValue.NONE : CountValue.emptied(value, count.emptyLength(), count.keptLength());
    }

    /** Returns the length of a value without permits, which ends with its expiry; 0 if it is deleted instead. */
    int emptyLength() {
        return 0;
    }

    /** Returns how many bytes at the end of a value, or of the head of a log, a reset keeps. */
    int keptLength() {
        return CountValue.EXPIRY;
    }

    /**
     * Returns for how long a store has to know a reset. Permits from before it can be refunded as long as they would
     * count, and other instances may have leased some; a cost can be settled later, when the work ends.
     *
     * @param limit the limit of the count
     * @return the time, in milliseconds
     */
    public static long lifeOfReset(Limit limit) {
        return Math.max(
                LEAST_LIFE_OF_RESET, LimitKind.reach(limit) + limit.leaseTime().toMillis());
    }

    static UnsupportedOperationException withoutValue() {
        return new UnsupportedOperationException("this count has no value: expected one of Count.of(limit)");
    }

    // What it holds.

    /**
     * Moves to a time. If the clock was set back, permits with a later time are moved to the new time.
     *
     * @param claim the claim to handle, with the limit in its present form
     * @param now the time, in milliseconds
     */
    public abstract void advance(Claim claim, long now);

    /**
     * Returns how many permits are in use.
     *
     * @return the number of permits
     */
    public abstract long used();

    /**
     * Returns whether a cost fits into the limit.
     *
     * @param cost the permits
     * @return whether they fit now
     */
    public abstract boolean fits(long cost);

    /**
     * Returns when a cost fits, if nothing else is taken.
     *
     * @param cost the permits, at most the burst of the limit
     * @return the time, in milliseconds
     */
    public abstract long fitsAt(long cost);

    /**
     * Returns when no permits are in use any more.
     *
     * @return the time, in milliseconds
     */
    public abstract long wholeAt();

    /**
     * Returns how many permits are recorded, whether they count in full or, in a counter, in part.
     *
     * @return the number of permits; by default those in use
     */
    public long recorded() {
        return used();
    }

    /**
     * Takes a cost.
     *
     * @param cost the permits, at least one
     */
    public abstract void take(long cost);

    /**
     * Takes a cost even if it does not fit, up to a number of used permits.
     *
     * @param cost the permits, at least one
     * @param most the highest number of used permits
     */
    public void takeBeyond(long cost, long most) {
        long taken = Math.min(cost, most - used());
        if (taken > 0) {
            take(taken);
        }
    }

    /**
     * Takes permits in advance, as if they were taken at the end of the lease time. Only for a log or a token bucket.
     *
     * @param most the most permits, at least one
     * @param parts takes at most one of as many parts of the permits that are left
     * @return how many permits were taken
     */
    public long lease(long most, int parts) {
        throw new UnsupportedOperationException("leases are for a log or a token bucket");
    }

    /**
     * Records a denied request, for a limit that counts them: as much of its cost as keeps the client out. By default
     * nothing, because a concurrency limit does not count them.
     *
     * @param cost the permits, at least one
     */
    public void recordDenied(long cost) {}

    /**
     * Charges a claim by the decision on it: its cost if it is allowed, or else the denial, if the limit records those.
     *
     * @param claim the claim of the present step
     * @param allowed whether the whole decision allows
     * @param isStruck whether the claim is on a ban for which the denial counts, see {@link #isStruck}
     */
    public final void decide(Claim claim, boolean allowed, boolean isStruck) {
        if (allowed && claim.permits() > 0) {
            take(claim.permits());
        } else if (!allowed && claim.limit().isCountingDenied() && (claim.permits() > 0 || isStruck)) {
            recordDenied(claim.permits());
        }
    }

    /**
     * Returns whether a denial counts for a ban: another limit of the same charge denies, and no ban of it does.
     *
     * @param ban the claim
     * @param claims all claims of the decision
     * @param fits whether each of them fits; if all of them do, this is no denial
     * @return false also if the claim is not on a ban
     */
    public static boolean isStruck(Claim ban, List<Claim> claims, boolean[] fits) {
        if (ban.limit().takesPermits()) {
            return false;
        }
        boolean isStruck = false;
        for (int i = 0; i < fits.length; i++) {
            if (!fits[i] && claims.get(i).charge() == ban.charge()) {
                if (!claims.get(i).limit().takesPermits()) {
                    return false;
                }
                isStruck = true;
            }
        }
        return isStruck;
    }

    /**
     * Returns the usage after a step, as the scripts report it.
     *
     * @param reply the time of the step; its stamp is in microseconds
     * @param claim the claim of the step
     * @param violated whether the claim did not fit
     * @param denied whether the decision is a denial, because of this claim or another one
     * @return the usage, with the life that the value has, or gets if it is written
     */
    public StoreUsage usage(Reply reply, Claim claim, boolean violated, boolean denied) {
        long fitsAt = denied ? fitsAt(claim.permits()) : reply.at();
        return new StoreUsage(
                reply, claim, used(), violated, fitsAt, wholeAt(), nextLife(reply.stamp()), null, false, null);
    }

    /**
     * Returns the period in which this count is.
     *
     * @return the period of a quota; null for other limits
     */
    public StoreUsage.@Nullable Windows period() {
        return null;
    }

    /** Returns the life that the value has, or gets if it is written; 0 for a count without lives. */
    int nextLife(long micros) {
        return 0;
    }

    /** Releases the hold of the claim. If it is not there yet, it will not be taken. A rate limit has no holds. */
    public void release() {}

    /** Removes all permits. */
    public abstract void clear();

    /**
     * Resets this count. Decisions with an older stamp took nothing that it still has.
     *
     * @param stamp the stamp of the reset
     */
    public final void reset(long stamp) {
        noteReset(stamp);
        clear();
    }

    /**
     * Notes a reset of this count.
     *
     * @param stamp the stamp of the reset
     */
    protected final void noteReset(long stamp) {
        resetStamp = stamp;
    }

    /**
     * Returns whether the count was reset after a decision.
     *
     * @param stamp the stamp of the decision
     * @return whether a reset has removed its permits
     */
    public final boolean isResetSince(long stamp) {
        return stamp < resetStamp;
    }
}
