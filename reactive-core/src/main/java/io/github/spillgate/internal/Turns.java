package io.github.spillgate.internal;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.NonBlocking;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/**
 * The turns that callers take on a thread of {@code Schedulers.parallel()}, or on a {@linkplain #share shared} one.
 *
 * <p>A decision that is made at once, by a local store or from a cached denial, continues its caller on the same
 * thread. A stream such as {@code keys.flatMap(limiter::tryAcquire)} then requests the next decision there, and would
 * hold the thread for as long as it lasts, while the replies for other callers wait. So a thread makes a bounded number
 * of decisions at once. The next ones wait until the thread has run what was scheduled on it before; from a shared
 * thread, which reads the replies for other callers, they move to {@code Schedulers.parallel()}. Other threads, such as
 * event loops, belong to the application.
 */
public final class Turns {

    /** The number of decisions in a turn. */
    static final int LENGTH = 256;

    private static final Pattern WORKER = Pattern.compile("parallel-\\d+");

    /** As many workers of the scheduler are on all of its threads, and on some of them several times. */
    private static final int CANDIDATES = 3 * Schedulers.DEFAULT_POOL_SIZE;

    private static final int MOST_TRIES = 100;

    /**
     * The number of waiting decisions above which most of the next ones are made at once: a caller with unbounded
     * demand, such as {@code ParallelFlux.flatMap}, does not leave the thread, however many wait.
     */
    private static final int MOST_WAITING = 1_024;

    /** Null on a thread that takes no turns. A thread of a servlet container then refers to no class from here. */
    private static final ThreadLocal<@Nullable Turns> OF_THREAD = new ThreadLocal<>();

    private final Thread thread = Thread.currentThread();
    private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicInteger numberWaiting = new AtomicInteger();
    private final AtomicBoolean isScheduled = new AtomicBoolean();

    /** Whether this is a thread of the scheduler, as far as is known. */
    private volatile boolean isWorker = WORKER.matcher(thread.getName()).matches();

    /** Schedules on this thread; null before the end of the first turn. */
    private volatile Scheduler.@Nullable Worker worker;

    // Used by this thread only.
    private boolean isShared;
    private long made;
    private long endOfTurn = LENGTH;

    private Turns() {}

    /** Shares the current thread: decisions for all callers of a store are emitted on it. */
    public static void share() {
        Turns known = OF_THREAD.get();
        (known == null ? create() : known).isShared = true;
    }

    /** Returns whether the current thread is shared. */
    public static boolean isShared() {
        Turns turns = OF_THREAD.get();
        return turns != null && turns.isShared;
    }

    /** Begins a turn on the current thread, which is shared. */
    public static void begin() {
        Turns turns = ofThread();
        if (turns != null) {
            turns.endOfTurn = turns.made + LENGTH;
        }
    }

    /** Counts a decision that is made at once on this thread. */
    public static void count() {
        Turns turns = ofThread();
        if (turns != null) {
            turns.made++;
        }
    }

    /**
     * Returns whether the next decision on this thread must {@linkplain #join wait}.
     *
     * @return whether the turn of this thread is over
     */
    public static boolean isOver() {
        Turns turns = ofThread();
        return turns != null && turns.made >= turns.endOfTurn && (turns.isWorker || turns.isShared);
    }

    /** Returns the turns of the current thread; null if it takes none. */
    private static @Nullable Turns ofThread() {
        Turns known = OF_THREAD.get();
        return known == null && Thread.currentThread() instanceof NonBlocking ? create() : known;
    }

    private static Turns create() {
        Turns created = new Turns();
        OF_THREAD.set(created);
        return created;
    }

    /**
     * Adds a task to those that wait for the next turn of this thread.
     *
     * @param task makes a decision
     */
    public static void join(Runnable task) {
        Turns turns = ofThread();
        if (turns == null || turns.isShared) {
            Schedulers.parallel().schedule(task);
            return;
        }
        // With the context of this caller, as if each task were scheduled by itself.
        turns.waiting.add(Schedulers.onSchedule(task));
        if (turns.numberWaiting.incrementAndGet() > MOST_WAITING) {
            turns.endOfTurn = turns.made + LENGTH;
        }
        turns.schedule();
    }

    private void schedule() {
        if (!isScheduled.get() && isScheduled.compareAndSet(false, true)) {
            try {
                Scheduler.Worker known = worker;
                if (known == null) {
                    findWorker(MOST_TRIES);
                } else {
                    known.schedule(this::run);
                }
            } catch (RejectedExecutionException e) {
                isScheduled.set(false);
                throw e;
            }
        }
    }

    /**
     * Finds the worker of this thread by running a task on many of them at once: a worker does not name its thread, and
     * some threads may be held.
     */
    private void findWorker(int triesLeft) {
        AtomicInteger unanswered = new AtomicInteger(CANDIDATES);
        for (int i = 0; i < CANDIDATES; i++) {
            Scheduler.Worker candidate = Schedulers.parallel().createWorker();
            candidate.schedule(() -> {
                boolean isFound = worker == null && Thread.currentThread() == thread;
                if (isFound) {
                    worker = candidate;
                    run();
                } else {
                    candidate.dispose();
                }
                if (unanswered.decrementAndGet() == 0 && worker == null) {
                    findAgain(triesLeft);
                }
            });
        }
    }

    private void findAgain(int triesLeft) {
        if (triesLeft > 0) {
            findWorker(triesLeft - 1);
        } else {
            // A thread of another scheduler, with a similar name: it gets no turns, and its counters do not matter.
            isWorker = false;
            run();
        }
    }

    /** Runs what waits, for one turn. Until nothing waits, further decisions join, so that callers alternate. */
    private void run() {
        long end = made + LENGTH;
        try {
            for (Runnable next = waiting.poll(); next != null; next = made < end ? waiting.poll() : null) {
                numberWaiting.decrementAndGet();
                long before = made;
                next.run();
                // Also if its decision is not made at once.
                made = Math.max(made, before + 1);
            }
        } finally {
            isScheduled.set(false);
            if (waiting.isEmpty()) {
                endOfTurn = made + LENGTH;
            } else {
                schedule();
            }
        }
    }
}
