package io.github.spillgate.testkit;

import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.concurrent.atomic.AtomicLong;

/** A clock that shows what it is told to: it stands still, jumps, and steps back. */
public final class ManualClock implements InstantSource {

    private final AtomicLong millis;

    /** A clock that stands at an ordinary day. */
    public ManualClock() {
        this(1_790_000_000_000L);
    }

    public ManualClock(long millis) {
        this.millis = new AtomicLong(millis);
    }

    /** Lets so much time pass; a negative duration steps back. */
    public void advance(Duration duration) {
        advanceMillis(duration.toMillis());
    }

    /** Lets so many milliseconds pass; a negative number steps back. */
    public void advanceMillis(long by) {
        millis.addAndGet(by);
    }

    public void set(long to) {
        millis.set(to);
    }

    @Override
    public long millis() {
        return millis.get();
    }

    @Override
    public Instant instant() {
        return Instant.ofEpochMilli(millis());
    }
}
