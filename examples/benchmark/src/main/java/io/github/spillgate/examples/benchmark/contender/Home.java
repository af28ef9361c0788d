package io.github.spillgate.examples.benchmark.contender;

/** Where a contender keeps its counts. */
public enum Home {
    /** In a Redis that is in no cluster. */
    ALONE(1),
    CLUSTER_OF_ONE(1),
    CLUSTER_OF_THREE(3);

    private final int primaries;

    Home(int primaries) {
        this.primaries = primaries;
    }

    public int primaries() {
        return primaries;
    }
}
