package io.github.spillgate.examples.benchmark.simulate;

/** Admits or denies the requests of one client. */
@FunctionalInterface
interface Admission {

    /** Decides on a request at this time, in milliseconds; times never step back. */
    boolean admits(long now);
}
