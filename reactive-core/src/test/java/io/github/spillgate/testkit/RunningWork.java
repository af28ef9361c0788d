package io.github.spillgate.testkit;

import java.util.concurrent.atomic.AtomicInteger;

/** Counts the handlers that are running, and the most that were running at the same time. Thread-safe. */
public final class RunningWork {

    private final AtomicInteger running = new AtomicInteger();
    private final AtomicInteger most = new AtomicInteger();
    private final AtomicInteger begun = new AtomicInteger();

    public void begin() {
        begun.incrementAndGet();
        most.accumulateAndGet(running.incrementAndGet(), Math::max);
    }

    /** Called once when that handler has ended. */
    public void end() {
        running.decrementAndGet();
    }

    int running() {
        return running.get();
    }

    int most() {
        return most.get();
    }

    int begun() {
        return begun.get();
    }
}
