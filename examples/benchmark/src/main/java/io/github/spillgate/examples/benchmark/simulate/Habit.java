package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import java.util.function.DoubleSupplier;

/**
 * How a client's requests follow one another. All of them come to the same number of requests in the long run, and
 * nobody slows down when he is denied.
 */
enum Habit {
    /** Each by itself: a Poisson process. */
    ONE_BY_ONE("one by one") {
        @Override
        DoubleSupplier gaps(double rate, Limit limit, Chance chance) {
            double mean = limit.window().toMillis() / rate;
            return () -> chance.exponential(mean);
        }
    },

    /**
     * Bursts of a fifth of the limit on average, fifty times as fast as the limit allows; they begin as those one by
     * one come.
     */
    IN_BURSTS("in bursts") {
        @Override
        DoubleSupplier gaps(double rate, Limit limit, Chance chance) {
            return new Bursts(rate, limit, chance);
        }
    },

    /** One by one at twice the rate, in spells of three windows on average, with pauses as long. */
    IN_SPELLS("in spells") {
        @Override
        DoubleSupplier gaps(double rate, Limit limit, Chance chance) {
            return new Spells(rate, limit, chance);
        }
    };

    private final String says;

    Habit(String says) {
        this.says = says;
    }

    /** The habit in the words of a table. */
    String says() {
        return says;
    }

    /** The times from one request to the next, in milliseconds. */
    abstract DoubleSupplier gaps(double rate, Limit limit, Chance chance);

    private static final class Bursts implements DoubleSupplier {

        private static final double PART = 0.2;
        private static final double FASTER = 50;

        private final Chance chance;
        private final double size;
        private final double within;
        private final double between;
        private boolean begun;

        Bursts(double rate, Limit limit, Chance chance) {
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

        private final Chance chance;
        private final double mean;
        private final double length;
        private double left;

        Spells(double rate, Limit limit, Chance chance) {
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
