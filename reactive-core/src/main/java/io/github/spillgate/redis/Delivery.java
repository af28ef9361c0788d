package io.github.spillgate.redis;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import reactor.core.scheduler.Scheduler;

/** Where answers are delivered, so that nobody goes on with one on the thread that reads from Redis. */
final class Delivery {

    private static final int MOST_AT_ONCE = 32;

    private final Scheduler scheduler;
    private final Queue<Runnable> answers = new ConcurrentLinkedQueue<>();

    /** Whether somebody has been sent for to take answers, and has not begun. */
    private final AtomicBoolean isComing = new AtomicBoolean();

    Delivery(Scheduler scheduler) {
        this.scheduler = scheduler;
    }

    Scheduler scheduler() {
        return scheduler;
    }

    void deliver(Runnable answer) {
        try {
            scheduler.schedule(answer);
        } catch (RejectedExecutionException e) {
            // The user has shut it down before he has stopped asking.
            answer.run();
        }
    }

    /** Delivers an answer to few, with others that come until somebody is there to take them: a hop costs more than such an answer. */
    void deliverWithOthers(Runnable answer) {
        answers.add(answer);
        if (isComing.compareAndSet(false, true)) {
            deliver(this::takeSome);
        }
    }

    private void takeSome() {
        // Before it is looked, so that nobody is left: who comes from now on sends for another one.
        isComing.set(false);
        try {
            Runnable answer = answers.poll();
            for (int i = 1; answer != null; i++) {
                answer.run();
                answer = i < MOST_AT_ONCE ? answers.poll() : null;
            }
        } finally {
            if (!answers.isEmpty() && isComing.compareAndSet(false, true)) {
                deliver(this::takeSome);
            }
        }
    }
}
