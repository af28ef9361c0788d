package io.github.spillgate.testkit;

import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.concurrent.TimeUnit;
import reactor.test.scheduler.VirtualTimeScheduler;

/** A time that passes when it is told to, for Reactor's schedulers and for stores alike. */
public final class VirtualTime implements InstantSource, AutoCloseable {

    private static final long START = 1_790_000_000_000L;

    private final VirtualTimeScheduler scheduler = VirtualTimeScheduler.create();

    /** Takes the place of the real time, until it is closed. */
    public VirtualTime() {
        VirtualTimeScheduler.set(scheduler);
    }

    /** Lets so much time pass, and happen what is due. */
    public void pass(Duration time) {
        scheduler.advanceTimeBy(time);
    }

    /** Lets so many milliseconds pass, and happen what is due. */
    public void passMillis(long millis) {
        pass(Duration.ofMillis(millis));
    }

    @Override
    public Instant instant() {
        return Instant.ofEpochMilli(START + scheduler.now(TimeUnit.MILLISECONDS));
    }

    @Override
    public void close() {
        VirtualTimeScheduler.reset();
    }
}
