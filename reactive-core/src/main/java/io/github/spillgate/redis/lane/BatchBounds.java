package io.github.spillgate.redis.lane;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import java.util.concurrent.TimeUnit;

/**
 * The bounds of batches on one connection.
 *
 * @param counts the highest number of counts in a batch; a single decision may have more. With 1 there is no batching
 * @param inFlight the highest number of batches in flight
 * @param waiting the highest number of waiting decisions
 */
public record BatchBounds(int counts, int inFlight, int waiting) {

    static final int MOST_COUNTS = 1_000;
    static final int MOST_IN_FLIGHT = 1_000;
    static final int MOST_WAITING = 1_000_000;

    /** Equal decisions cost Redis next to nothing, but emitting their answers takes time. */
    private static final int DECISIONS_PER_COUNT = 8;

    /**
     * The number of batches that keep a near Redis and its client busy at the same time. What arrives later waits for
     * the next reply; so the busier Redis is, the larger the batches are.
     */
    private static final int IN_FLIGHT_NEAR = 4;

    /** With such a round trip, waiting for the reply to another batch could exceed the deadline. */
    private static final long FAR = TimeUnit.MILLISECONDS.toNanos(5);

    /** The defaults. A hundred counts take Redis some tenths of a millisecond, for which its other clients wait. */
    public static final BatchBounds DEFAULT = new BatchBounds(128, 256, 100_000);

    public BatchBounds {
        check("counts in a batch", counts, MOST_COUNTS);
        check("batches in flight", inFlight, MOST_IN_FLIGHT);
        check("waiting decisions", waiting, MOST_WAITING);
    }

    /** Returns the highest number of decisions in a batch. */
    int decisions() {
        return counts == 1 ? 1 : DECISIONS_PER_COUNT * counts;
    }

    /**
     * Returns the number of batches that may be in flight.
     *
     * @param roundTrip the shortest round trip, in nanoseconds
     */
    int inFlight(long roundTrip) {
        return isFar(roundTrip) ? inFlight : Math.min(inFlight, IN_FLIGHT_NEAR);
    }

    /**
     * Returns how many waiting decisions go into the next batch. Near Redis they are spread over the batches that may
     * be sent now: in a single batch they would also be answered, and the next ones requested, all at the same time.
     *
     * @param free the number of batches that may be sent now
     */
    int share(int waiting, int free, long roundTrip) {
        int share = isFar(roundTrip) ? waiting : (waiting + free - 1) / free;
        return Math.min(decisions(), share);
    }

    LimitStoreException tooManyWait() {
        return new LimitStoreException(
                Kind.UNAVAILABLE, "Redis is unavailable: " + waiting + " decisions are waiting for it already");
    }

    private static boolean isFar(long roundTrip) {
        return roundTrip >= FAR;
    }

    private static void check(String what, int number, int most) {
        if (number < 1 || number > most) {
            throw new IllegalArgumentException(
                    number + " " + what + " are out of range: expected 1 to " + most + ", for example .batching("
                            + DEFAULT.counts + ", " + DEFAULT.inFlight + ", " + DEFAULT.waiting + ")");
        }
    }
}
