package io.github.spillgate.examples.benchmark.simulate;

import java.time.Instant;
import java.time.InstantSource;

/** A clock that shows what the simulation says: an hour of traffic takes as long as its decisions. */
final class VirtualClock implements InstantSource {

    /** Some midnight in UTC, so that windows on the clock begin here too. */
    static final long START = 1_789_948_800_000L;

    private long millis = START;

    void set(long millis) {
        this.millis = millis;
    }

    @Override
    public long millis() {
        return millis;
    }

    @Override
    public Instant instant() {
        return Instant.ofEpochMilli(millis);
    }
}
