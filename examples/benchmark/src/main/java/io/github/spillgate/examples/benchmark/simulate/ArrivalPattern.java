package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import java.util.function.DoubleSupplier;

/**
 * The pattern of the requests of a client. All patterns have the same rate in the long run, and no client slows down
 * after a denial.
 */
enum ArrivalPattern {
    /** Independent requests: a Poisson process. */
    ONE_BY_ONE {
        @Override
        DoubleSupplier gaps(double rate, Limit limit, SeededRandom chance) {
            double mean = limit.window().toMillis() / rate;
            return () -> chance.exponential(mean);
        }
    },

    /**
     * Bursts of a fifth of the limit on average, fifty times as fast as the limit allows. The gaps between bursts are
     * random.
     */
    IN_BURSTS {
        @Override
        DoubleSupplier gaps(double rate, Limit limit, SeededRandom chance) {
            return new Bursts(rate, limit, chance);
        }
    },

    /**
     * Independent requests at twice the rate, in spells of three windows on average, with pauses of the same length.
     */
    IN_SPELLS {
        @Override
        DoubleSupplier gaps(double rate, Limit limit, SeededRandom chance) {
            return new Spells(rate, limit, chance);
        }
    };

    /** Returns the times between requests, in milliseconds. */
    abstract DoubleSupplier gaps(double rate, Limit limit, SeededRandom chance);

    private static final class Bursts implements DoubleSupplier {

        private static final double PART = 0.2;
        private static final double FASTER = 50;

        private final SeededRandom chance;
        private final double size;
        private final double within;
        private final double between;
        private boolean begun;

        Bursts(double rate, Limit limit, SeededRandom chance) {
            double window = limit.window().toMillis();
            this.chance = chance;
            size = Math.max(1, PART * limit.permits());
            within = window / (FASTER * limit.permits());
            between = size * window / rate - (size - 1) * within;
        }

        @Override
        public double getAsDouble() {
            boolean goesOn = begun && chance.share() * size >= 1;
            begun = true;
            return chance.exponential(goesOn ? within : between);
        }
    }

    private static final class Spells implements DoubleSupplier {

        private static final double WINDOWS = 3;

        private final SeededRandom chance;
        private final double mean;
        private final double length;
        private double left;

        Spells(double rate, Limit limit, SeededRandom chance) {
            double window = limit.window().toMillis();
            this.chance = chance;
            mean = window / (2 * rate);
            length = WINDOWS * window;
            left = chance.share() < 0.5 ? chance.exponential(length) : 0;
        }

        @Override
        public double getAsDouble() {
            double gap = chance.exponential(mean);
            double pauses = 0;
            while (gap - left > 0) {
                gap -= left;
                pauses += left + chance.exponential(length);
                left = chance.exponential(length);
            }
            left -= gap;
            return pauses + gap;
        }
    }
}
