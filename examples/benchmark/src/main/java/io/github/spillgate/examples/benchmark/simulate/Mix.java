package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;

/**
 * A mix of clients and their rates.
 *
 * @param title the name of the mix in tables
 * @param limit the limit of each client
 * @param clients the number of clients
 * @param patterns the patterns of requests, assigned to the clients in turn
 * @param rate the mean number of requests of a client in a window
 */
record Mix(String title, Limit limit, int clients, List<ArrivalPattern> patterns, ToDoubleFunction<SeededRandom> rate) {

    /**
     * The smaller the exponent, the heavier the tail: with 1.1, a tenth of the clients send from half to three quarters
     * of the requests.
     */
    private static final double EXPONENT = 1.1;

    /** The highest rate, in multiples of the limit. Without it, one client could send almost all requests. */
    private static final double MOST = 20;

    /** Creates rates with a heavy tail, such that one client in {@code oneIn} is above the limit. */
    static Mix heavyTailed(int oneIn, Limit limit, int clients) {
        return upTo(MOST, String.format(Locale.ROOT, "1 in %,d above it", oneIn), oneIn, limit, clients);
    }

    /** Creates the same rates for one in 10,000, truncated at this part of the limit. */
    static Mix below(String title, double part, Limit limit, int clients) {
        return upTo(part, title, 10_000, limit, clients);
    }

    private static Mix upTo(double most, String title, int oneIn, Limit limit, int clients) {
        double least = limit.permits() * StrictMath.pow(1.0 / oneIn, 1 / EXPONENT);
        return new Mix(
                title,
                limit,
                clients,
                List.of(ArrivalPattern.values()),
                chance -> chance.pareto(least, most * limit.permits(), EXPONENT));
    }

    /** Returns the same mix with another number of clients. */
    Mix of(int some) {
        return new Mix(title, limit, some, patterns, rate);
    }
}
