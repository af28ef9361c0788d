package io.github.spillgate.redis;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/** Emits answers on a scheduler, so that no caller continues on the thread that reads from Redis. */
final class Delivery {

    /** The time after which a task that has not started is scheduled again: a shut-down scheduler drops its tasks. */
    static final long LONGEST_WAY = TimeUnit.MILLISECONDS.toNanos(100);

    private static final int MOST_AT_ONCE = 32;

    private static final long NOBODY = 0;

    private final Scheduler scheduler;
    private final LongSupplier nanoTime;
    private final Queue<Runnable> answers = new ConcurrentLinkedQueue<>();

    /** When the task was scheduled that will emit the queued answers; 0 if there is none. */
    private final AtomicLong comesSince = new AtomicLong(NOBODY);

    /** Whether the scheduler's threads must not block. A subscriber that blocks would hold up queued answers. */
    private volatile boolean neverBlocks;

    Delivery(Scheduler scheduler) {
        this(scheduler, () -> Schedulers.parallel().now(TimeUnit.NANOSECONDS));
    }

    /** A delivery with another source of time. */
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
            // The user has shut down the scheduler before the last decision.
            answer.run();
        }
    }

    /**
     * Emits an answer to few decisions in one task with others, because switching threads costs more than such an
     * answer. If the scheduler's threads may block, each answer has a task of its own.
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
        // Before the queue is read: an answer that is queued from now on schedules another task.
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
