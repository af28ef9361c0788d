package io.github.spillgate.failover;

import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;

/**
 * How far a question has come. Three things happen once: whoever asks is served or leaves, the question to the store
 * ends, and the gate is told what came of it.
 */
abstract class CallProgress {

    private static final AtomicIntegerFieldUpdater<CallProgress> ASKER =
            AtomicIntegerFieldUpdater.newUpdater(CallProgress.class, "asker");
    private static final AtomicIntegerFieldUpdater<CallProgress> CLOSED =
            AtomicIntegerFieldUpdater.newUpdater(CallProgress.class, "closed");
    private static final AtomicIntegerFieldUpdater<CallProgress> JUDGED =
            AtomicIntegerFieldUpdater.newUpdater(CallProgress.class, "judged");

    private static final int NEW = 0;
    private static final int WAITS = 1;
    private static final int SERVED = 2;

    private volatile int asker;
    private volatile int closed;
    private volatile int judged;

    /** Whoever asks begins to wait. */
    final boolean begins() {
        return asker == NEW && ASKER.compareAndSet(this, NEW, WAITS);
    }

    final boolean isWaitedFor() {
        return asker == WAITS;
    }

    /** Whoever waits is served by the caller of this, and by nobody else. */
    final boolean serves() {
        return asker == WAITS && ASKER.compareAndSet(this, WAITS, SERVED);
    }

    /** Whoever asks leaves; returns whether he was waiting. */
    final boolean leaves() {
        return ASKER.getAndSet(this, SERVED) == WAITS;
    }

    /** The question to the store ends. */
    final boolean closes() {
        return closed == 0 && CLOSED.compareAndSet(this, 0, 1);
    }

    final boolean isClosed() {
        return closed == 1;
    }

    final boolean isJudged() {
        return judged == 1;
    }

    /** The gate is to be told by the caller of this. */
    final boolean judges() {
        return judged == 0 && JUDGED.compareAndSet(this, 0, 1);
    }
}
