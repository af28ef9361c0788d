package io.github.spillgate.internal;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A lower bound of the clock of a store's server, from the times in its replies. Thread-safe.
 *
 * <p>Translates a local deadline into a time on the server's clock that is not after the deadline.
 */
public final class StoreClock {
    // Design notes.
    //
    // A reply with the server's time T arrives at local time t. The server read its clock before t, so its clock shows
    // T or more at t, and T + (d - t) or more at a later local time d. The offset T - t of the fastest reply is the
    // best bound.
    //
    // Clocks run at different speeds, by at most 500 ppm while NTP corrects one of them, so an offset is lowered by
    // that much of its age, but by no more than 5 ms: over a longer time NTP keeps the clocks of both hosts together.
    // A server with a clock that is set back would accept late requests for as long as the step, so the best offset is
    // dropped once there have been newer replies for one to two periods.
    //
    // A bound that is too low, for example after a slow reply, makes the server refuse a request that is not late. The
    // caller then retries, with the bound of that reply.

    /** The time, in nanoseconds, in which the best offset is searched; it counts in the next period too. */
    private static final long PERIOD = TimeUnit.SECONDS.toNanos(1);

    /** The age of an offset, divided by the error that the age may cause. */
    private static final long DRIFT = 2_000;

    private static final long MOST_DRIFT = TimeUnit.MILLISECONDS.toNanos(5);

    /** A deadline that is later than this counts as none. */
    private static final long FARTHEST = TimeUnit.DAYS.toNanos(1);

    private final LongSupplier nanoTime;
    private volatile @Nullable Bound bound;

    /** The difference of both clocks in the newest reply. */
    private volatile @Nullable Offset newest;

    public StoreClock(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
    }

    /** Records the server's time in a reply that has just arrived. */
    public synchronized void record(long micros) {
        long now = nanoTime.getAsLong();
        Offset offset = new Offset(TimeUnit.MICROSECONDS.toNanos(micros) - now, now);
        newest = offset;
        Bound known = bound;
        if (known == null) {
            bound = new Bound(offset, offset, now);
        } else if (now - known.since > PERIOD) {
            bound = new Bound(offset, now - known.since > 2 * PERIOD ? offset : known.best, now);
        } else if (offset.nanos >= known.best.at(now)) {
            bound = new Bound(offset, known.before, known.since);
        }
    }

    /** Returns the server's time in milliseconds by its newest reply; the local time if there is none. */
    public long millis() {
        Offset known = newest;
        return known == null ? Time.millis() : TimeUnit.NANOSECONDS.toMillis(known.nanos + nanoTime.getAsLong());
    }

    /** Returns whether a deadline has passed. */
    public boolean isAfter(long deadline) {
        return isAfter(deadline, nanoTime.getAsLong());
    }

    /** Returns whether a deadline has passed at a time of the same local clock. */
    public static boolean isAfter(long deadline, long now) {
        return !isFarAway(deadline, now) && now - deadline > 0;
    }

    /**
     * Returns a time on the server's clock that is not after a deadline.
     *
     * @param deadline the deadline, in local time
     * @return the time in microseconds; 0 if there is no deadline, or if the server's time is unknown
     */
    public long microsAt(long deadline) {
        Bound known = bound;
        if (known == null || isFarAway(deadline, nanoTime.getAsLong())) {
            return 0;
        }
        long offset = Math.max(known.best.at(deadline), known.before.at(deadline));
        return Math.max(1, TimeUnit.NANOSECONDS.toMicros(offset + deadline));
    }

    /** Avoids the difference of the two, which may overflow. */
    private static boolean isFarAway(long deadline, long now) {
        return deadline > FARTHEST && deadline - FARTHEST > now;
    }

    /**
     * A difference of the two clocks.
     *
     * @param nanos the server's time less the local time
     * @param measuredAt when it was measured, in local time
     */
    private record Offset(long nanos, long measuredAt) {

        /** Returns a lower bound of the offset at another time. */
        long at(long time) {
            return nanos - Math.min(MOST_DRIFT, Math.abs(time - measuredAt) / DRIFT);
        }
    }

    /**
     * The best offsets of two periods.
     *
     * @param best the best offset of this period
     * @param before the best offset of the previous period
     * @param since the start of this period
     */
    private record Bound(Offset best, Offset before, long since) {}
}
