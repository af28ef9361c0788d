package io.github.spillgate.failover;

import java.time.Clock;
import java.time.Instant;
import java.time.InstantSource;
import java.time.ZoneId;
import java.time.ZoneOffset;

/** A clock for a circuit breaker that throws while it is broken. */
final class BreakableClock extends Clock {

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

    @Override
    public ZoneId getZone() {
        return ZoneOffset.UTC;
    }

    @Override
    public Clock withZone(ZoneId zone) {
        return this;
    }
}
