package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;

/**
 * Who comes, and how often.
 *
 * @param says the mix in the words of a table
 * @param limit what each of the clients may do
 * @param clients how many there are
 * @param habits how their requests follow one another; the clients take turns in them
 * @param rate how many requests come from one of them in a window, on average
 */
record Mix(String says, Limit limit, int clients, List<Habit> habits, ToDoubleFunction<Chance> rate) {

    /**
     * The less, the heavier the tail: with 1.1, a tenth of the clients send from half to three quarters of the
     * requests.
     */
    private static final double EXPONENT = 1.1;

    /** Nobody comes more often than so many times the limit, or one client would be all of the traffic. */
    private static final double MOST = 20;

    /** Rates with a heavy tail, such that one client in so many comes more often than the limit allows. */
    static Mix heavyTailed(int oneIn, Limit limit, int clients) {
        return upTo(MOST, String.format(Locale.ROOT, "1 in %,d above it", oneIn), oneIn, limit, clients);
    }

    /** The same, for one in 10,000, of those who come less often than this part of the limit allows. */
    static Mix below(String says, double part, Limit limit, int clients) {
        return upTo(part, says, 10_000, limit, clients);
    }

    private static Mix upTo(double most, String says, int oneIn, Limit limit, int clients) {
        double least = limit.permits() * StrictMath.pow(1.0 / oneIn, 1 / EXPONENT);
        return new Mix(
                says,
                limit,
                clients,
                List.of(Habit.values()),
                chance -> chance.pareto(least, most * limit.permits(), EXPONENT));
    }

    /** Everybody comes as often, compared with the limit. */
    static Mix alike(double timesTheLimit, Habit habit, Limit limit, int clients) {
        return new Mix(
                String.format(Locale.ROOT, "%s, %.2f", habit.says(), timesTheLimit),
                limit,
                clients,
                List.of(habit),
                chance -> timesTheLimit * limit.permits());
    }

    /** The same with so many clients. */
    Mix of(int some) {
        return new Mix(says, limit, some, habits, rate);
    }
}
