package io.github.spillgate.redis.lane;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;

/** The decisions that wait until their server is found, or its first connection is open. Bounded. */
public final class WaitingDecisions {

    private final BatchBounds bounds;
    private final Scheduler deliverOn;
    private final AtomicInteger number = new AtomicInteger();

    public WaitingDecisions(BatchBounds bounds, Scheduler deliverOn) {
        this.bounds = bounds;
        this.deliverOn = deliverOn;
    }

    /** Calls a function with the result once it is there. Fails the decision if too many wait, or if there is none. */
    public <T> void await(Mono<T> awaited, PendingDecision decision, Consumer<T> then) {
        if (number.incrementAndGet() > bounds.waiting()) {
            number.decrementAndGet();
            decision.fail(bounds.tooManyWait());
            return;
        }
        awaited.publishOn(deliverOn)
                .doFinally(end -> number.decrementAndGet())
                .subscribe(
                        then, error -> AnswerDelivery.deliver(deliverOn, () -> decision.fail(Errors.translate(error))));
    }
}
