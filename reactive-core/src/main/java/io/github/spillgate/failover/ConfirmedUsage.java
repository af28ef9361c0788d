package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;

/**
 * The usage of a count that the primary store has confirmed: a number of permits until a time, then fewer until a later
 * time, then none. Guarded by the monitor of its {@link Ledger}.
 *
 * <p>The times of replies are those of the server's clock. Of replies whose order is certain, the newest counts.
 * Replies of the same millisecond, and replies that arrive out of order, may have been decided in any order, so the
 * highest value of them counts.
 */
final class ConfirmedUsage {

    /**
     * Replies arrive out of order by at most the time for which late replies are accepted. If one is older than that,
     * the server's clock was set back.
     */
    static final long OUT_OF_ORDER = 61_000;

    private static final long NEVER = Long.MAX_VALUE;

    private long used;
    private long usedUntil;

    /** The lower step, which counts from {@code usedUntil} on. */
    private long usedThen;

    private long usedThenUntil;

    /** The server's time of the newest reply. */
    private long newestReply;

    /** The server's time of the first reply since the last reset: what was taken before it is not included. */
    private long firstReply;

    /** Replies that arrive before this local time may be from before the last reset. */
    private long resetUncertainUntil = Long.MIN_VALUE;

    /**
     * Records a reply.
     *
     * @param permits the permits in use
     * @param until the local time at which none of them counts any more
     * @param repliedAt the server's time
     * @param now the local time
     */
    void report(long permits, long until, long repliedAt, long now) {
        if (repliedAt > newestReply || newestReply - repliedAt >= OUT_OF_ORDER) {
            if (newestReply == 0 || repliedAt < newestReply || firstReply == NEVER) {
                firstReply = now < resetUncertainUntil ? NEVER : repliedAt;
            }
            newestReply = repliedAt;
            used = permits;
            usedUntil = until;
            usedThen = 0;
            usedThenUntil = 0;
        } else {
            dropExpired(now);
            raiseTo(permits, until);
        }
    }

    /** A high value does not extend a low one that lasts longer, or neither would ever end. */
    private void raiseTo(long permits, long until) {
        if (permits >= used) {
            used = permits;
            usedUntil = Math.max(usedUntil, until);
        } else if (until > usedUntil) {
            usedThen = Math.max(usedThen, permits);
            usedThenUntil = Math.max(usedThenUntil, until);
        }
    }

    private void dropExpired(long now) {
        if (now >= usedUntil) {
            used = at(now);
            usedUntil = usedThenUntil;
            usedThen = 0;
            usedThenUntil = 0;
        }
    }

    /** Returns the permits in use at a time. */
    long at(long time) {
        if (time < usedUntil) {
            return used;
        }
        return time < usedThenUntil ? usedThen : 0;
    }

    /** Returns the next time after this one at which the usage changes; {@code Long.MAX_VALUE} if there is none. */
    long changesAfter(long time) {
        if (time < usedUntil && used > 0) {
            return usedUntil;
        }
        return time < usedThenUntil && usedThen > 0 ? usedThenUntil : NEVER;
    }

    /** Returns when nothing of it is in use any more; now, if nothing is. */
    long endsAt(long now) {
        long end = used > 0 ? Math.max(now, usedUntil) : now;
        return usedThen > 0 ? Math.max(end, usedThenUntil) : end;
    }

    /**
     * Returns whether permits that the primary store took at a time of its clock are certainly included, in full: they
     * still counted at the newest reply, did not fade as in a counter, and no reset removed them.
     */
    boolean includes(Limit limit, long takenAt) {
        return takenAt >= firstReply
                && (newestReply == takenAt
                        || (limit.algorithm() == Algorithm.LOG
                                && newestReply > takenAt
                                && newestReply - takenAt < limit.window().toMillis()));
    }

    /** Subtracts permits, as many as there are, and returns how many. */
    long subtract(long permits, long now) {
        dropExpired(now);
        long subtracted = Math.min(used, permits);
        if (subtracted > 0) {
            used -= subtracted;
            usedThen = Math.min(usedThen, used);
        }
        return subtracted;
    }

    /** Removes everything. Replies from before the reset may still arrive for a while. */
    void reset(long now) {
        used = 0;
        usedUntil = 0;
        usedThen = 0;
        usedThenUntil = 0;
        newestReply = 0;
        firstReply = 0;
        resetUncertainUntil = now + OUT_OF_ORDER;
    }

    /** Moves times that a local clock, which was set back, has left too far ahead. */
    void limitTo(long latest, long now) {
        resetUncertainUntil = Math.min(resetUncertainUntil, now + OUT_OF_ORDER);
        usedUntil = Math.min(usedUntil, latest);
        usedThenUntil = Math.min(usedThenUntil, latest);
    }
}
