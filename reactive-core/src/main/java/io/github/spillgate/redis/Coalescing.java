package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreUnavailableException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The bounds of batches.
 *
 * @param together the highest number of counts in a batch; a single decision may have more. With 1 there is no batching
 * @param underWay the highest number of batches in flight
 * @param waiting the highest number of waiting decisions
 * @param pace the time between two batches, in nanoseconds for each batch in flight
 */
record Coalescing(int together, int underWay, int waiting, long pace) {

    static final int MOST_TOGETHER = 1_000;
    static final int MOST_UNDER_WAY = 1_000;
    static final int MOST_WAITING = 1_000_000;

    /** Equal decisions cost Redis next to nothing, but emitting their answers takes time. */
    private static final int DECISIONS_PER_COUNT = 8;

    /**
     * The time in which a Redis on the same machine replies, so that the next batch has all decisions that arrived in
     * that time. If Redis is farther away or busy, more batches are in flight, each later than the one before; so the
     * busier Redis is, the larger the batches are. The last decisions of a burst wait for a reply.
     */
    private static final long PACE = TimeUnit.MICROSECONDS.toNanos(150);

    /** With such a round trip, waiting for the reply to another batch could exceed the deadline. */
    static final long FAR = TimeUnit.MILLISECONDS.toNanos(5);

    /** The defaults. A hundred counts take Redis some tenths of a millisecond, for which its other clients wait. */
    static final Coalescing AT_FIRST = new Coalescing(128, 256, 100_000);

    Coalescing {
        check("counts together", together, MOST_TOGETHER);
        check("commands under way", underWay, MOST_UNDER_WAY);
        check("decisions that wait", waiting, MOST_WAITING);
    }

    Coalescing(int together, int underWay, int waiting) {
        this(together, underWay, waiting, PACE);
    }

    Coalescing withPace(long nanos) {
        return new Coalescing(together, underWay, waiting, nanos);
    }

    /** Returns the highest number of decisions in a batch. */
    int decisions() {
        return together == 1 ? 1 : DECISIONS_PER_COUNT * together;
    }

    /** Counts a waiting decision; if there are too many, fails it and returns false. */
    boolean admits(PendingDecision decision, AtomicInteger waiters) {
        if (waiters.incrementAndGet() <= waiting) {
            return true;
        }
        waiters.decrementAndGet();
        decision.fail(new LimitStoreUnavailableException(
                "Redis is unavailable: " + waiting + " decisions are waiting for it already", null));
        return false;
    }

    private static void check(String what, int number, int most) {
        if (number < 1 || number > most) {
            throw new IllegalArgumentException(
                    number + " " + what + " are out of range: expected 1 to " + most + ", for example .coalescing("
                            + AT_FIRST.together + ", " + AT_FIRST.underWay + ", " + AT_FIRST.waiting + ")");
        }
    }
}
