package io.github.spillgate.failover;

import java.time.Instant;
import java.time.InstantSource;

/** A clock for a circuit breaker that throws while it is broken. */
final class BreakableClock implements InstantSource {

    private final InstantSource time;
    private volatile boolean broken;

    BreakableClock(InstantSource time) {
        this.time = time;
    }

    void setBroken(boolean broken) {
        this.broken = broken;
    }

    @Override
    public Instant instant() {
        if (broken) {
            throw new IllegalStateException("broken");
        }
        return time.instant();
    }
}
