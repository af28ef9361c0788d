package io.github.spillgate.vertx;

import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;

/**
 * A subscriber that delivers the result of a {@code Mono} on a Vert.x context. If the result is available during the
 * subscription, and the caller is on that context, it is delivered synchronously, without a task for the event loop.
 */
final class ContextDelivery<T> implements CoreSubscriber<T> {

    private static final int SUBSCRIBING = 0;
    private static final int WAITING = 1;
    private static final int COMPLETED = 2;

    private final Context context;
    private final BiConsumer<@Nullable T, @Nullable Throwable> callback;
    private final AtomicInteger state = new AtomicInteger(SUBSCRIBING);
    private @Nullable T result;
    private @Nullable Throwable error;

    private ContextDelivery(Context context, BiConsumer<@Nullable T, @Nullable Throwable> callback) {
        this.context = context;
        this.callback = callback;
    }

    /** Subscribes, and returns the result as a future on the context of the caller; null if there is none. */
    static <T> Future<T> future(Vertx vertx, Mono<T> source) {
        Promise<T> promise = Promise.promise();
        BiConsumer<@Nullable T, @Nullable Throwable> callback = (result, error) -> {
            if (error == null) {
                promise.complete(result);
            } else {
                promise.fail(error);
            }
        };
        subscribe(vertx.getOrCreateContext(), source, () -> {}, callback);
        return promise.future();
    }

    /**
     * Subscribes, and delivers the result on a context.
     *
     * @param context the context of the callback
     * @param source the publisher of the result
     * @param beforeWaiting runs before this method returns without a result; not before a synchronous delivery
     * @param callback receives the result, or the error, or neither if the source is empty; called once
     */
    static <T> void subscribe(
            Context context,
            Mono<T> source,
            Runnable beforeWaiting,
            BiConsumer<@Nullable T, @Nullable Throwable> callback) {
        ContextDelivery<T> delivery = new ContextDelivery<>(context, callback);
        source.subscribe(delivery);
        boolean isOnContext = Vertx.currentContext() == context;
        if (!isOnContext || delivery.state.get() == SUBSCRIBING) {
            beforeWaiting.run();
        }
        if (delivery.state.compareAndSet(SUBSCRIBING, WAITING)) {
            return;
        }
        if (isOnContext) {
            delivery.deliver();
        } else {
            delivery.deliverOnContext();
        }
    }

    @Override
    public void onSubscribe(Subscription subscription) {
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(T value) {
        result = value;
    }

    @Override
    public void onError(Throwable why) {
        error = why;
        complete();
    }

    @Override
    public void onComplete() {
        complete();
    }

    private void complete() {
        if (!state.compareAndSet(SUBSCRIBING, COMPLETED)) {
            deliverOnContext();
        }
    }

    private void deliverOnContext() {
        try {
            context.runOnContext(ignored -> deliver());
        } catch (RejectedExecutionException e) {
            // The context is closed, but the caller may still wait: deliver on this thread.
            deliver();
        }
    }

    private void deliver() {
        callback.accept(result, error);
    }
}
