package io.github.spillgate.failover;

import io.github.spillgate.Algorithm;
import io.github.spillgate.Limit;
import io.github.spillgate.spi.BucketState;
import io.github.spillgate.spi.CounterState;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The usage of a count that the primary store has confirmed: a number of permits, of which some expire before the
 * others, until a time; then fewer until a later time, then none. Guarded by the monitor of its {@link RateLedger}.
 *
 * <p>The times of replies are those of the server's clock. If the order of replies is certain, the newest counts.
 * Replies of the same millisecond, and replies that arrive out of order, may have been decided in any order, so the
 * highest value of them counts.
 */
final class ConfirmedUsage {
    // Design notes.
    //
    // If Redis stops, permits still expire as time passes, and the fallback may grant them again. The usage may only be
    // too high, never too low. When permits expire is known in part:
    //
    //   counter   Exactly, for the permits of all instances: it fades by a formula. So does a bucket.
    //   log       For the permits of this instance (Evidence). The others count until the last permit expires.
    //
    // The store's clock is taken to run from the newest reply on. That is never ahead of it, because the reply was made
    // before it arrived. Counters and buckets are read at steps, so that a search for the time at which a cost fits
    // ends.

    /**
     * Replies arrive out of order by at most the time for which late replies are accepted. If one is older than that,
     * the server's clock was set back.
     */
    static final long OUT_OF_ORDER = 61_000;

    /** An upper bound of the rounding error of any sum of permits. */
    static final double ROUNDING = 1e-6;

    private static final long NEVER = Long.MAX_VALUE;

    /** If a grant is older than the newest reply by this much, the server's clock may have been set back. */
    private static final long SET_BACK = 1_000;

    private final Evidence evidence;

    /** What was taken lately of a bucket; null for others. */
    private @Nullable BucketTraffic traffic;

    private Limit limit;

    // The usage: "used" permits until "usedUntil", and from then on "usedThen" permits until "usedThenUntil".

    private long used;
    private long usedUntil;
    private long usedThen;
    private long usedThenUntil;

    /** Whether some of the {@code used} permits expire before {@code usedUntil}. */
    private boolean fades;

    // The newest reply.

    /** The counter; null for others. */
    private @Nullable CounterState counter;

    /** The permits in use. */
    private long reported;

    /** Whether these are more than the limit of the reply. Several limits may share a count. */
    private boolean exceeds;

    /** The local time. */
    private long receivedAt;

    /** The server's time. */
    private long newestReply;

    /** The life of the count; 0 if it is not known. */
    private int life;

    // The last reset.

    /** The server's time of the first reply since then: what was taken before it is not included. */
    private long firstReply;

    /** Replies that arrive before this local time may be from before it. */
    private long resetUncertainUntil = Long.MIN_VALUE;

    ConfirmedUsage(Limit limit) {
        this.limit = limit;
        this.evidence = new Evidence(limit);
        forgetOwn();
    }

    /** Returns the usage of which the primary store knows from its next reply on, because it has lost all others. */
    static ConfirmedUsage afterLoss(Limit limit) {
        ConfirmedUsage usage = new ConfirmedUsage(limit);
        usage.firstReply = NEVER;
        return usage;
    }

    /** Returns the usage after a reset. Replies from before that may still arrive for a while. */
    static ConfirmedUsage afterReset(Limit limit, long now) {
        ConfirmedUsage usage = afterLoss(limit);
        usage.resetUncertainUntil = now + OUT_OF_ORDER;
        return usage;
    }

    /**
     * Moves to a time. If the local clock was set back, times that are too far ahead are lowered.
     *
     * @param limit the limit in its present form
     */
    void advance(Limit limit, long now) {
        this.limit = limit;
        evidence.adjustTo(limit);
        long latest = now + longestUse();
        resetUncertainUntil = Math.min(resetUncertainUntil, now + OUT_OF_ORDER);
        usedUntil = Math.min(usedUntil, latest);
        usedThenUntil = Math.min(usedThenUntil, latest);
    }

    /** Returns after how many milliseconds nothing is in use any more. A bucket may be above its burst. */
    private long longestUse() {
        long reach = limit.reach().toMillis();
        if (!isBucket() || Math.max(used, usedThen) <= limit.burst()) {
            return reach;
        }
        return bucketOf(Math.max(used, usedThen), 0).wholeAt(limit);
    }

    private boolean isBucket() {
        return limit.algorithm() == Algorithm.BUCKET;
    }

    /** Returns the bucket with these permits in use, which a reply has rounded up. */
    private BucketState bucketOf(long permits, long time) {
        return new BucketState(BucketState.units(limit, permits), time);
    }

    /**
     * Records a reply.
     *
     * @param usage the usage in the reply
     * @param repliedAt the server's time
     * @param now the local time
     */
    void report(StoreUsage usage, long repliedAt, long now) {
        long permits = usage.used();
        long until = now + Math.max(0, usage.wholeAt().toEpochMilli() - repliedAt);
        if (repliedAt > newestReply || newestReply - repliedAt >= OUT_OF_ORDER) {
            if (repliedAt < newestReply) {
                forgetOwn(); // the clock was set back: permits may leave the window earlier
            }
            if (repliedAt < newestReply || firstReply == NEVER) {
                firstReply = now < resetUncertainUntil ? NEVER : repliedAt;
            }
            newestReply = repliedAt;
            receivedAt = now;
            reported = permits;
            // A denied request may have a smaller limit than those that took the permits.
            exceeds = permits > usage.limit().burst() && (exceeds || !usage.isViolated());
            counter = usage.counter();
            life = usage.life();
            fades = true;
            recordTraffic();
            used = permits;
            usedUntil = until;
            usedThen = 0;
            usedThenUntil = 0;
        } else {
            if (repliedAt == newestReply && permits > reported) {
                reported = permits;
                counter = usage.counter();
                recordTraffic();
            }
            dropExpired(now);
            raiseTo(permits, until);
        }
    }

    private void recordTraffic() {
        if (traffic != null) {
            traffic.replied(limit, reported, newestReply);
        }
    }

    // The permits of this instance.

    /** Records that the primary store has granted permits to this instance, at a time of its clock. */
    void granted(long permits, long takenAt) {
        // From before a reset, they may not be in use any more. If the clock was set back, they last longer.
        if (takenAt >= firstReply && newestReply - takenAt < SET_BACK) {
            evidence.granted(permits, takenAt);
        }
        if (traffic != null) {
            traffic.took(limit, permits, takenAt);
        }
    }

    /**
     * Records that the primary store has charged permits that this instance has granted itself.
     *
     * @param takenAt the time of the grants, or earlier, on the store's clock
     * @param chargedAt the time of the charge
     */
    void charged(long permits, long takenAt, long chargedAt) {
        // Older ones the store may not have charged, because they no longer count.
        if (chargedAt >= firstReply && chargedAt - takenAt < OwnUsage.windowOf(limit)) {
            evidence.charged(permits, takenAt, chargedAt);
            if (traffic != null) {
                traffic.took(limit, permits, takenAt);
            }
        }
    }

    /** Records that the primary store has permits of this instance again that it had lost, as in the newest reply. */
    void restored(ConfirmedUsage missing) {
        if (newestReply < missing.newestReply) {
            return; // the clock was set back: the permits may leave the window earlier
        }
        // An older reply may have raised "used". A refund since the newest reply is subtracted only from that.
        evidence.restored(missing.evidence, Math.min(used, reported), newestReply);
        if (traffic != null && missing.traffic != null) {
            traffic.restored(limit, missing.traffic);
        }
        firstReply = Math.min(firstReply, missing.firstReply);
    }

    private void forgetOwn() {
        evidence.clear();
        traffic = isBucket() ? new BucketTraffic() : null;
    }

    /** Records that permits of a decision are refunded in the primary store, which took them at a time of its clock. */
    void refunded(long permits, long takenAt) {
        if (takenAt >= firstReply) {
            evidence.refunded(permits, takenAt, newestReply);
        }
        if (traffic != null) {
            traffic.refunded(limit, permits, takenAt);
        }
    }

    /** Records that the oldest permits, of any instance, are refunded in the primary store. */
    void refundedOldest(long permits, long now) {
        evidence.refundedOldest(permits, newestReply + Math.max(0, now - receivedAt));
        if (traffic != null) {
            traffic.refunded(limit, permits, newestReply);
        }
    }

    // The usage at a time.

    /** Counts at least these permits. A loss in the millisecond of the newest reply may have hidden some. */
    void keepAtLeast(long permits, long now) {
        if (at(now) < permits) {
            used = permits;
            usedUntil = Math.max(usedUntil, now + limit.reach().toMillis());
            fades = false;
        }
    }

    /**
     * Counts at least these permits until a time. Higher and lower usages keep their own ends: if they shared the later
     * one, replies out of order could postpone it without end.
     */
    private void raiseTo(long permits, long until) {
        if (permits >= used) {
            used = permits;
            usedUntil = Math.max(usedUntil, until);
        } else if (until > usedUntil) {
            usedThen = Math.max(usedThen, permits);
            usedThenUntil = Math.max(usedThenUntil, until);
        }
    }

    /**
     * Replaces the first step by the second one once it has expired. The last step stays, because its end is the time
     * from which the grants of a bucket return.
     */
    private void dropExpired(long now) {
        if (now < usedUntil) {
            return;
        }
        fades = false;
        long left = at(now);
        if (left > 0) {
            used = left;
            usedUntil = usedThenUntil;
            usedThen = 0;
            usedThenUntil = 0;
        }
    }

    /** Returns the permits in use at a time. */
    long at(long time) {
        long then = time < usedThenUntil ? usedThen : 0;
        return time < usedUntil ? Math.max(then, used - expiredAt(time)) : then;
    }

    /**
     * Returns the permits in use at a time, as far as one of several instances can know: it takes the permits of the
     * others to expire like its own. For a share of the limit only.
     */
    long estimatedAt(long time) {
        long certain = at(time);
        if (!fades || time >= usedUntil || limit.algorithm() != Algorithm.LOG) {
            return certain;
        }
        double left = evidence.partLeft(newestReply, newestReply + Math.max(0, time - receivedAt));
        return Math.min(certain, (long) Math.ceil(used * left));
    }

    /** Returns how many of the permits in use at the newest reply have certainly expired at a local time. */
    private long expiredAt(long time) {
        long passed = time - receivedAt;
        if (!fades || passed <= 0) {
            return 0;
        }
        if (limit.algorithm() == Algorithm.LOG) {
            return evidence.released(newestReply, newestReply + passed);
        }
        long then = newestReply + passed / step() * step();
        if (isBucket()) {
            return reported - bucketOf(reported, newestReply).at(limit, then).used(limit);
        }
        return counter == null ? 0 : reported - counter.at(limit, then).used(limit, then);
    }

    /** Returns the next time after this one at which the usage may change; {@code Long.MAX_VALUE} if there is none. */
    long changesAfter(long time) {
        if (time < usedUntil && used > 0) {
            return fades ? Math.min(usedUntil, fadesAfter(time)) : usedUntil;
        }
        return time < usedThenUntil && usedThen > 0 ? usedThenUntil : NEVER;
    }

    private long fadesAfter(long time) {
        long passed = Math.max(0, time - receivedAt);
        return limit.algorithm() == Algorithm.LOG
                ? evidence.nextRelease(newestReply + passed) - newestReply + receivedAt
                : receivedAt + (passed / step() + 1) * step();
    }

    private long step() {
        return Math.max(1, OwnUsage.windowOf(limit) / OwnUsage.STEPS);
    }

    /** Returns the time from which nothing is in use; now, if nothing is. */
    long endsAt(long now) {
        long end = used > 0 ? Math.max(now, usedUntil) : now;
        return usedThen > 0 ? Math.max(end, usedThenUntil) : end;
    }

    /** Returns the time from which nothing is in use, which may have passed. */
    long emptyAt(long now) {
        return endsAt(Math.min(receivedAt, now));
    }

    /** Returns the server's time of the first reply since the last reset, or since a loss that is not restored. */
    long firstReply() {
        return firstReply;
    }

    /** Returns the life of the count in the newest reply; 0 if it is not known. */
    int life() {
        return life;
    }

    /** Returns whether a reply is certainly of another life than the newest one: all that it has was taken since. */
    boolean isOfOtherLife(StoreUsage usage) {
        return life > 0 && usage.life() > 0 && usage.life() != life;
    }

    /** Returns the server's time of the newest reply. */
    long newestReply() {
        return newestReply;
    }

    /**
     * Returns how many permits the primary store has certainly granted to this instance that must still be in use in a
     * reply; 0 if the reply may be older than the newest one.
     *
     * @param repliedAt the server's time
     */
    long certainIn(long repliedAt) {
        if (repliedAt <= newestReply) {
            return 0; // replies of the same millisecond may have been decided in any order
        }
        return (long) Math.ceil(evidence.at(repliedAt) - ROUNDING); // a reply rounds up, too
    }

    /** Returns the permits in use, with their ages, the oldest first; empty if there are none. */
    List<Grants> ages(long now) {
        List<Grants> ages = new ArrayList<>();
        long passed = Math.max(0, now - receivedAt);
        long time = newestReply + passed;
        CounterState state = counter;
        if (state != null && fades) {
            CounterState present = state.at(limit, time);
            long age = time - present.start();
            if (present.previous() > 0) {
                long before = age + limit.window().toMillis();
                ages.add(new Grants(before, before, present.previous()));
            }
            if (present.current() > 0) {
                ages.add(new Grants(age, age, present.current()));
            }
            return ages;
        }
        if (isBucket()) {
            // Without "fades", its level is what counts here.
            long level = fades ? reported : at(now);
            long age = fades ? passed : 0;
            return at(now) == 0 ? ages : List.of(new Grants(age, age, level));
        }
        if (fades && limit.algorithm() == Algorithm.LOG) {
            ages.addAll(evidence.ages(newestReply, time));
        }
        long others = at(now);
        for (Grants some : ages) {
            others -= some.permits();
        }
        if (others > 0) {
            // They may be as young as the last permit, which expires last.
            long youngest = Math.max(passed, limit.window().toMillis() - Math.max(0, usedUntil - now));
            ages.add(new Grants(youngest, youngest, others));
            ages.sort(Comparator.comparingLong(Grants::toMillis).reversed());
        }
        return ages;
    }

    // A loss of data.

    /**
     * Becomes the usage that the primary store has lost.
     *
     * @param kept the permits that it still has
     * @param lostBefore the usage that it has lost before
     */
    void becomeLost(long kept, ConfirmedUsage lostBefore, long now) {
        if (kept > 0) {
            subtract(kept, now);
            // Some of those that would expire first are not lost.
            fades = false;
        }
        // A bucket returns permits once, and it does so for what the store still has.
        fades &= !isBucket();
        if (lostBefore.at(now) > 0) {
            fades = false;
            used = at(now) + lostBefore.at(now);
            usedUntil = Math.max(endsAt(now), lostBefore.endsAt(now));
            usedThen = 0;
        }
    }

    /** Returns whether the newest reply exceeds its limit: a reconciliation has raised the count. */
    boolean exceeds() {
        return exceeds;
    }

    /** Returns the use as of the newest reply; of a bucket, what was taken lately. */
    OutageShare.Use use() {
        return traffic == null ? new OutageShare.Use(reportedOwn(), (double) reported, 0) : traffic.use();
    }

    /** Returns how many of the permits in use were granted to this instance, as far as it knows. */
    private double reportedOwn() {
        CounterState state = counter;
        return state == null
                ? (long) evidence.at(newestReply)
                : Math.min(reported, Math.round(evidence.inUse(state, newestReply)));
    }

    /**
     * Returns whether permits that the primary store took at a time of its clock are certainly included, in full: they
     * still counted at the newest reply, did not fade as in a counter, and no reset removed them.
     */
    boolean includes(long takenAt) {
        return takenAt >= firstReply
                && (newestReply == takenAt
                        || (limit.algorithm() == Algorithm.LOG
                                && newestReply > takenAt
                                && newestReply - takenAt < limit.window().toMillis()));
    }

    /** Subtracts permits, as many as there are, and returns how many. */
    long subtract(long permits, long now) {
        dropExpired(now);
        long subtracted = now < usedUntil ? Math.min(used, permits) : 0;
        if (subtracted > 0) {
            used -= subtracted;
            usedThen = Math.min(usedThen, used);
            // By the formula of a counter or bucket, these permits would expire a second time.
            fades &= counter == null && !isBucket();
        }
        return subtracted;
    }
}
