package io.github.spillgate.examples.benchmark.simulate;

import java.util.SplittableRandom;

/**
 * Chance that is the same each time, on every machine and JDK: from a seed, with arithmetic that leaves nothing to the
 * processor.
 */
final class Chance {

    private final SplittableRandom random;

    Chance(long seed) {
        random = new SplittableRandom(seed);
    }

    /** From 0 to 1, without 1. */
    double share() {
        return random.nextDouble();
    }

    /** The time to the next of events that come so far apart on average, and know nothing of each other. */
    double exponential(double mean) {
        return -mean * StrictMath.log(1 - share());
    }

    /**
     * Pareto's distribution, cut off: mostly little more than the least, and the smaller the exponent, the more often
     * much more.
     */
    double pareto(double least, double most, double exponent) {
        double beyond = StrictMath.pow(least / most, exponent);
        return least * StrictMath.pow(1 - share() * (1 - beyond), -1 / exponent);
    }
}
