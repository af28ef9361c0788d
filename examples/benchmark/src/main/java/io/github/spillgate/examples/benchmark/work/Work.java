package io.github.spillgate.examples.benchmark.work;

import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.Rate;
import java.time.Duration;
import java.util.List;

/**
 * A workload, which is the same for all its contenders.
 *
 * @param kind the kind; workloads of one kind differ in one number, and share a chart
 * @param name its name in the results
 * @param description the description
 * @param entrants the contenders
 * @param keys the number of keys
 * @param skewed whether the n-th key is used in proportion to 1/n; else all are equally likely
 * @param rates the limits of every key
 * @param denied whether the limit is exhausted before, so that every decision is a denial; else none is
 * @param inFlight the number of decisions in flight
 * @param isFar whether each round trip takes a millisecond longer
 * @param instances how many limiters of the same name share the workload, each with its own client and connection
 * @param threads the threads of the driver, for contenders that decide synchronously
 * @param baseline the measure and the base of the comparison
 */
public record Work(
        String kind,
        String name,
        String description,
        List<Entrant> entrants,
        int keys,
        boolean skewed,
        List<Rate> rates,
        boolean denied,
        int inFlight,
        boolean isFar,
        int instances,
        int threads,
        Baseline baseline) {

    /** A window that is over before the next turn of the same contender. */
    private static final Duration OVER_SOON = Duration.ofSeconds(1);

    private static final Rate NEVER_REACHED = new Rate(10_000_000, Duration.ofSeconds(1));

    public Work {
        entrants = List.copyOf(entrants);
        rates = List.copyOf(rates);
    }

    /**
     * Returns whether the counts of a turn stay until the next one: an exhausted limit must stay exhausted, and if
     * permits that are still in use were gone, a limiter that restores them would be measured while it does so.
     */
    public boolean keepsCounts() {
        return denied || rates.stream().anyMatch(rate -> rate.window().compareTo(OVER_SOON) > 0);
    }

    /**
     * Starts with one key, a limit that is never reached, 256 decisions in flight on one limiter, and a comparison with
     * the best peer.
     */
    static Builder of(String kind, String description, Entrant... entrants) {
        return new Builder(kind, description, List.of(entrants));
    }

    /** Changes the defaults. */
    static final class Builder {

        private final String kind;
        private final String description;
        private final List<Entrant> entrants;
        private String name;
        private int keys = 1;
        private boolean skewed;
        private List<Rate> rates = List.of(NEVER_REACHED);
        private boolean denied;
        private int inFlight = 256;
        private boolean isFar;
        private int instances = 1;
        private int threads = Runtime.getRuntime().availableProcessors();
        private Baseline baseline = Baseline.BEST_PEER;

        private Builder(String kind, String description, List<Entrant> entrants) {
            this.kind = kind;
            this.name = kind;
            this.description = description;
            this.entrants = entrants;
        }

        Builder named(String name) {
            this.name = name;
            return this;
        }

        Builder keys(int keys) {
            this.keys = keys;
            return this;
        }

        Builder skewed() {
            this.skewed = true;
            return this;
        }

        Builder rates(Rate... rates) {
            this.rates = List.of(rates);
            return this;
        }

        Builder allDenied() {
            this.denied = true;
            return this;
        }

        Builder inFlight(int inFlight) {
            this.inFlight = inFlight;
            return this;
        }

        Builder far() {
            this.isFar = true;
            return this;
        }

        Builder instances(int instances) {
            this.instances = instances;
            return this;
        }

        Builder threads(int threads) {
            this.threads = threads;
            return this;
        }

        Builder comparedTo(Baseline baseline) {
            this.baseline = baseline;
            return this;
        }

        Work build() {
            return new Work(
                    kind,
                    name,
                    description,
                    entrants,
                    keys,
                    skewed,
                    rates,
                    denied,
                    inFlight,
                    isFar,
                    instances,
                    threads,
                    baseline);
        }
    }
}
