package io.github.spillgate.redis.lane;

import io.github.spillgate.internal.Turns;
import io.github.spillgate.redis.lane.Batch.BatchPart;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;

/** Emits the answers of one connection, on its event loop or elsewhere. Used by that loop. */
public final class AnswerDelivery {
    // Design notes.
    //
    // A thread switch takes longer than most callers go on for. So a few answers are emitted on the event loop that has
    // read them. But many callers may share this loop, and while one of them goes on, the replies to the others wait.
    // So the loop measures how long it emits. If that is long, it emits the next batches elsewhere, and then tries
    // again.
    // However slow the callers are, they take on average less of the loop for a batch than a thread switch would.

    /** The threads of event loops with a connection. Reactor refuses to block them. */
    private static final Set<Thread> LOOPS =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    static {
        Schedulers.registerNonBlockingThreadPredicate(LOOPS::contains);
    }

    /** The most answers of a batch that are emitted on the loop. More are worth a thread switch, or two threads. */
    private static final int FEW = 8;

    /** A longer time for one answer is long, in nanoseconds. */
    private static final long LONG = TimeUnit.MICROSECONDS.toNanos(50);

    /** The time of the loop, in nanoseconds, for which one batch is emitted elsewhere. */
    private static final long TIME_FOR_BATCH = TimeUnit.MICROSECONDS.toNanos(10);

    /** The longest time that counts, in nanoseconds: the process may have stood still. */
    private static final long MOST = TimeUnit.SECONDS.toNanos(10);

    /** Emits answers elsewhere; null if their callers are on the event loop, and continue there. */
    private final @Nullable Scheduler elsewhere;

    private final boolean emitsFew;

    /** The number of batches that are emitted elsewhere before one is tried on the loop again. */
    private long skipped;

    private AnswerDelivery(@Nullable Scheduler elsewhere, boolean emitsFew) {
        this.elsewhere = elsewhere;
        this.emitsFew = emitsFew;
    }

    /** Returns a delivery to callers on the event loop of the connection. */
    public static AnswerDelivery onLoop() {
        return new AnswerDelivery(null, false);
    }

    /**
     * Returns a delivery to callers on any thread.
     *
     * @param elsewhere emits answers
     * @param emitsFew whether the event loop may emit a few answers itself
     */
    public static AnswerDelivery on(Scheduler elsewhere, boolean emitsFew) {
        return new AnswerDelivery(elsewhere, emitsFew);
    }

    /** Prepares the current thread, which is that of the event loop. */
    void prepareThread() {
        LOOPS.add(Thread.currentThread());
        if (!isOnLoop()) {
            Turns.share();
        }
    }

    /** Returns whether callers are on the event loop, and continue there. */
    boolean isOnLoop() {
        return elsewhere == null;
    }

    /** Emits the answers of a batch. */
    void deliver(Batch batch, OpenConnection connection, Consumer<BatchPart> emit) {
        if (!isOnLoop()) {
            // Also if the answers are emitted elsewhere: that may be Schedulers.immediate().
            Turns.begin();
        }
        if (!emitsFew || batch.size() > FEW) {
            batch.parts().forEach(part -> deliver(() -> emit.accept(part)));
        } else if (skipped > 0) {
            skipped--;
            deliver(() -> batch.parts().forEach(emit));
        } else {
            long start = connection.now();
            batch.parts().forEach(emit);
            long nanos = connection.now() - start;
            skipped = nanos > LONG * batch.size() ? Math.min(nanos, MOST) / TIME_FOR_BATCH : 0;
        }
    }

    /** Emits one answer. */
    void deliver(Runnable answer) {
        if (elsewhere == null) {
            answer.run();
        } else {
            deliver(elsewhere, answer);
        }
    }

    /** Emits an answer on a scheduler, so that no caller continues on the thread that reads from Redis. */
    static void deliver(Scheduler elsewhere, Runnable answer) {
        try {
            elsewhere.schedule(answer);
        } catch (RejectedExecutionException e) {
            // The user has shut down the scheduler before the last decision.
            answer.run();
        }
    }
}
