package io.github.spillgate.redis;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import reactor.core.scheduler.Schedulers;

/**
 * Runs what it is given at once, and one after another: whoever comes while somebody is inside leaves his task to him.
 *
 * <p>Lettuce takes a lock for each command that is written. Two threads that write at the same time would wait for each
 * other there, and ours are event loops; those that pass here never meet.
 *
 * <p>Nobody is kept for long: who has run {@value #LONGEST_STAY} tasks leaves the rest to another thread, or under load
 * one event loop would write for all the others. And whoever goes, opens: if even a task's error should come out here,
 * such as that of a stack that is full, the next one to come finds the way free.
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
     * @param mustLeave whether the thread that is inside has to leave the next task to another one
     * @param leaving what a thread that was inside does before it goes
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

    /** Whether somebody waits, to be asked by who is inside. */
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
