package io.github.spillgate.redis;

import io.netty.channel.EventLoop;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.concurrent.Future;
import io.netty.util.internal.ThreadExecutorMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Netty's event loops, as far as lanes need them. */
final class EventLoops {

    private EventLoops() {}

    /** Returns the event loop that runs the current thread; null on any other thread. */
    static @Nullable EventLoop current() {
        EventExecutor executor = ThreadExecutorMap.currentExecutor();
        return executor instanceof EventLoop loop ? loop : null;
    }

    /**
     * Runs a task on an event loop: now if that is the current thread.
     *
     * @return false if the loop has ended, and the task will not run
     */
    static boolean run(EventLoop loop, Runnable task) {
        if (loop.inEventLoop()) {
            task.run();
            return true;
        }
        return runLater(loop, 0, task);
    }

    /**
     * Runs a task on an event loop, after what the loop does now.
     *
     * @param nanos the least delay
     * @return false if the loop has ended, and the task will not run
     */
    static boolean runLater(EventLoop loop, long nanos, Runnable task) {
        try {
            if (nanos == 0) {
                loop.execute(task);
            } else {
                Future<?> unused = loop.schedule(task, nanos, TimeUnit.NANOSECONDS);
            }
            return true;
        } catch (RejectedExecutionException e) {
            return false;
        }
    }
}
