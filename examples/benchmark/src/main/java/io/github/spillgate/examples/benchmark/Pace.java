package io.github.spillgate.examples.benchmark;

import java.time.Duration;

/**
 * How often and how long.
 *
 * @param rounds how often everybody gets a turn
 * @param warmUp before the first round, for the compiler of the JVM, and for the limits that are to be used up
 * @param runIn before each slice, because Redis was emptied: so that keys are there, and logs have filled
 * @param slice how long of a turn is measured
 */
record Pace(int rounds, Duration warmUp, Duration runIn, Duration slice) {

    static final Pace FULL = new Pace(5, Duration.ofSeconds(5), Duration.ofMillis(500), Duration.ofSeconds(1));
    static final Pace QUICK = new Pace(3, Duration.ofMillis(300), Duration.ofMillis(200), Duration.ofMillis(150));

    Pace rounds(int rounds) {
        return new Pace(rounds, warmUp, runIn, slice);
    }

    Pace slice(Duration slice) {
        return new Pace(rounds, slice.multipliedBy(5), slice.dividedBy(2), slice);
    }

    /** About how long a work takes with so many who take part. */
    Duration of(int entrants) {
        return warmUp.plus(slice.plus(runIn).multipliedBy(rounds)).multipliedBy(entrants);
    }
}
