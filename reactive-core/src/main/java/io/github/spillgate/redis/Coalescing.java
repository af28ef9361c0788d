package io.github.spillgate.redis;

import io.github.spillgate.LimitStoreUnavailableException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * How far decisions are put together.
 *
 * @param together how many counts one command touches at most, or as many as one decision does; with 1 each leaves
 *     alone
 * @param underWay how many commands are under way at a time at most
 * @param waiting how many decisions wait at most
 * @param pace how long after the last command the next one leaves, in nanoseconds for each that is under way
 */
record Coalescing(int together, int underWay, int waiting, long pace) {

    static final int MOST_TOGETHER = 1_000;
    static final int MOST_UNDER_WAY = 1_000;
    static final int MOST_WAITING = 1_000_000;

    /**
     * Decisions on the same count are put together and cost Redis next to nothing; but they have to be told, and that
     * takes time.
     */
    private static final int DECISIONS_PER_COUNT = 8;

    /**
     * On the same machine an answer is back in about this time, so that the next command takes along all who have come
     * meanwhile. Where Redis is farther away, or busy, more commands are under way, each later than the one before; so
     * the busier Redis is, the larger its batches. The last of a burst wait for an answer to those before them.
     */
    private static final long PACE = TimeUnit.MICROSECONDS.toNanos(150);

    /**
     * With so long a trip, to wait for an answer to others before one's own may take longer than one has; so nobody
     * does.
     */
    static final long FAR = TimeUnit.MILLISECONDS.toNanos(5);

    /**
     * A hundred counts keep Redis busy for some tenths of a millisecond, so whoever else asks it does not wait for
     * long.
     */
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

    /** How many decisions leave in one command at most. */
    int decisions() {
        return together == 1 ? 1 : DECISIONS_PER_COUNT * together;
    }

    /** Counts one more in among those who wait; or, if they are as many as may, tells him so, and returns false. */
    boolean admits(PendingDecision asked, AtomicInteger waiters) {
        if (waiters.incrementAndGet() <= waiting) {
            return true;
        }
        waiters.decrementAndGet();
        asked.fail(new LimitStoreUnavailableException(
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
