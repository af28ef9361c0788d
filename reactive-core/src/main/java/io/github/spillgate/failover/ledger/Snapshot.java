package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.BucketState;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * One reply of the primary store about a count. From then on its permits expire as time passes, until none is in use.
 *
 * <p>It only changes when the next reply {@linkplain #replace replaces} it. A ledger is in the old generation of the
 * heap, so a reply in an object of its own would cost the garbage collector more than the decision.
 */
public final class Snapshot {
    // Design notes.
    //
    // If Redis stops, permits still expire as time passes, and the fallback may grant them again. The usage may only be
    // too high, never too low. When permits expire is known in part:
    //
    //   counter   Exactly, for the permits of all instances: it fades by a formula. So does a bucket.
    //   log       For the permits of this instance (OwnPermits). The others count until the last permit expires.
    //   quota     Exactly: all of them at the end of the period. So does a ban.
    //
    // The store's clock is taken to run from the reply on. That is never ahead of it, because the reply was made before
    // it arrived. Counters and buckets are read at steps, so that a search for the time at which a cost fits ends.

    /** The time of a request, if it is not known when that was sent. */
    public static final long NOT_KNOWN = Long.MIN_VALUE;

    private static final long NEVER = Long.MAX_VALUE;

    /** The permits of this instance, as far as they are known; those that are granted later are added. */
    private final OwnPermits own;

    /** The life of the count, as in {@link StoreUsage#life()}; 0 without one. */
    private int life;

    /** The permits in use. */
    private long used;

    /** When none of them is in use any more, on the store's clock. */
    private long ends;

    /** Whether the windows of a counter are known. */
    private boolean hasWindows;

    /** Of a counter, the start of the current window, and of a quota, that of the period; on the store's clock. */
    private long start;

    /** Of a counter, the permits of its windows. */
    private long previous;

    private long current;

    /** The time of the reply, on the store's clock, and its stamp, which orders replies of the same time. */
    private long at;

    private long stamp;

    /** The local time at which it arrived. */
    private long arrived;

    /** When its request was sent, and when it arrived, on the clock for durations. */
    private long sentNanos;

    private long arrivedNanos;

    /**
     * Creates a snapshot.
     *
     * @param start of a quota, the start of the period; that of a counter is part of its state
     * @param counter the state of a counter; null if it is not known, and for other limits
     */
    Snapshot(
            int life,
            long used,
            long ends,
            long start,
            @Nullable CounterState counter,
            long at,
            long stamp,
            long arrived,
            long sentNanos,
            long arrivedNanos,
            OwnPermits own) {
        this.life = life;
        this.used = used;
        this.ends = ends;
        this.hasWindows = counter != null;
        this.start = counter == null ? start : counter.start();
        this.previous = counter == null ? 0 : counter.previous();
        this.current = counter == null ? 0 : counter.current();
        this.at = at;
        this.stamp = stamp;
        this.arrived = arrived;
        this.sentNanos = sentNanos;
        this.arrivedNanos = arrivedNanos;
        this.own = own;
    }

    /** Returns what is known before any reply. */
    static Snapshot none(OwnPermits own) {
        return new Snapshot(0, 0, 0, 0, null, Long.MIN_VALUE, 0, 0, NOT_KNOWN, NOT_KNOWN, own);
    }

    /** Returns what is known after a reset: replies to requests from before it say nothing. */
    static Snapshot reset(OwnPermits own, long now, long nanos) {
        return new Snapshot(0, 0, 0, 0, null, Long.MAX_VALUE, 0, now, nanos, nanos, own);
    }

    /**
     * Replaces all but the permits of this instance.
     *
     * @param now the local time
     * @param sent when its request was sent
     * @param nanos the present time on the clock for durations
     */
    void replace(StoreUsage usage, long now, long sent, long nanos) {
        StoreUsage.Windows windows = usage.windows();
        CounterState counter = usage.limit() instanceof Limit.Counter ? CounterState.of(windows) : null;
        life = usage.life();
        used = usage.used();
        ends = usage.wholeAtMillis();
        hasWindows = counter != null;
        start = windows == null ? 0 : windows.start();
        previous = counter == null ? 0 : counter.previous();
        current = counter == null ? 0 : counter.current();
        at = usage.reply().at();
        stamp = usage.reply().stamp();
        arrived = now;
        sentNanos = sent;
        arrivedNanos = nanos;
    }

    int life() {
        return life;
    }

    long used() {
        return used;
    }

    long ends() {
        return ends;
    }

    long start() {
        return start;
    }

    long at() {
        return at;
    }

    long arrived() {
        return arrived;
    }

    OwnPermits own() {
        return own;
    }

    private @Nullable CounterState counter() {
        return hasWindows ? new CounterState(start, previous, current) : null;
    }

    /** Returns whether there was any reply. */
    boolean isKnown() {
        return at != Long.MIN_VALUE && at != Long.MAX_VALUE;
    }

    // The order of replies.

    /** Returns whether a usage is of the same life of the count: nothing was lost in between. */
    boolean isOfSameLife(int otherLife) {
        return life / StoreUsage.RESETS == otherLife / StoreUsage.RESETS;
    }

    /**
     * Returns whether a reply is newer than this one. It is if its request was sent after this one had arrived; if it
     * is of the same life, and its time is later; or if the life of this one has ended by then.
     */
    boolean isOlderThan(StoreUsage usage, long requestSent, long nanos) {
        if (at == Long.MIN_VALUE) {
            return true;
        }
        boolean isSameLife = isOfSameLife(usage.life());
        if (requestSent != NOT_KNOWN && requestSent - arrivedNanos >= (isSameLife ? 1 : 0)) {
            return true;
        }
        long replyAt = usage.reply().at();
        long replyStamp = usage.reply().stamp();
        if (isSameLife) {
            return replyAt != at ? replyAt > at : replyStamp > stamp || (replyStamp == stamp && usage.used() > used);
        }
        return isKnown() && replyAt >= ends && at + TimeUnit.NANOSECONDS.toMillis(nanos - sentNanos) >= ends;
    }

    /** Returns whether this life must have been alive at the time of another reply, by both clocks. */
    boolean isAlive(Limit limit, long otherAt, long now) {
        return life != 0 && otherAt < ends && usedAt(limit, now) > 0;
    }

    // The usage at a local time.

    /** Returns the permits in use. */
    long usedAt(Limit limit, long time) {
        if (used == 0 || time >= localEnd()) {
            return 0;
        }
        long passed = Math.max(0, time - arrived);
        if (expireOneByOne(limit)) {
            return passed == 0 ? used : used - own.released(limit, at, used, at + passed);
        }
        long then = at + passed - passed % step(limit);
        if (isBucket(limit)) {
            return new BucketState(BucketState.units(limit, used), at)
                    .at(limit, then)
                    .used(limit);
        }
        CounterState state = counter();
        return state == null ? used : state.at(limit, then).used(limit, then);
    }

    /**
     * Returns the permits in use, as far as one of several instances can know: it takes the permits of the others to
     * expire like its own. For a share of the limit only.
     */
    long estimatedAt(Limit limit, long time) {
        long certain = usedAt(limit, time);
        if (certain == 0 || !expireOneByOne(limit)) {
            return certain;
        }
        double then = Math.min(used, own.inUse(limit, at));
        double left = then == 0 ? 1 : (then - own.released(limit, at, used, at + Math.max(0, time - arrived))) / then;
        return Math.min(certain, (long) Math.ceil(used * left));
    }

    /** Returns the next time after this one at which the usage may change; {@code Long.MAX_VALUE} if there is none. */
    long changesAfter(Limit limit, long time) {
        if (used == 0 || time >= localEnd()) {
            return NEVER;
        }
        long passed = Math.max(0, time - arrived);
        long next = expireOneByOne(limit)
                ? own.nextRelease(at + passed) - at + arrived
                : arrived + passed - passed % step(limit) + step(limit);
        return Math.min(localEnd(), next);
    }

    /** Returns the local time from which nothing is in use, which may have passed. */
    long localEnd() {
        return used == 0 ? arrived : arrived + Math.max(0, ends - at);
    }

    /** Returns after how many milliseconds a usage that fades is read again. */
    static long step(Limit limit) {
        return Math.max(1, limit.quotaWindow().toMillis() / OwnPermits.STEPS);
    }

    static boolean isBucket(Limit limit) {
        return limit instanceof Limit.Bucket;
    }

    /** Returns whether each permit counts in full until it expires, as in a log. Those of other kinds fade together. */
    static boolean expireOneByOne(Limit limit) {
        return limit instanceof Limit.Log;
    }

    /** Returns how many of the permits in use are of this instance, as far as it knows; not of a bucket. */
    double ownUsed(Limit limit) {
        return ownUsedAt(limit, arrived);
    }

    /** Returns the same at a local time, if nothing else was granted since. */
    double ownUsedAt(Limit limit, long time) {
        long then = at + Math.max(0, time - arrived);
        CounterState state = counter();
        return state == null
                ? Math.min(used, own.inUse(limit, then))
                : Math.min(used, Math.round(own.inUse(limit, state.at(limit, then), then)));
    }

    /** Returns the permits in use with local times at which they may have been taken, the oldest first. */
    List<Grants> grants(Limit limit, long now) {
        List<Grants> grants = new ArrayList<>();
        CounterState state = counter();
        if (state != null) {
            long time = at + Math.max(0, now - arrived);
            CounterState present = state.at(limit, time);
            long start = now - (time - present.start());
            long half = limit.window().toMillis() / 2;
            // In the middle of their windows: at the start, a clock that differs a little would move them to others.
            add(grants, start - 2 * half, start - half, present.previous());
            add(grants, start, Math.max(start, Math.min(now, start + half)), present.current());
        } else if (isBucket(limit)) {
            addAt(grants, arrived, used);
        } else if (limit instanceof Limit.Quota) {
            add(grants, start, ends, usedAt(limit, now));
        } else if (!limit.takesPermits()) {
            add(grants, now, now, usedAt(limit, now) * (localEnd() - now));
        } else {
            long others = usedAt(limit, now);
            List<Grants> owned = own.grants(limit, at, at + Math.max(0, now - arrived));
            // The youngest first: if there are fewer, refunds have removed the oldest.
            for (int i = owned.size() - 1; i >= 0; i--) {
                long permits = Math.min(others, owned.get(i).permits());
                addAt(grants, owned.get(i).toMillis() - at + arrived, permits);
                others -= permits;
            }
            // They may be as young as the last permit, which expires last.
            addAt(grants, Math.min(arrived, localEnd() - limit.window().toMillis()), others);
            grants.sort(Comparator.comparingLong(Grants::toMillis));
        }
        return grants;
    }

    private static void addAt(List<Grants> grants, long time, long permits) {
        add(grants, time, time, permits);
    }

    private static void add(List<Grants> grants, long from, long to, long permits) {
        if (permits > 0) {
            grants.add(new Grants(from, to, permits));
        }
    }

    // Changes.

    /** Returns this reply as if it had arrived at a local time: the local clock was set back. */
    Snapshot arrivedAt(long time) {
        return with(used, counter(), time);
    }

    /** Returns what is left of the level of a bucket at a local time, from which on others return. */
    Snapshot fallenTo(Limit limit, long time) {
        return with(usedAt(limit, time), null, time);
    }

    /** Returns this usage without permits that were taken at a time of the store's clock, as far as it has them. */
    Snapshot without(Limit limit, long permits, long takenAt) {
        if (takenAt > at || used == 0) {
            return this;
        }
        CounterState state = counter();
        if (state != null) {
            return with(limit, state.minus(limit, takenAt, permits));
        } else if (isBucket(limit)) {
            long left = BucketState.levelAfter(limit, BucketState.units(limit, permits), at - takenAt);
            return withUsed(used - left / limit.window().toMillis());
        }
        if (limit instanceof Limit.Quota) {
            return takenAt >= start ? withUsed(used - permits) : this;
        }
        // Of a counter with an unknown state, permits may have faded.
        long counts = expireOneByOne(limit) ? limit.window().toMillis() : 1;
        return at - takenAt < counts ? withUsed(used - permits) : this;
    }

    /** Returns this usage without the oldest permits. */
    Snapshot withoutOldest(Limit limit, long permits) {
        CounterState state = counter();
        return state == null ? withUsed(used - permits) : with(limit, state.minusOldest(permits));
    }

    /**
     * Returns this usage without permits that the store has charged. Not of kinds that fade: these may be gone, and
     * what would be subtracted instead is in use.
     */
    Snapshot withoutCharged(Limit limit, long permits) {
        boolean countInFull = expireOneByOne(limit) || limit instanceof Limit.Quota;
        return countInFull ? withoutOldest(limit, permits) : this;
    }

    private Snapshot withUsed(long left) {
        return with(Math.max(0, left), counter(), arrived);
    }

    private Snapshot with(Limit limit, CounterState state) {
        return with(state.used(limit, at), state, arrived);
    }

    private Snapshot with(long newUsed, @Nullable CounterState newCounter, long newArrived) {
        return new Snapshot(
                life, newUsed, ends, start, newCounter, at, stamp, newArrived, sentNanos, arrivedNanos, own);
    }
}
