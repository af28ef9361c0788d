package io.github.spillgate.store;

import io.github.spillgate.internal.Dropped;
import java.util.Collection;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/**
 * Work on some rows between its request and its answer, and the subscription of its caller. It is answered at most
 * once, and never after a cancellation.
 *
 * @param <T> the type of the result
 */
final class Task<T> implements Subscription {

    /** How often a task or a batch is tried. */
    static final int MOST_TRIES = 100;

    private enum Stage {
        NEW,
        WAITING,
        SENT,
        DONE
    }

    @SuppressWarnings("rawtypes")
    private static final AtomicReferenceFieldUpdater<Task, Stage> STAGE =
            AtomicReferenceFieldUpdater.newUpdater(Task.class, Stage.class, "stage");

    private final Work<T> work;
    private final Consumer<Task<?>> onRequest;
    private final CoreSubscriber<? super T> subscriber;
    private volatile Stage stage = Stage.NEW;

    // Written by the thread that computes, before another one answers.
    private @Nullable T result;
    private @Nullable Throwable error;

    /** How often it was postponed. Used in a batch only. */
    private int tries;

    private Task(Work<T> work, Consumer<Task<?>> onRequest, CoreSubscriber<? super T> subscriber) {
        this.work = work;
        this.onRequest = onRequest;
        this.subscriber = subscriber;
    }

    /** Returns a Mono that creates a task for each subscriber, and passes it on when the subscriber requests it. */
    static <T> Mono<T> of(Work<T> work, Consumer<Task<?>> onRequest) {
        return new Mono<>() {
            @Override
            public void subscribe(CoreSubscriber<? super T> subscriber) {
                subscriber.onSubscribe(new Task<>(work, onRequest, subscriber));
            }
        };
    }

    @Override
    public void request(long n) {
        if (Operators.validate(n) && STAGE.compareAndSet(this, Stage.NEW, Stage.WAITING)) {
            onRequest.accept(this);
        }
    }

    @Override
    public void cancel() {
        stage = Stage.DONE;
    }

    Collection<String> keys() {
        return work.keys;
    }

    long deadline() {
        return work.deadline;
    }

    /** Marks the task as sent; returns false if it was cancelled. */
    boolean markSent() {
        return STAGE.compareAndSet(this, Stage.WAITING, Stage.SENT);
    }

    /** Marks the task as waiting again, unless it was cancelled; returns how often this was done. */
    int markWaiting() {
        STAGE.compareAndSet(this, Stage.SENT, Stage.WAITING);
        return ++tries;
    }

    /** Returns whether it is answered or cancelled. */
    boolean isDone() {
        return stage == Stage.DONE;
    }

    /** Computes the result; again if the rows of an earlier attempt have changed. */
    void compute(Page page) {
        result = null;
        error = null;
        try {
            result = work.step.apply(page);
        } catch (NotPossible e) {
            error = e.failure;
        }
    }

    void fail(Throwable failure) {
        error = failure;
    }

    /** Emits the result or the error. Throws nothing, even if the subscriber does: other tasks follow. */
    void answer() {
        T computed = result;
        if (STAGE.getAndSet(this, Stage.DONE) == Stage.DONE) {
            if (error == null && computed != null) {
                work.onUnused.accept(computed);
            }
            return;
        }
        try {
            if (error != null) {
                subscriber.onError(error);
                return;
            }
            if (computed != null) {
                subscriber.onNext(computed);
            }
            subscriber.onComplete();
        } catch (Throwable e) {
            Dropped.report(e, subscriber.currentContext());
        }
    }

    /**
     * What a task does.
     *
     * @param keys the keys of all its rows
     * @param deadline the last moment at which it may take effect, in nanoseconds of {@code Time}; {@code NO_DEADLINE}
     *     if there is none
     * @param step computes the result, and changes the page; null is an empty result
     * @param onUnused gets the result if its subscriber has cancelled
     */
    record Work<T>(
            Collection<String> keys, long deadline, Function<Page, @Nullable T> step, Consumer<? super T> onUnused) {}

    /** Ends a step that has changed nothing. */
    static final class NotPossible extends RuntimeException {

        private static final long serialVersionUID = 1L;

        private final RuntimeException failure;

        NotPossible(RuntimeException failure) {
            super(failure);
            this.failure = failure;
        }
    }
}
