package io.github.spillgate.testkit;

import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Schedulers;
import reactor.test.scheduler.VirtualTimeScheduler;

/** A time that passes when it is told to, for Reactor's schedulers and for stores alike. */
public final class VirtualTime implements InstantSource, AutoCloseable {

    private static final long START = 1_790_000_000_000L;
    private static final long DAYS_OF_A_VIRTUAL_TIME = 10_000;
    private static final int LONG = 30;

    private final VirtualTimeScheduler scheduler = VirtualTimeScheduler.create();

    private volatile @Nullable Thread passing;

    /** Takes the place of the real time, until it is closed. */
    public VirtualTime() {
        // A thread of an earlier test may put the scheduler back that it is just creating.
        do {
            VirtualTimeScheduler.reset();
            VirtualTimeScheduler.set(scheduler);
        } while (isReal());
    }

    /** Whether the shared schedulers follow the time of the machine, which is long after 1970. */
    private static boolean isReal() {
        return Schedulers.parallel().now(TimeUnit.DAYS) > DAYS_OF_A_VIRTUAL_TIME;
    }

    /** Lets so much time pass, and happen what is due. A task may do so as well, as if the process had stood still. */
    public void pass(Duration time) {
        if (Thread.currentThread() == passing) {
            scheduler.advanceTimeBy(time);
            return;
        }
        passing = Thread.currentThread();
        try {
            run(time);
            // Those that were due at the very end.
            run(Duration.ZERO);
        } finally {
            passing = null;
        }
    }

    /** If another thread schedules a task at the same time, it may also run the others, and this one has to wait for it. */
    private void run(Duration time) {
        CountDownLatch done = new CountDownLatch(1);
        scheduler.schedule(done::countDown, time.toNanos(), TimeUnit.NANOSECONDS);
        scheduler.advanceTimeBy(time);
        try {
            if (!done.await(LONG, TimeUnit.SECONDS)) {
                throw new IllegalStateException(
                        "what is due has not been run within " + LONG + " s: expected no task that blocks");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
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
        SessionDefaults.createSchedulers();
    }
}
