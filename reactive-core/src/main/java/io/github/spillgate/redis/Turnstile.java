package io.github.spillgate.redis;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import reactor.core.scheduler.Schedulers;

/**
 * An executor that runs one task at a time, on the thread that submits it or, if another thread is running tasks, on
 * that thread.
 *
 * <p>Lettuce takes a lock for each command that it writes. Event loops that write at the same time would block each
 * other there. Behind this executor they never meet.
 *
 * <p>A thread runs at most {@value #LONGEST_STAY} tasks and leaves the rest to another thread; otherwise one event loop
 * would write for all others under load. If a task throws an error, such as a full stack, the executor stays usable.
 */
final class Turnstile implements Executor {

    static final int LONGEST_STAY = 64;

    private final BooleanSupplier mustLeave;
    private final Runnable leaving;
    private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean inside = new AtomicBoolean();

    /**
     * A turnstile.
     *
     * @param mustLeave returns whether the current thread must leave the next task to another one
     * @param leaving runs on each thread after its last task
     */
    Turnstile(BooleanSupplier mustLeave, Runnable leaving) {
        this.mustLeave = mustLeave;
        this.leaving = leaving;
    }

    @Override
    public void execute(Runnable task) {
        waiting.add(task);
        pass();
    }

    private void pass() {
        while (!waiting.isEmpty() && inside.compareAndSet(false, true)) {
            boolean more;
            try {
                more = runSome();
            } finally {
                leave();
            }
            if (more) {
                Schedulers.parallel().schedule(this::pass);
                return;
            }
        }
    }

    private void leave() {
        try {
            leaving.run();
        } finally {
            inside.set(false);
        }
    }

    /** Returns whether tasks wait; called by tasks. */
    boolean isWaitedFor() {
        return !waiting.isEmpty();
    }

    /** Returns whether there may be more to do, for another thread. */
    private boolean runSome() {
        for (int i = 0; i < LONGEST_STAY; i++) {
            if (mustLeave.getAsBoolean()) {
                return true;
            }
            Runnable next = waiting.poll();
            if (next == null) {
                return false;
            }
            next.run();
        }
        return true;
    }
}
