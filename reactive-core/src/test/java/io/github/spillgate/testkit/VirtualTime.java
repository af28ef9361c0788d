package io.github.spillgate.testkit;

import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.test.scheduler.VirtualTimeScheduler;

/** A time that passes when it is told to, for Reactor's schedulers and for stores alike. */
public final class VirtualTime implements InstantSource, AutoCloseable {

    private static final long START = 1_790_000_000_000L;
    private static final AtomicInteger INSTANCES = new AtomicInteger();
    private static final int LONG = 30;

    private final VirtualTimeScheduler scheduler = VirtualTimeScheduler.create();

    private volatile @Nullable Thread passing;
    private volatile Duration suspended = Duration.ZERO;
    private volatile boolean isClosed;

    /** Takes the place of the real time, until it is closed. */
    public VirtualTime() {
        // Each begins some nanoseconds later than the one before, so that their times differ.
        scheduler.advanceTimeBy(Duration.ofNanos(INSTANCES.incrementAndGet()));
        // A thread of an earlier test may put the scheduler back that it is just creating.
        do {
            Schedulers.setFactory(new Shared());
        } while (!isInForce());
    }

    private boolean isInForce() {
        return Schedulers.parallel().now(TimeUnit.NANOSECONDS) == scheduler.now(TimeUnit.NANOSECONDS);
    }

    /** Lets so much time pass, and happen what is due. A task may do so as well, as if the process had been stalled. */
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

    /**
     * If another thread schedules a task at the same time, it may also run the others, and this one has to wait for it.
     */
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

    public void passMillis(long millis) {
        pass(Duration.ofMillis(millis));
    }

    /** Suspends the machine for so long: the wall clock goes on, the monotonic clock and all tasks stand still. */
    public void suspend(Duration time) {
        suspended = suspended.plus(time);
    }

    @Override
    public Instant instant() {
        return Instant.ofEpochMilli(START + scheduler.now(TimeUnit.MILLISECONDS))
                .plus(suspended);
    }

    @Override
    public void close() {
        isClosed = true;
        // As in the constructor: a thread may put this scheduler back, and the next test would wait for ever.
        do {
            Schedulers.resetFactory();
            SessionDefaults.createSchedulers();
        } while (isInForce());
    }

    /** Makes this the time of all shared schedulers. */
    private final class Shared implements Schedulers.Factory, Scheduler {

        @Override
        public Scheduler newBoundedElastic(int threads, int queued, ThreadFactory factory, int ttlSeconds) {
            return this;
        }

        @Override
        public Scheduler newParallel(int threads, ThreadFactory factory) {
            return this;
        }

        @Override
        public Scheduler newSingle(ThreadFactory factory) {
            return this;
        }

        @Override
        public Disposable schedule(Runnable task) {
            return scheduler.schedule(task);
        }

        @Override
        public Disposable schedule(Runnable task, long delay, TimeUnit unit) {
            return scheduler.schedule(task, delay, unit);
        }

        @Override
        public Disposable schedulePeriodically(Runnable task, long initialDelay, long period, TimeUnit unit) {
            return scheduler.schedulePeriodically(task, initialDelay, period, unit);
        }

        @Override
        public Worker createWorker() {
            return scheduler.createWorker();
        }

        /** As of Reactor's own: units below a millisecond are of the monotonic clock. */
        @Override
        public long now(TimeUnit unit) {
            long time = scheduler.now(unit);
            return unit.compareTo(TimeUnit.MILLISECONDS) < 0 ? time : time + unit.convert(suspended);
        }

        /** Nothing: of two threads that ask for a shared scheduler at once, one disposes of what it got. */
        @Override
        public void dispose() {}

        /** Otherwise the library would keep it, and with it all that tests have scheduled. */
        @Override
        public boolean isDisposed() {
            return isClosed;
        }
    }
}
