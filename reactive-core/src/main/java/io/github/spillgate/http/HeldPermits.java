package io.github.spillgate.http;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;

/** The permits of concurrency limits that one request holds until its response has ended. Thread-safe. */
final class HeldPermits {

    // Guarded by this.
    private final List<Disposable> held = new ArrayList<>(0);
    private @Nullable Runnable watch;
    private boolean isWatched;
    private boolean isOver;

    /** Sets the action that starts to watch for the end of the response. It runs once, when permits are held. */
    synchronized void watchWith(Runnable watch) {
        if (this.watch == null) {
            this.watch = watch;
        }
    }

    /**
     * Holds permits until the end of the response. If that has passed, they are released at once.
     *
     * @param permits releases the permits when it is disposed of
     */
    void hold(Disposable permits) {
        if (permits.isDisposed()) {
            return;
        }
        Runnable starting = add(permits);
        if (starting != null) {
            starting.run();
        }
    }

    /** Returns the action to run now; null if there is none. */
    private synchronized @Nullable Runnable add(Disposable added) {
        if (isOver) {
            return added::dispose;
        }
        held.add(added);
        if (isWatched) {
            return null;
        }
        isWatched = true;
        return watch;
    }

    /** Releases the permits that are held now. */
    void releaseHeld() {
        List<Disposable> released;
        synchronized (this) {
            released = List.copyOf(held);
            held.clear();
        }
        released.forEach(Disposable::dispose);
    }

    /** Releases the permits, also those that are added later. */
    void release() {
        synchronized (this) {
            isOver = true;
        }
        releaseHeld();
    }
}
