package io.github.spillgate.examples.benchmark.measure;

/** A server on loopback that stores the counts of contenders. */
public interface Server extends AutoCloseable {

    int port();

    /** Returns the product and its version, for the head of the results. */
    String version();

    /** Deletes all keys, if those of one contender would slow down the next one. */
    default void empty() {}

    /** Returns the resources that the server has used since its start. */
    ServerUsage usage();

    @Override
    void close();
}
