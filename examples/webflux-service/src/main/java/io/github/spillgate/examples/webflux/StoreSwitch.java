package io.github.spillgate.examples.webflux;

import io.github.spillgate.examples.redis.ExampleServer;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.springframework.http.HttpStatus;
import org.springframework.stereotype.Component;
import org.springframework.web.server.ResponseStatusException;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Stops and starts the server that keeps the counts, one change at a time. Signals errors with an HTTP status. */
@Component
final class StoreSwitch {

    private final ExampleServer server;
    private final AtomicBoolean isChanging = new AtomicBoolean();

    StoreSwitch(ExampleServer server) {
        this.server = server;
    }

    Playground.Server state() {
        return new Playground.Server(server.product(), server.name(), server.isOurs(), server.isRunning());
    }

    /** Stops the server, and completes when it has ended. */
    Mono<Void> stop() {
        return change(server::stop);
    }

    /** Starts the server empty, and completes when it responds. */
    Mono<Void> start() {
        return change(server::start);
    }

    /** Rejects a request during another change instead of queueing it: else each click would hold a thread. */
    private Mono<Void> change(Change change) {
        return Mono.defer(() -> isChanging.compareAndSet(false, true)
                ? Mono.fromFuture(begin(change), true)
                : Mono.error(new ResponseStatusException(
                        HttpStatus.CONFLICT,
                        server.product() + " is being stopped or started: expected one change at a time")));
    }

    /**
     * Waits for the process on a thread that may block. Completes even if the subscriber cancels: a cancellation would
     * interrupt the change, and leave an orphaned process.
     */
    private CompletableFuture<Void> begin(Change change) {
        return Mono.<Void>fromCallable(() -> {
                    change.run();
                    return null;
                })
                .subscribeOn(Schedulers.boundedElastic())
                .doOnTerminate(() -> isChanging.set(false))
                .onErrorMap(StoreSwitch::withStatus)
                .toFuture();
    }

    private static Throwable withStatus(Throwable error) {
        if (error instanceof UnsupportedOperationException) {
            return new ResponseStatusException(HttpStatus.CONFLICT, error.getMessage(), error);
        }
        return error instanceof IOException
                ? new ResponseStatusException(HttpStatus.INTERNAL_SERVER_ERROR, error.getMessage(), error)
                : error;
    }

    private interface Change {
        void run() throws IOException;
    }
}
