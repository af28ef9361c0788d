package io.github.spillgate.examples.benchmark.simulate;

import java.util.SplittableRandom;

/** Random numbers from a seed, reproducible on every machine and JDK because of strict arithmetic. */
final class SeededRandom {

    private final SplittableRandom random;

    SeededRandom(long seed) {
        random = new SplittableRandom(seed);
    }

    /** Returns a number from 0 (inclusive) to 1 (exclusive). */
    double share() {
        return random.nextDouble();
    }

    /** Returns the time to the next of independent events with this mean gap. */
    double exponential(double mean) {
        return -mean * StrictMath.log(1 - share());
    }

    /** Returns a number of a truncated Pareto distribution. The smaller the exponent, the heavier the tail. */
    double pareto(double least, double most, double exponent) {
        double beyond = StrictMath.pow(least / most, exponent);
        return least * StrictMath.pow(1 - share() * (1 - beyond), -1 / exponent);
    }
}
