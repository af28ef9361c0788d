package io.github.spillgate.resilience;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Measures the longest time for which this process stood still: the garbage collector ran, or other processes had the processors.
 * A deadline that passes in that time is reported when it ends.
 */
final class StallMeter implements AutoCloseable {

    private static final Duration STEP = Duration.ofMillis(5);

    private final AtomicLong longest = new AtomicLong();
    private final Thread thread = new Thread(this::measure, "stall-meter");
    private volatile boolean closed;

    private StallMeter() {}

    static StallMeter start() {
        StallMeter meter = new StallMeter();
        meter.thread.setDaemon(true);
        meter.thread.start();
        return meter;
    }

    /** The longest stall since the start. */
    Duration longest() {
        return Duration.ofNanos(longest.get());
    }

    private void measure() {
        while (!closed) {
            long before = System.nanoTime();
            LockSupport.parkNanos(STEP.toNanos());
            longest.accumulateAndGet(System.nanoTime() - before - STEP.toNanos(), Math::max);
        }
    }

    @Override
    public void close() {
        closed = true;
    }
}
