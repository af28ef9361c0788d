package io.github.spillgate.internal;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import reactor.core.scheduler.Schedulers;

/** Logs how many events there were: a second after the first of them, and at most once a minute. Thread-safe. */
public final class SummaryLog {

    /** How long events are added up before they are logged. */
    private static final long COUNTED = TimeUnit.SECONDS.toNanos(1);

    /** The shortest time between two log lines. */
    private static final long PAUSE = TimeUnit.MINUTES.toNanos(1);

    private final LongConsumer line;
    private final AtomicLong events = new AtomicLong();
    private final AtomicBoolean isScheduled = new AtomicBoolean();
    private volatile long loggedAt = Time.nanos() - PAUSE;

    /**
     * Creates a log without events.
     *
     * @param line logs a number of events, 1 or more
     */
    public SummaryLog(LongConsumer line) {
        this.line = line;
    }

    /** Counts an event. */
    public void count() {
        count(1);
    }

    /** Counts events. */
    public void count(long more) {
        events.addAndGet(more);
        if (!isScheduled.get() && isScheduled.compareAndSet(false, true)) {
            long delay = Math.max(COUNTED, loggedAt + PAUSE - Time.nanos());
            Schedulers.parallel().schedule(this::log, delay, TimeUnit.NANOSECONDS);
        }
    }

    /** Drops the events that are not logged yet. */
    public void clear() {
        events.set(0);
    }

    private void log() {
        isScheduled.set(false);
        long counted = events.getAndSet(0);
        if (counted > 0) {
            loggedAt = Time.nanos();
            line.accept(counted);
        }
    }
}
