package io.github.spillgate.examples.benchmark;

import java.time.Duration;

/**
 * The number and durations of measurements.
 *
 * @param rounds how often each contender is measured
 * @param warmUp the time before the first round, for the compiler of the JVM, and to exhaust limits
 * @param runIn the time before each slice, so that keys exist and logs are filled again if Redis was emptied
 * @param slice the measured duration of a turn
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

    /** Returns the approximate duration of a workload with this number of contenders. */
    Duration of(int entrants) {
        return warmUp.plus(slice.plus(runIn).multipliedBy(rounds)).multipliedBy(entrants);
    }
}
