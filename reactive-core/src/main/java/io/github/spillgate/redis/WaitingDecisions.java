package io.github.spillgate.redis;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import reactor.core.publisher.Mono;

/** The decisions that wait until their server is found, or its first connection is open. Bounded. */
final class WaitingDecisions {

    private final BatchBounds bounds;
    private final Delivery delivery;
    private final AtomicInteger number = new AtomicInteger();

    WaitingDecisions(BatchBounds bounds, Delivery delivery) {
        this.bounds = bounds;
        this.delivery = delivery;
    }

    /** Lets a decision wait for something, or fails it if too many wait, or if there is no such thing. */
    <T> void await(Mono<T> awaited, PendingDecision decision, Consumer<T> then) {
        if (number.incrementAndGet() > bounds.waiting()) {
            number.decrementAndGet();
            decision.fail(bounds.tooManyWait());
            return;
        }
        awaited.doFinally(end -> number.decrementAndGet())
                .subscribe(then, error -> delivery.deliver(() -> decision.fail(Errors.translate(error))));
    }
}
