package io.github.spillgate.redis;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/** Where answers are delivered, so that nobody goes on with one on the thread that reads from Redis. */
final class Delivery {

    /**
     * Whoever is not there by then may never come: a scheduler that is shut down forgets him. Then another one is sent
     * for.
     */
    static final long LONGEST_WAY = TimeUnit.MILLISECONDS.toNanos(100);

    private static final int MOST_AT_ONCE = 32;

    private static final long NOBODY = 0;

    private final Scheduler scheduler;
    private final LongSupplier nanoTime;
    private final Queue<Runnable> answers = new ConcurrentLinkedQueue<>();

    /** When somebody was sent for to take answers, who has not begun. */
    private final AtomicLong comesSince = new AtomicLong(NOBODY);

    /**
     * Whether answers are told on threads where nobody may block; else whoever does would keep the others from theirs.
     */
    private volatile boolean neverBlocks;

    Delivery(Scheduler scheduler) {
        this(scheduler, () -> Schedulers.parallel().now(TimeUnit.NANOSECONDS));
    }

    /** A delivery by another time, for tests. */
    Delivery(Scheduler scheduler, LongSupplier nanoTime) {
        this.scheduler = scheduler;
        this.nanoTime = nanoTime;
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

    /**
     * Delivers an answer to few, with others that come until somebody is there to take them: a hop costs more than such
     * an answer. Where somebody may block, each has a hop of its own.
     */
    void deliverWithOthers(Runnable answer) {
        if (!neverBlocks) {
            deliver(() -> {
                neverBlocks = Schedulers.isInNonBlockingThread();
                answer.run();
            });
            return;
        }
        answers.add(answer);
        sendForSomebody();
    }

    private void sendForSomebody() {
        long since = comesSince.get();
        long now = nanoTime.getAsLong() | 1; // never NOBODY
        if ((since == NOBODY || now - since > LONGEST_WAY) && comesSince.compareAndSet(since, now)) {
            deliver(this::takeSome);
        }
    }

    private void takeSome() {
        // Before it is looked, so that nobody is left: who comes from now on sends for another one.
        comesSince.set(NOBODY);
        try {
            Runnable answer = answers.poll();
            for (int i = 1; answer != null; i++) {
                answer.run();
                answer = i < MOST_AT_ONCE ? answers.poll() : null;
            }
        } finally {
            if (!answers.isEmpty()) {
                sendForSomebody();
            }
        }
    }
}
