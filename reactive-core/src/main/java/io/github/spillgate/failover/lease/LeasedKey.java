package io.github.spillgate.failover.lease;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;

/** A count on which this instance leases, or may lease: its lease, and how many permits to lease next. */
final class LeasedKey {

    /** Requests count for about this many lease times. */
    private static final int MEMORY = 4;

    /**
     * The smallest expected number of requests in a lease time for which permits are leased. The present request counts
     * for a quarter, so there has to be another recent one.
     */
    private static final double LEAST_EXPECTED = 0.4;

    /** What a lease has in addition to the expected need, in standard deviations. */
    private static final double RESERVE = 1.5;

    private final Object handle;
    private final LongAdder requests = new LongAdder();

    /** The permits for which requests asked in addition to one each. Most requests ask for one. */
    private final LongAdder additionalPermits = new LongAdder();

    private volatile @Nullable Lease lease;

    /** The number of recent requests: those of a lease time ago count less. */
    private double recent;

    /** The permits for which these requests asked. */
    private double recentPermits;

    private volatile long measuredAt;
    /** The latest time; of two resets at the same time, the earlier may be noted last. */
    private final AtomicLong resetAt;

    private boolean isLeasing;

    LeasedKey(Object handle, long now) {
        this.handle = handle;
        this.measuredAt = now;
        this.resetAt = new AtomicLong(now - 1);
    }

    /** Returns whether this is the entry of a count. */
    boolean isOf(Object other) {
        return handle.equals(other);
    }

    Object handle() {
        return handle;
    }

    /** Returns the lease; null if there was none. It may have ended. */
    @Nullable
    Lease lease() {
        return lease;
    }

    /** Replaces the lease, and returns the one before. */
    @Nullable
    Lease replace(Lease next) {
        Lease before = lease;
        lease = next;
        return before;
    }

    /** Notes that the count is being reset, or has just been. */
    void reset(long now) {
        resetAt.accumulateAndGet(now, (before, then) -> then - before > 0 ? then : before);
    }

    /** Returns whether the count may have been reset after a request. */
    boolean isResetSince(long sentAt) {
        return resetAt.get() - sentAt > 0;
    }

    /** Returns whether the requests were last counted earlier than those of another key. */
    boolean isOlderThan(LeasedKey other) {
        return measuredAt - other.measuredAt < 0;
    }

    void asked(long permits) {
        requests.increment();
        if (permits != 1) {
            additionalPermits.add(permits - 1);
        }
    }

    /** Returns whether permits were leased at a time in nanoseconds or later. */
    boolean hasLeasedSince(long nanos) {
        Lease current = lease;
        return current != null && current.isFromAfter(nanos);
    }

    /** Returns whether so many permits are left. */
    boolean has(long permits, long now) {
        Lease current = lease;
        return current != null && current.has(permits, now);
    }

    /**
     * Returns how many permits to lease: what is expected to be asked for in a lease time, and a reserve.
     *
     * @return 0 if the key is not hot, or if permits are being leased already
     */
    synchronized long beginLease(long now, long leaseNanos) {
        long passed = now - measuredAt;
        if (isLeasing && passed < leaseNanos) {
            return 0;
        }
        measure(now, leaseNanos);
        double expected = recent / MEMORY;
        isLeasing = expected >= LEAST_EXPECTED && recentPermits > 0;
        // The number of requests varies by its square root.
        return isLeasing ? (long) Math.ceil(recentPermits / recent * (expected + RESERVE * Math.sqrt(expected))) : 0;
    }

    /** Counts the requests since the last time. They must be recent, so this is called when a lease ends, too. */
    synchronized void measure(long now, long leaseNanos) {
        double kept = Math.exp(-(double) (now - measuredAt) / (MEMORY * leaseNanos));
        long counted = sumThenReset(requests);
        recent = recent * kept + counted;
        recentPermits = recentPermits * kept + counted + sumThenReset(additionalPermits);
        measuredAt = now;
    }

    /** Unlike the method of this name in {@link LongAdder}, loses nothing that is added at the same time. */
    private static long sumThenReset(LongAdder adder) {
        long sum = adder.sum();
        adder.add(-sum);
        return sum;
    }

    synchronized void endLease() {
        isLeasing = false;
    }
}
