package io.github.spillgate.local;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.Settlement;
import org.jspecify.annotations.Nullable;

/**
 * What weighs on a count besides its own hits, while its store stands in for another: what that other has said, and
 * what has been handed over to be settled there. Both are amounts that stay as they are until an instant, and are gone
 * then. Guarded by the count's monitor.
 *
 * <p>What is known and what was handed over never overlap with the count's own hits: a hit is moved, not copied, and
 * what the other store says knows nothing of what it has not been charged with.
 */
final class Carried {

    /** What a count carries for which nothing is known and nothing owed; never written. */
    static final Carried NOTHING = new Carried();

    private static final long NEVER = Long.MAX_VALUE;

    /**
     * Answers of the other store may arrive out of order by as much as they may be late; beyond, its clock has stepped
     * back.
     */
    private static final long OUT_OF_ORDER = 61_000;

    private long known;
    private long knownUntil;
    private long knownAt;

    /** The first answer of all, by its server's clock; what was taken before it may have been forgotten by a reset. */
    private long knownSince;

    /**
     * The reset that this began with, and until when answers may come that were given before the other store has heard
     * of it.
     */
    private long resetStamp;

    private long resetHeardOfBy = Long.MIN_VALUE;

    /** What is known from {@code knownUntil} on, less than until then; answers whose order is not certain say so. */
    private long knownThen;

    private long knownThenUntil;

    private @Nullable Settlement handed;
    private long handedPermits;
    private long handedUntil;
    private long handedFrom = Long.MAX_VALUE;
    private long handedUpTo = Long.MIN_VALUE;

    private @Nullable Claim owedBy;
    private long owed;

    /**
     * How many of the count's own hits were given back by refunds that named no decision, since hits were last handed
     * over.
     */
    private long refunded;

    /** What a count carries that has just been reset. */
    static Carried afterReset(long stamp, long now) {
        Carried carried = new Carried();
        carried.resetStamp = stamp;
        carried.resetHeardOfBy = now + OUT_OF_ORDER;
        return carried;
    }

    /** Returns whether what was decided here with that stamp has been forgotten by a reset. */
    boolean isReset(long stamp) {
        return stamp < resetStamp;
    }

    /** Remembers what the other store has said; its clock need not be ours. */
    void know(Usage usage, Decision decision, long now) {
        long at = decision.at().toEpochMilli();
        long until = now + Math.max(0, usage.wholeAt().toEpochMilli() - at);
        if (at > knownAt || knownAt - at >= OUT_OF_ORDER) {
            if (knownAt == 0 || at < knownAt || knownSince == NEVER) {
                knownSince = now < resetHeardOfBy ? NEVER : at;
            }
            knownAt = at;
            known = usage.used();
            knownUntil = until;
            knownThen = 0;
            knownThenUntil = 0;
        } else {
            // Which came first is not certain: of one instant nobody can tell, and clocks of servers differ.
            knowToo(usage.used(), until, now);
        }
    }

    /**
     * Where much is known, and less for longer, the one does not last as long as the other, or it would last for ever.
     */
    private void knowToo(long used, long until, long now) {
        dropWhatIsGone(now);
        if (used >= known) {
            known = used;
            knownUntil = Math.max(knownUntil, until);
        } else if (until > knownUntil) {
            knownThen = Math.max(knownThen, used);
            knownThenUntil = Math.max(knownThenUntil, until);
        }
    }

    private void dropWhatIsGone(long now) {
        if (now >= knownUntil) {
            known = known(now);
            knownUntil = knownThenUntil;
            knownThen = 0;
            knownThenUntil = 0;
        }
    }

    /** Returns how much the other store has said is used, as far as that can be at a time. */
    long known(long at) {
        if (at < knownUntil) {
            return known;
        }
        return at < knownThenUntil ? knownThen : 0;
    }

    /** Returns how much has been handed over of which nothing has been heard, as far as that can count at a time. */
    long handedOver(long at) {
        return handed != null && at < handedUntil ? handedPermits : 0;
    }

    /**
     * Returns whether what the other store took at that time, by its clock, is certainly among what is known, and in
     * full: it had not left by then, nor faded, as the hits of a counter do, nor has a reset forgotten it.
     */
    boolean isAmongKnown(Limit limit, long takenAt) {
        return takenAt >= knownSince
                && (knownAt == takenAt
                        || (limit.algorithm() == Algorithm.LOG
                                && knownAt > takenAt
                                && knownAt - takenAt < limit.window().toMillis()));
    }

    /** Takes so many permits off what is known, and returns how many there were. */
    long forget(long permits, long now) {
        dropWhatIsGone(now);
        long there = Math.min(known, permits);
        if (there > 0) {
            known -= there;
            knownThen = Math.min(knownThen, known);
        }
        return there;
    }

    /** Returns how many of a limit's permits are not for the count's own hits at a time. */
    long weight(Limit limit, double share, long at) {
        return notOurs(limit, share) + (long) Math.ceil(known(at) * share) + handedOver(at);
    }

    /** Returns the next instant after this one at which the weight changes. */
    long changesAfter(long at) {
        long next = NEVER;
        if (at < knownUntil && known > 0) {
            next = knownUntil;
        } else if (at < knownThenUntil && knownThen > 0) {
            next = knownThenUntil;
        }
        return handed != null && at < handedUntil ? Math.min(next, handedUntil) : next;
    }

    /** Returns when nothing of it weighs any more. */
    long goneAt(long now) {
        long goneAt = known > 0 ? Math.max(now, knownUntil) : now;
        goneAt = knownThen > 0 ? Math.max(goneAt, knownThenUntil) : goneAt;
        return handed == null ? goneAt : Math.max(goneAt, handedUntil);
    }

    /** Pulls instants to where a clock that has stepped back can have put them at most. */
    void look(Limit limit, long now) {
        if (this == NOTHING) {
            return;
        }
        resetHeardOfBy = Math.min(resetHeardOfBy, now + OUT_OF_ORDER);
        long latest = now + limit.reach().toMillis();
        if (knownUntil > latest || knownThenUntil > latest || handedUntil > latest) {
            knownUntil = Math.min(knownUntil, latest);
            knownThenUntil = Math.min(knownThenUntil, latest);
            handedUntil = Math.min(handedUntil, latest);
        }
    }

    private static long notOurs(Limit limit, double share) {
        return share == 1 ? 0 : limit.permits() - Math.max(1, (long) Math.floor(limit.permits() * share));
    }

    // What is owed to the other store.

    /** Notes what the count has admitted, and returns whether nothing was owed before. */
    boolean owe(Claim claim, long permits) {
        boolean first = owed == 0;
        owed += permits;
        owedBy = claim;
        return first;
    }

    /** Takes back as many, because they have been given back. */
    long oweLess(long permits) {
        long less = Math.min(owed, permits);
        if (less > 0) {
            owed -= less;
        }
        return less;
    }

    long owed() {
        return owed;
    }

    /** Notes that hits of the count were given back by a refund that named no decision. */
    void countRefunded(long permits) {
        refunded += permits;
    }

    /** Returns how many of these permits can have been given back by such refunds, and does not count those again. */
    long takeRefunded(long permits) {
        long some = Math.min(refunded, permits);
        refunded -= some;
        return some;
    }

    /** Returns whether there may be anything that the other store has not been charged with. */
    boolean isOwing() {
        return owed > 0 || handed != null;
    }

    @Nullable
    Claim owedBy() {
        return owedBy;
    }

    /** Moves all that the count has admitted into a settlement. */
    void handOver(Settlement settlement, long until) {
        handed = settlement;
        handedPermits = settlement.permits();
        handedUntil = until;
        handedFrom = Math.min(handedFrom, settlement.firstMillis());
        handedUpTo = settlement.lastMillis();
        owed = 0;
        owedBy = null;
        refunded = 0;
    }

    boolean isHandedOver() {
        return handed != null;
    }

    /** Returns whether what was admitted at that time has been handed over. */
    boolean isHandedOver(long takenAt) {
        return takenAt >= handedFrom && takenAt <= handedUpTo;
    }

    /** Forgets a settlement whose fate is known. */
    void settled(Settlement settlement, boolean charged) {
        if (handed == settlement) {
            handed = null;
            if (!charged) {
                handedFrom = Long.MAX_VALUE;
                handedUpTo = Long.MIN_VALUE;
            }
        }
    }
}
