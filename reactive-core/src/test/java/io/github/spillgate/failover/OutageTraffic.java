package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * The requests of a whole service for 10 keys, and the instance that gets each of them. All processes compute the same
 * list.
 */
record OutageTraffic(Spread spread, double demand) {

    static final Limit LIMIT = Limit.of(100, Duration.ofSeconds(10));
    static final int KEYS = 10;

    /** The traffic that stays within the limit, and one that does not. */
    static final List<Double> DEMANDS = List.of(0.9, 3.0);

    /** How requests are spread over the instances. */
    enum Spread {
        EVEN,
        SKEWED,
        STICKY;

        /** Returns the instance, of so many, that gets a request, by its key and the number of earlier ones for it. */
        int instance(int key, int number, int instances) {
            int instance = switch (this) {
                case EVEN -> number;
                case SKEWED -> number % 10 < 9 ? 0 : 1 + number / 10;
                case STICKY -> key;
            };
            return instance % instances;
        }
    }

    /** A request, {@code at} milliseconds after the start. */
    record Request(long at, int key, int instance) {}

    static List<OutageTraffic> all() {
        List<OutageTraffic> all = new ArrayList<>();
        for (Spread spread : Spread.values()) {
            for (double demand : DEMANDS) {
                all.add(new OutageTraffic(spread, demand));
            }
        }
        return all;
    }

    /** Returns the name of the limiter, so that the kinds of traffic do not share counts. */
    String limiter() {
        return spread + "-" + demand;
    }

    List<Request> requests(int instances, long millis) {
        List<Request> requests = new ArrayList<>();
        Random random = new Random(limiter().hashCode());
        double between = LIMIT.window().toMillis() / (demand * LIMIT.permits() * KEYS);
        double next = 0;
        for (int i = random.nextInt(1_000); next < millis; i++) {
            next += between * (0.5 + random.nextDouble());
            int key = i % KEYS;
            requests.add(new Request((long) next, key, spread.instance(key, i / KEYS, instances)));
        }
        return requests;
    }
}
