package io.github.spillgate.failover.lease;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/** Permits that the primary store has charged in advance, until they are spent or the lease ends. */
final class Lease {

    private static final long ENDED = -1;

    private final StoreDecision charge;
    private final StoreUsage leased;
    private final Limit limit;
    private final long at;
    private final long sentAt;
    private final long wallAt;
    private final long millis;
    private final AtomicLong left;

    /**
     * Creates a lease.
     *
     * @param charge the reply of the store
     * @param sentAt when the request was sent, in nanoseconds
     * @param wallAt the same, in milliseconds of the wall clock
     */
    Lease(StoreDecision charge, long sentAt, long wallAt) {
        this.charge = charge;
        this.leased = charge.usages().get(0);
        this.limit = leased.limit();
        this.at = charge.reply().at();
        this.sentAt = sentAt;
        this.wallAt = wallAt;
        this.millis = limit.leaseTime().toMillis();
        this.left = new AtomicLong(leased.cost());
    }

    /** Returns the refund of some of the permits, each of which is refunded or spent once. */
    Refund refund(long permits) {
        return new Refund(leased.claim().withPermits(permits), leased, charge.fallbacks());
    }

    /** Returns for how many nanoseconds after the request permits can be spent. */
    long nanos() {
        return TimeUnit.MILLISECONDS.toNanos(millis);
    }

    /** Returns whether the request was sent after a time in nanoseconds. */
    boolean isFromAfter(long nanos) {
        return sentAt - nanos > 0;
    }

    /** Returns whether so many permits, at least one, can be spent at a time in nanoseconds. */
    boolean has(long permits, long now) {
        return now - sentAt < nanos() && left.get() >= Math.max(1, permits);
    }

    /**
     * Spends permits.
     *
     * @param now the time, in nanoseconds
     * @param wallNow the same, in milliseconds of the wall clock
     * @return the usage afterwards, which fits at the time of the decision; null if there are too few permits, or the
     *     lease has ended
     */
    @Nullable
    StoreUsage spend(Claim claim, long now, long wallNow) {
        long passed = now - sentAt;
        long wallPassed = wallNow - wallAt;
        // The clocks tick independently, so the wall clock may show one millisecond more.
        if (passed >= nanos() || wallPassed < 0 || wallPassed > millis + 1 || !limit.equals(claim.limit())) {
            return null;
        }
        long cost = claim.permits();
        long before;
        do {
            before = left.get();
            if (before < Math.max(1, cost)) {
                return null;
            }
        } while (!left.compareAndSet(before, before - cost));
        long spentAt = at + TimeUnit.NANOSECONDS.toMillis(passed);
        Reply reply = new Reply(Source.LEASE, spentAt);
        long used = leased.used() - (before - cost);
        // A refund of it is one of the lease.
        return new StoreUsage(
                reply, claim, used, false, spentAt, leased.wholeAtMillis(), leased.life(), null, false, leased);
    }

    /** Undoes that permits were spent; returns false if the lease has ended. */
    boolean unspend(long permits) {
        long before;
        do {
            before = left.get();
            if (before == ENDED) {
                return false;
            }
        } while (!left.compareAndSet(before, before + permits));
        return true;
    }

    /** Ends the lease, and returns how many permits were not spent. */
    long end() {
        return Math.max(0, left.getAndSet(ENDED));
    }
}
