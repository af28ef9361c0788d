package io.github.spillgate;

import reactor.core.publisher.Mono;

/** An object that is closed without blocking. Each closes only what it has opened: close it before what it uses. */
public interface AsyncCloseable extends AutoCloseable {

    /**
     * Closes this object: it starts no new work, completes what is in flight within its deadlines, and then releases
     * what it has opened itself. Begins with the first subscriber; a cancellation does not stop it. Idempotent: each
     * subscriber waits for the same end.
     *
     * @return completes when everything is done; never an error
     */
    Mono<Void> closeLater();

    /** Closes this object like {@link #closeLater()}, and does not wait for the end. */
    @Override
    default void close() {
        closeLater().subscribe();
    }
}
