package io.github.spillgate.resilience;

import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;

/**
 * How far a question has come. Three things happen once: whoever asks is served or leaves, the question to the store ends, and the
 * gate is told what came of it.
 */
abstract class Progress {

    private static final AtomicIntegerFieldUpdater<Progress> ASKER =
            AtomicIntegerFieldUpdater.newUpdater(Progress.class, "asker");
    private static final AtomicIntegerFieldUpdater<Progress> CLOSED =
            AtomicIntegerFieldUpdater.newUpdater(Progress.class, "closed");
    private static final AtomicIntegerFieldUpdater<Progress> JUDGED =
            AtomicIntegerFieldUpdater.newUpdater(Progress.class, "judged");

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

    /** The gate is to be told by the caller of this. */
    final boolean judges() {
        return judged == 0 && JUDGED.compareAndSet(this, 0, 1);
    }
}
