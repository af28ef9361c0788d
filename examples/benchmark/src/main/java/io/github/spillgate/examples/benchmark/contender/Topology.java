package io.github.spillgate.examples.benchmark.contender;

/** The servers that store the counts of a contender. */
public enum Topology {
    /** A standalone Redis. */
    ALONE(1),
    CLUSTER_OF_ONE(1),
    CLUSTER_OF_THREE(3),
    POSTGRES(1);

    private final int primaries;

    Topology(int primaries) {
        this.primaries = primaries;
    }

    public int primaries() {
        return primaries;
    }

    public boolean isCluster() {
        return this == CLUSTER_OF_ONE || this == CLUSTER_OF_THREE;
    }
}
