package io.github.spillgate.examples.grpc;

import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.Status;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Scheduler;

/** Passes on the events of a call in order, and queues them while a decision is pending. */
final class LimitedListener<Q, A> extends ServerCall.Listener<Q> {

    private final Sinks.Many<Mono<?>> events = Sinks.many().unicast().onBackpressureBuffer();
    private final Sinks.Empty<Void> cancelled = Sinks.empty();
    private final LimitedCall<Q, A> call;
    private final RateLimiter limiter;
    private final Mono<Decision> decision;
    private final boolean ofMessages;

    /** No handler, before the call is allowed and after it has ended. */
    private ServerCall.Listener<Q> handler = new ServerCall.Listener<>() {};

    /** Releases the permits of concurrency limits. */
    private Disposable held = Disposables.disposed();

    LimitedListener(
            LimitedCall<Q, A> call, RateLimiter limiter, Mono<Decision> question, boolean ofMessages, Scheduler goOn) {
        this.call = call;
        this.limiter = limiter;
        this.decision = question.takeUntilOther(cancelled.asMono()).publishOn(goOn);
        this.ofMessages = ofMessages;
        events.asFlux().concatMap(event -> event).subscribe(done -> {}, this::failed);
    }

    void start(Metadata headers, ServerCallHandler<Q, A> next) {
        handOn(!ofMessages, () -> handler = next.startCall(call, headers));
    }

    @Override
    public void onMessage(Q message) {
        handOn(ofMessages, () -> handler.onMessage(message));
    }

    @Override
    public void onHalfClose() {
        handOn(false, () -> handler.onHalfClose());
    }

    @Override
    public void onReady() {
        handOn(false, () -> handler.onReady());
    }

    @Override
    public void onComplete() {
        handOn(false, () -> {
            held.dispose();
            if (call.isEnded()) {
                handler.onCancel();
            } else {
                handler.onComplete();
            }
        });
    }

    @Override
    public void onCancel() {
        cancelled.tryEmitEmpty();
        handOn(false, () -> {
            held.dispose();
            handler.onCancel();
        });
    }

    private void handOn(boolean ask, Runnable event) {
        events.tryEmitNext(ask ? decision.doOnNext(decided -> handOn(decided, event)) : Mono.fromRunnable(event));
    }

    private void handOn(Decision decided, Runnable event) {
        call.tell(decided);
        if (decided.isAllowed()) {
            if (!ofMessages) {
                held = limiter.keepHolding(decided, expired -> call.end(unavailable(expired), new Metadata()));
            }
            event.run();
        } else {
            end(Status.RESOURCE_EXHAUSTED.withDescription("too many requests"), LimitedCall.trailers(decided));
        }
    }

    /** No store could decide, or the handler has failed. The client does not see the cause. */
    private void failed(Throwable error) {
        end(
                error instanceof LimitStoreException ? unavailable(error) : Status.UNKNOWN.withCause(error),
                new Metadata());
    }

    private static Status unavailable(Throwable cause) {
        return Status.UNAVAILABLE.withCause(cause);
    }

    private void end(Status status, Metadata trailers) {
        held.dispose();
        call.end(status, trailers);
        handler.onCancel();
        handler = new ServerCall.Listener<>() {};
    }
}
