package io.github.spillgate.failover;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * Measures how late the timers of this process fire: the garbage collector runs, other processes have the processors,
 * or the threads of Reactor's scheduler are busy. A deadline is such a timer.
 */
public final class StallMeter implements AutoCloseable {

    private static final long STEP = TimeUnit.MILLISECONDS.toNanos(5);

    private final AtomicLong longest = new AtomicLong();
    private final Disposable.Composite workers = Disposables.composite();

    private StallMeter() {}

    /** Starts to measure on every thread of the scheduler. */
    public static StallMeter start() {
        StallMeter meter = new StallMeter();
        for (int i = 0; i < Schedulers.DEFAULT_POOL_SIZE; i++) {
            Scheduler.Worker worker = Schedulers.parallel().createWorker();
            meter.workers.add(worker);
            meter.schedule(worker);
        }
        return meter;
    }

    /** The longest time by which a timer was late. */
    public Duration longest() {
        return Duration.ofNanos(longest.get());
    }

    private void schedule(Scheduler.Worker worker) {
        long due = System.nanoTime() + STEP;
        worker.schedule(
                () -> {
                    longest.accumulateAndGet(System.nanoTime() - due, Math::max);
                    if (!workers.isDisposed()) {
                        schedule(worker);
                    }
                },
                STEP,
                TimeUnit.NANOSECONDS);
    }

    @Override
    public void close() {
        workers.dispose();
    }
}
