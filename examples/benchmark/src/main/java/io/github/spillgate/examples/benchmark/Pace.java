package io.github.spillgate.examples.benchmark;

import java.time.Duration;

/**
 * The number and durations of measurements.
 *
 * @param rounds how often each contender is measured
 * @param warmUp the time before the first round of a workload, for the compiler of the JVM, and to exhaust limits
 * @param runIn the time before each slice, so that keys exist and logs are filled again after Redis was emptied
 * @param slice the measured duration of a turn
 */
record Pace(int rounds, Duration warmUp, Duration runIn, Duration slice) {

    static final Pace FULL = new Pace(5, Duration.ofSeconds(5), Duration.ofMillis(500), Duration.ofSeconds(1));
    static final Pace QUICK = new Pace(3, Duration.ofMillis(300), Duration.ofMillis(200), Duration.ofMillis(150));

    /** Returns the time before the first round of a contender that was never under load: its code is cold. */
    Duration firstWarmUp() {
        return warmUp.multipliedBy(5);
    }

    Pace rounds(int rounds) {
        return new Pace(rounds, warmUp, runIn, slice);
    }

    Pace slice(Duration slice) {
        return new Pace(rounds, slice.multipliedBy(5), slice.dividedBy(2), slice);
    }

    /** Returns the approximate duration of a workload with this number of contenders, so many of them cold. */
    Duration of(int entrants, int cold) {
        return warmUp.plus(slice.plus(runIn).multipliedBy(rounds))
                .multipliedBy(entrants)
                .plus(firstWarmUp().minus(warmUp).multipliedBy(cold));
    }
}
