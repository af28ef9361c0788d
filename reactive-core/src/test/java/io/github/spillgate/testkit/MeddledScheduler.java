package io.github.spillgate.testkit;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import reactor.core.Disposable;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.test.scheduler.VirtualTimeScheduler;

/**
 * Reactor's parallel scheduler in a time that passes when it is told to, with somebody who meddles: its clock may step
 * back, and something else may happen at each of its steps.
 */
public final class MeddledScheduler implements Scheduler, AutoCloseable {

    private final VirtualTimeScheduler time = VirtualTimeScheduler.create();
    private final Schedulers.Snapshot before;
    private long steppedBack;
    private int alarms;
    private Runnable atTheNextLook = MeddledScheduler::nothing;
    private Runnable beforeTheNextAlarm = MeddledScheduler::nothing;

    /** Takes the place of the real one, until it is closed. */
    public MeddledScheduler() {
        before = Schedulers.setFactoryWithSnapshot(new Schedulers.Factory() {
            @Override
            public Scheduler newParallel(int parallelism, ThreadFactory threads) {
                return MeddledScheduler.this;
            }
        });
    }

    /** Lets so many milliseconds pass, and happen what is due. */
    public void passMillis(long millis) {
        time.advanceTimeBy(Duration.ofMillis(millis));
    }

    /** How many milliseconds have passed, whatever the clock shows. */
    public long passedMillis() {
        return time.now(TimeUnit.MILLISECONDS);
    }

    /** Sets the clock back. */
    public void stepBack(Duration by) {
        steppedBack += by.toNanos();
    }

    /** Does this when somebody looks at the clock, once. */
    public void atTheNextLook(Runnable what) {
        atTheNextLook = what;
    }

    /** Does this before an alarm is set, once; if it throws, none is. */
    public void beforeTheNextAlarm(Runnable what) {
        beforeTheNextAlarm = what;
    }

    /** How many alarms are set that have neither rung nor been taken back. */
    public int alarms() {
        return alarms;
    }

    @Override
    public long now(TimeUnit unit) {
        Runnable first = atTheNextLook;
        atTheNextLook = MeddledScheduler::nothing;
        first.run();
        return unit.convert(time.now(TimeUnit.NANOSECONDS) - steppedBack, TimeUnit.NANOSECONDS);
    }

    @Override
    public Disposable schedule(Runnable task) {
        return time.schedule(task);
    }

    @Override
    public Disposable schedule(Runnable task, long delay, TimeUnit unit) {
        Runnable first = beforeTheNextAlarm;
        beforeTheNextAlarm = MeddledScheduler::nothing;
        first.run();
        Alarm alarm = new Alarm(task);
        time.schedule(alarm, delay, unit);
        return alarm;
    }

    @Override
    public Worker createWorker() {
        return time.createWorker();
    }

    @Override
    public void dispose() {
        // What is due may still happen.
    }

    @Override
    public void close() {
        Schedulers.resetFrom(before);
    }

    private static void nothing() {}

    private final class Alarm implements Runnable, Disposable {

        private final Runnable task;
        private boolean isOver;

        Alarm(Runnable task) {
            this.task = task;
            alarms++;
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
                alarms--;
            }
        }
    }
}
