package io.github.spillgate.examples.benchmark.simulate;

import java.time.Instant;
import java.time.InstantSource;

/** A clock that the simulation sets, so that an hour of traffic takes only the time of its decisions. */
final class VirtualClock implements InstantSource {

    /** A midnight in UTC, so that windows aligned to the clock start here too. */
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
