package io.github.spillgate.local;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.Settlement.Hits;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;

/**
 * What is remembered under one identity. Not safe for threads by itself: whoever uses a count holds its monitor, for
 * the few nanoseconds that a step takes.
 *
 * <p>A step starts with {@link #look(Limit, long)}; what the other methods say or do is of the time that it was given.
 * Looking drops nothing that has left, unless it is much; only changing does: so a denied request leaves no trace, and
 * the scripts in Redis, which write only when something changes, answer the same.
 */
abstract sealed class Count permits LogCount, CounterCount {

    /** Whether the store remembers a count, and where. */
    private enum Place {
        ORDINARY,
        APART,
        FORGOTTEN
    }

    private static final AtomicReferenceFieldUpdater<Count, Place> PLACE =
            AtomicReferenceFieldUpdater.newUpdater(Count.class, Place.class, "place");

    private volatile Place place = Place.ORDINARY;
    private Carried carried = Carried.NOTHING;

    static Count of(Limit limit) {
        return limit.algorithm() == Algorithm.LOG ? new LogCount() : new CounterCount();
    }

    /**
     * Says that the cache has forgotten this count. Unless it is kept apart, whoever still holds it must ask the store
     * for its successor.
     *
     * @return whether it is forgotten
     */
    final boolean retire() {
        return PLACE.compareAndSet(this, Place.ORDINARY, Place.FORGOTTEN);
    }

    final boolean isRetired() {
        return place == Place.FORGOTTEN;
    }

    /** Says that this count is kept apart, whatever the cache forgets; false if it is forgotten already. */
    final boolean keepApart() {
        return PLACE.compareAndSet(this, Place.ORDINARY, Place.APART);
    }

    final boolean isKeptApart() {
        return place == Place.APART;
    }

    /** Says that this count is one like all the others again. */
    final void letGo() {
        PLACE.compareAndSet(this, Place.APART, Place.ORDINARY);
    }

    /** What weighs on this count besides its own hits, to read. */
    final Carried carried() {
        return carried;
    }

    /** The same, to write. */
    final Carried carrying() {
        if (carried == Carried.NOTHING) {
            carried = new Carried();
        }
        return carried;
    }

    /**
     * Looks at this count at a time, in milliseconds. Where the clock has stepped back, what lies ahead is pulled to
     * now.
     */
    abstract void look(Limit limit, long now);

    /** How many permits count as used. */
    abstract long used();

    /** Whether so many more fit, at most the limit's permits. */
    abstract boolean fits(Limit limit, long cost);

    /** When so many fit, at most the limit's permits. */
    abstract long fitsAt(Limit limit, long cost);

    /** When nothing is used any more. */
    abstract long wholeAt();

    /** How many permits are recorded that have not left, be they faded or not. */
    abstract long recorded();

    /** What is recorded and has not left, by when it was taken, the oldest first. */
    abstract List<Hits> hits();

    /** Takes a cost, at least 1. */
    abstract void take(long cost);

    /** Records as much of a denied cost, at least 1, as keeps the client out. */
    abstract void recordDenied(Limit limit, long cost);

    /** Gives back so many of the permits that were taken at a time, if they have not left. */
    abstract void refund(Limit limit, long takenAt, long permits);

    /** Gives back so many of the oldest permits. */
    abstract void refundOldest(long permits);

    abstract void clear();

    /** Forgets also what weighs on this count; what was decided with an older stamp than this, it never has again. */
    final void forgetAll(long stamp, long now) {
        clear();
        carried = Carried.afterReset(stamp, now);
    }
}
