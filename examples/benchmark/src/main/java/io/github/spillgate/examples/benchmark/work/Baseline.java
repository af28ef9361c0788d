package io.github.spillgate.examples.benchmark.work;

import io.github.spillgate.examples.benchmark.contender.Entrant;

/** The measure and the base by which the results of a workload are compared. */
public enum Baseline {
    /** The best peer in the workload. */
    BEST_PEER(Measure.DECISIONS),
    EVALSHA(Measure.DECISIONS),
    BATCHING(Measure.DECISIONS),
    PING(Measure.P50),
    /** Our counter. */
    COUNTER(Measure.DECISIONS),
    /** Ours in a cluster of one primary. */
    ONE_PRIMARY(Measure.DECISIONS);

    /** More decisions are better, and a longer time is worse. */
    public enum Measure {
        DECISIONS,
        P50
    }

    private final Measure measure;

    Baseline(Measure measure) {
        this.measure = measure;
    }

    public Measure measure() {
        return measure;
    }

    /** Returns whether this contender may be the base of the comparison; the best of several is. */
    public boolean isBase(Entrant entrant) {
        return switch (this) {
            case BEST_PEER -> entrant.isPeer();
            case EVALSHA -> entrant == Entrant.EVALSHA;
            case BATCHING -> entrant == Entrant.BUCKET4J_BATCHING;
            case ONE_PRIMARY -> entrant == Entrant.COUNTER_IN_ONE;
            case PING -> entrant == Entrant.PING;
            case COUNTER -> entrant == Entrant.COUNTER;
        };
    }
}
