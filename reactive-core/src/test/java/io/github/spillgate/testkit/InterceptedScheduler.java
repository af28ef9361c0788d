package io.github.spillgate.testkit;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.test.scheduler.VirtualTimeScheduler;

/** A virtual-time replacement of Reactor's parallel scheduler that runs hooks. */
public final class InterceptedScheduler implements Scheduler, AutoCloseable {

    private final VirtualTimeScheduler time = VirtualTimeScheduler.create();
    private final Schedulers.Snapshot before;

    /** Other threads may still end what earlier tests have begun, and run no hooks. */
    private final Thread test = Thread.currentThread();

    private int timers;
    private boolean runsAtOnce;
    private Runnable onNextClockRead = InterceptedScheduler::nothing;
    private Runnable beforeNextTimer = InterceptedScheduler::nothing;

    /** Replaces the real scheduler until it is closed. */
    public InterceptedScheduler() {
        before = Schedulers.setFactoryWithSnapshot(new Schedulers.Factory() {
            @Override
            public Scheduler newParallel(int parallelism, ThreadFactory threads) {
                return InterceptedScheduler.this;
            }
        });
    }

    public void passMillis(long millis) {
        time.advanceTimeBy(Duration.ofMillis(millis));
    }

    /** Returns the milliseconds passed. */
    public long passedMillis() {
        return time.now(TimeUnit.MILLISECONDS);
    }

    /** Runs this once, before the next read of the clock. */
    public void onNextClockRead(Runnable what) {
        onNextClockRead = what;
    }

    /** Runs this once, before the next timer is set; if it throws, the timer is not set. */
    public void beforeNextTimer(Runnable what) {
        beforeNextTimer = what;
    }

    /** Runs the task of the next timer when that is set, as if the thread that sets it were stalled. */
    public void runNextTimerAtOnce() {
        runsAtOnce = true;
    }

    public int timers() {
        return timers;
    }

    @Override
    public long now(TimeUnit unit) {
        if (Thread.currentThread() == test) {
            Runnable first = onNextClockRead;
            onNextClockRead = InterceptedScheduler::nothing;
            first.run();
        }
        return time.now(unit);
    }

    @Override
    public Disposable schedule(Runnable task) {
        return time.schedule(task);
    }

    @Override
    public Disposable schedule(Runnable task, long delay, TimeUnit unit) {
        if (Thread.currentThread() != test) {
            return time.schedule(task, delay, unit);
        }
        Runnable first = beforeNextTimer;
        beforeNextTimer = InterceptedScheduler::nothing;
        first.run();
        if (runsAtOnce) {
            runsAtOnce = false;
            task.run();
            return Disposables.disposed();
        }
        Timer timer = new Timer(task);
        time.schedule(timer, delay, unit);
        return timer;
    }

    @Override
    public Worker createWorker() {
        return time.createWorker();
    }

    @Override
    public void dispose() {
        // Pending tasks may still run.
    }

    @Override
    public void close() {
        Schedulers.resetFrom(before);
    }

    private static void nothing() {}

    private final class Timer implements Runnable, Disposable {

        private final Runnable task;
        private boolean isOver;

        Timer(Runnable task) {
            this.task = task;
            timers++;
        }

        @Override
        public void run() {
            if (!isOver) {
                dispose();
                task.run();
            }
        }

        @Override
        public void dispose() {
            if (!isOver) {
                isOver = true;
                timers--;
            }
        }
    }
}
