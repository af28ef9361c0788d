package io.github.spillgate.examples.benchmark.contender;

/** The kind of Redis that stores the counts of a contender. */
public enum Topology {
    /** A standalone Redis. */
    ALONE(1),
    CLUSTER_OF_ONE(1),
    CLUSTER_OF_THREE(3);

    private final int primaries;

    Topology(int primaries) {
        this.primaries = primaries;
    }

    public int primaries() {
        return primaries;
    }
}
