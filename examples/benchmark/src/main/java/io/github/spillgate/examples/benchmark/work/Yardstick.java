package io.github.spillgate.examples.benchmark.work;

import io.github.spillgate.examples.benchmark.contender.Entrant;

/** What the results of a work are compared by, and with whose. */
public enum Yardstick {
    /** With the peer who is best in that work. */
    BEST_PEER(Measure.DECISIONS),
    EVALSHA(Measure.DECISIONS),
    BATCHING(Measure.DECISIONS),
    PING(Measure.P50),
    /** With ours in a cluster of one primary. */
    ONE_PRIMARY(Measure.DECISIONS),
    /** With the server that has nothing before its handler. */
    UNFILTERED(Measure.DECISIONS),
    UNFILTERED_TIME(Measure.P50);

    /** More decisions are better, and a longer time is worse. */
    public enum Measure {
        DECISIONS,
        P50
    }

    private final Measure measure;

    Yardstick(Measure measure) {
        this.measure = measure;
    }

    public Measure measure() {
        return measure;
    }

    /** Whether this one's result may be the one that others are compared with; of several, the best is. */
    public boolean isBase(Entrant entrant) {
        return switch (this) {
            case BEST_PEER -> entrant.isPeer();
            case EVALSHA -> entrant == Entrant.EVALSHA;
            case BATCHING -> entrant == Entrant.BUCKET4J_BATCHING;
            case ONE_PRIMARY -> entrant == Entrant.COUNTER_IN_ONE;
            case PING -> entrant == Entrant.PING;
            case UNFILTERED, UNFILTERED_TIME -> entrant == Entrant.WEBFLUX || entrant == Entrant.VERTX;
        };
    }
}
