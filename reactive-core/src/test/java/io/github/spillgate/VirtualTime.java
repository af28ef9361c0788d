package io.github.spillgate;

import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.concurrent.TimeUnit;
import reactor.test.scheduler.VirtualTimeScheduler;

/** A time that passes when it is told to, for Reactor's schedulers and for stores alike. */
final class VirtualTime implements InstantSource, AutoCloseable {

    private static final long START = 1_790_000_000_000L;

    private final VirtualTimeScheduler scheduler = VirtualTimeScheduler.create();

    VirtualTime() {
        VirtualTimeScheduler.set(scheduler);
    }

    void pass(Duration time) {
        scheduler.advanceTimeBy(time);
    }

    void passMillis(long millis) {
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
