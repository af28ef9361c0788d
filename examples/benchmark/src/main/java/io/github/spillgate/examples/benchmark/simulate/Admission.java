package io.github.spillgate.examples.benchmark.simulate;

/** Lets one client's requests through, or not. */
@FunctionalInterface
interface Admission {

    /** Decides on a request at this time, in milliseconds; times never step back. */
    boolean admits(long now);
}
