package io.github.spillgate.internal.holding;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.StoreDecision;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/**
 * Work that runs while it holds permits. Takes them on subscription, and releases them once, when the work completes,
 * fails or is cancelled.
 *
 * @param <T> the type of the elements
 */
public final class WhileHolding<T> extends Flux<T> {

    private final Mono<Decision> take;
    private final Publisher<T> work;
    private final Holds holds;

    /** Creates work that holds the permits of a decision, if that is allowed. */
    public WhileHolding(Mono<Decision> take, Publisher<T> work, Holds holds) {
        this.take = take;
        this.work = work;
        this.holds = holds;
    }

    @Override
    public void subscribe(CoreSubscriber<? super T> actual) {
        // Serialized, because the permits may be lost while the work emits.
        WorkSubscriber<T> subscriber = new WorkSubscriber<>(work, holds, Operators.serialize(actual));
        actual.onSubscribe(subscriber);
        take.subscribe(subscriber.taking);
    }

    private static final class WorkSubscriber<T> implements CoreSubscriber<T>, Subscription {

        private static final int TAKING = 0;

        /** The work may begin even if it is cancelled now, so the permits are held until it can be cancelled. */
        private static final int STARTING = 1;

        private static final int RUNNING = 2;
        private static final int OVER = 3;

        private final Publisher<T> work;
        private final Holds holds;
        private final CoreSubscriber<? super T> actual;
        private final DecisionSubscriber taking = new DecisionSubscriber();
        private final Operators.DeferredSubscription running = new Operators.DeferredSubscription();
        private final AtomicInteger state = new AtomicInteger(TAKING);

        /** Written before the work runs. */
        private volatile Holds.@Nullable WorkHold hold;

        /** Why the permits are lost. Written before the state is read, because the work may begin at the same time. */
        private volatile @Nullable HoldExpiredException expired;

        WorkSubscriber(Publisher<T> work, Holds holds, CoreSubscriber<? super T> actual) {
            this.work = work;
            this.holds = holds;
            this.actual = actual;
        }

        @Override
        public Context currentContext() {
            return actual.currentContext();
        }

        // The subscriber.

        @Override
        public void request(long n) {
            running.request(n);
        }

        @Override
        public void cancel() {
            int before = state.getAndSet(OVER);
            if (before == TAKING) {
                taking.cancel();
                return;
            }
            running.cancel();
            if (before == RUNNING) {
                release();
            }
        }

        /** Ends the work, and returns whether this call did. */
        private boolean end() {
            return state.compareAndSet(STARTING, OVER) || state.compareAndSet(RUNNING, OVER);
        }

        private void release() {
            Holds.WorkHold held = hold;
            if (held != null) {
                held.dispose();
            }
        }

        private void lost(HoldExpiredException error) {
            expired = error;
            if (end()) {
                running.cancel();
                actual.onError(error);
            }
        }

        // The work.

        @Override
        public void onSubscribe(Subscription s) {
            boolean isRunning = state.compareAndSet(STARTING, RUNNING);
            running.set(s);
            if (!isRunning) {
                releaseIfOver();
            }
        }

        private void releaseIfOver() {
            if (state.get() == OVER) {
                release();
            }
        }

        @Override
        public void onNext(T element) {
            if (state.get() != OVER) {
                actual.onNext(element);
            } else {
                Operators.onDiscard(element, currentContext());
            }
        }

        @Override
        public void onError(Throwable error) {
            if (end()) {
                release();
                actual.onError(error);
            } else {
                Operators.onErrorDropped(error, currentContext());
            }
        }

        @Override
        public void onComplete() {
            if (end()) {
                release();
                actual.onComplete();
            }
        }

        /** Gets the decision, and then starts the work. */
        private final class DecisionSubscriber implements CoreSubscriber<Decision> {

            private final Operators.DeferredSubscription upstream = new Operators.DeferredSubscription();
            private final long sentAt = Time.nanos();

            @Override
            public Context currentContext() {
                return actual.currentContext();
            }

            void cancel() {
                upstream.cancel();
            }

            @Override
            public void onSubscribe(Subscription s) {
                upstream.set(s);
                upstream.request(1);
            }

            @Override
            public void onNext(Decision decision) {
                if (!decision.isAllowed()) {
                    fail(new RateLimitedException(decision));
                    return;
                }
                Holds.WorkHold held = decision instanceof StoreDecision made && HoldIds.areIn(made)
                        ? holds.add(made.claims(), sentAt, WorkSubscriber.this::lost)
                        : null;
                hold = held;
                if (!state.compareAndSet(TAKING, STARTING)) {
                    release();
                    return;
                }
                HoldExpiredException error = expired;
                if (error != null) {
                    // They were lost before the work could run.
                    lost(error);
                    return;
                }
                try {
                    work.subscribe(WorkSubscriber.this);
                } catch (Throwable e) {
                    // First, because a fatal error, such as a missing class, is thrown on. It would be renewed
                    // otherwise.
                    release();
                    Exceptions.throwIfFatal(e);
                    WorkSubscriber.this.onError(e);
                }
                if (!state.compareAndSet(STARTING, RUNNING)) {
                    releaseIfOver();
                }
            }

            @Override
            public void onError(Throwable error) {
                fail(error);
            }

            private void fail(Throwable error) {
                if (state.compareAndSet(TAKING, OVER)) {
                    actual.onError(error);
                }
            }

            @Override
            public void onComplete() {
                fail(new LimitStoreException(Kind.REJECTED, "the store has given no decision"));
            }
        }
    }
}
