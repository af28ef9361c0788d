package io.github.spillgate.failover.ledger;

import io.github.spillgate.Limit;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The hand-over of a {@link RateLedger} that is in flight: it is not known yet whether the primary store has executed
 * it. Guarded by the monitor of its ledger.
 */
final class PendingGrants {

    private final Reconciliation message;
    private final long since;
    private final int life;
    private final List<Snapshot> lost;
    private final Limit limit;
    private final @Nullable CounterState counter;
    private long until;
    private long permits;
    private long refunded;
    private long refundedFrom = Long.MAX_VALUE;

    /**
     * Creates a hand-over.
     *
     * @param since the epoch of the first grant
     * @param life the life of the count then
     * @param until when none of the grants is in use any more
     * @param lost the usage that the primary store has lost
     */
    PendingGrants(Reconciliation message, long since, int life, long until, List<Snapshot> lost) {
        this.message = message;
        this.since = since;
        this.life = life;
        this.until = until;
        this.lost = lost;
        this.permits = message.permits();
        this.limit = message.claim().limit();
        this.counter = limit instanceof Limit.Counter ? counterOf(message.grants()) : null;
    }

    /** Returns a counter with these grants: of the window before and of the present one, or of one of them. */
    private static @Nullable CounterState counterOf(List<Grants> grants) {
        if (grants.isEmpty()) {
            return null;
        }
        Grants last = grants.get(grants.size() - 1);
        return new CounterState(
                last.fromMillis(), grants.size() == 1 ? 0 : grants.get(0).permits(), last.permits());
    }

    /** Returns the same hand-over under another number, without what was refunded since. */
    PendingGrants again(long number) {
        List<Grants> rest = new ArrayList<>();
        long left = refunded;
        for (Grants some : message.grants()) {
            long less = Math.min(left, some.permits());
            left -= less;
            if (less < some.permits()) {
                rest.add(new Grants(some.fromMillis(), some.toMillis(), some.permits() - less));
            }
        }
        return new PendingGrants(message.again(number, rest), since, life, until, lost);
    }

    Reconciliation message() {
        return message;
    }

    /** Returns the usage that the primary store has lost. */
    List<Snapshot> lost() {
        return lost;
    }

    /** Moves to a time: a local clock that was set back has left the end too far ahead. */
    void advance(long now) {
        until = Math.min(until, now + LimitKind.reach(limit));
    }

    /** Returns when none of the grants is in use any more. */
    long until() {
        return until;
    }

    /** Returns how many grants are in use at a time, without those refunded. Those of a bucket return at the end. */
    long at(long time) {
        if (time >= until) {
            return 0;
        } else if (counter != null) {
            long then = stepBefore(counter, time);
            return Math.min(permits, counter.at(limit, then).used(limit, then));
        } else if (!Snapshot.expireOneByOne(limit)) {
            return permits;
        }
        long inUse = 0;
        for (Grants some : message.grants()) {
            inUse += time < leavesAt(some) ? some.permits() : 0;
        }
        return Math.min(permits, inUse);
    }

    /** Returns the next time after this one at which fewer may be in use. */
    long changesAfter(long time) {
        long next = until;
        if (counter != null) {
            next = Math.max(stepBefore(counter, time), counter.start()) + Snapshot.step(limit);
        } else if (Snapshot.expireOneByOne(limit)) {
            for (Grants some : message.grants()) {
                next = time < leavesAt(some) ? Math.min(next, leavesAt(some)) : next;
            }
        }
        return Math.min(until, next);
    }

    /** Returns when all of these permits of a log have left the window. */
    private long leavesAt(Grants some) {
        return some.toMillis() + LimitKind.reach(limit);
    }

    private long stepBefore(CounterState state, long time) {
        long passed = Math.max(0, time - state.start());
        return state.start() + passed - passed % Snapshot.step(limit);
    }

    /** Returns the epoch of the first grant. */
    long since() {
        return since;
    }

    /** Returns the life of the count when they were handed over. */
    int life() {
        return life;
    }

    /** Refunds permits that were granted at a time. */
    void refund(long takenAt, long most) {
        long less = Math.min(permits, most);
        if (less > 0) {
            permits -= less;
            refunded += less;
            refundedFrom = Math.min(refundedFrom, takenAt);
        }
    }

    /** Returns how many were refunded: they are to be refunded in the primary store once it has charged them. */
    long refunded() {
        return refunded;
    }

    /** Returns the time at which the oldest of the refunded permits was granted. */
    long refundedFrom() {
        return refundedFrom;
    }
}
