package io.github.spillgate.internal.waiting;

import io.github.spillgate.Decision;
import io.github.spillgate.LimitLookupException;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Time;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;
import java.util.function.LongFunction;
import java.util.function.ObjLongConsumer;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Exceptions;
import reactor.core.Scannable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.FluxOperator;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/** A stream in which each element waits for its permits. Elements keep their order. */
public final class Throttle<T> extends FluxOperator<T, T> {
    // Design notes.
    //
    // Order of events. A permit must be used when it is granted. If it were taken before its element arrives, or for an
    // element without downstream demand, the element would be emitted later than the store believes, and a window could
    // then contain more elements than the limit allows. So an element is requested only if there is demand for it; then
    // it waits for its permits, and is emitted as soon as they are granted.
    //
    // Buffer. The number of waiting elements is bounded by the demand, and by the permits that remained after the last
    // grant: that many elements wait at the same time, at least one.
    //
    // Slow subscribers. While the subscriber is busy with one element, the permits of the next ones become stale. A
    // stale permit is refunded when its element is the next to be emitted, and the element waits for another one. A
    // slow subscriber gets only one element in advance.
    //
    // Places. Only the first element must find a place in the wait queue. The permits of the others are requested in
    // advance. If no place is free for such a request, it is repeated when its element is the first.

    /** The maximum number of waiting elements: enough to use the time of a round trip, and few of a queue's places. */
    public static final int MAX_WAITING = 16;

    /** The age at which a granted permit is stale. */
    private static final long STALE_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

    private final ToLongFunction<? super T> permits;

    /** Acquires a number of permits, without a bound of the wait. */
    private final LongFunction<Mono<Decision>> acquire;

    private final WaitQueues queues;
    private final int maxWaiting;
    private final @Nullable ObjLongConsumer<Decision> listener;

    /**
     * Creates a throttled stream.
     *
     * @param acquire acquires a number of permits, without a bound of the wait
     * @param listener gets each decision when its element is emitted, and since when that has waited; null for none
     */
    public Throttle(
            Flux<T> source,
            ToLongFunction<? super T> permits,
            LongFunction<Mono<Decision>> acquire,
            WaitQueues queues,
            int maxWaiting,
            @Nullable ObjLongConsumer<Decision> listener) {
        super(source);
        this.permits = permits;
        this.acquire = acquire;
        this.queues = queues;
        this.maxWaiting = maxWaiting;
        this.listener = listener;
    }

    @Override
    public void subscribe(CoreSubscriber<? super T> actual) {
        source.subscribe(new ThrottledSubscription<>(this, actual));
    }

    private static final class ThrottledSubscription<T> implements CoreSubscriber<T>, Subscription, Scannable {

        private static final AtomicLongFieldUpdater<ThrottledSubscription<?>> REQUESTED = requestedUpdater();
        private static final AtomicIntegerFieldUpdater<ThrottledSubscription<?>> WORK = workUpdater();

        private final Throttle<T> throttle;
        private final CoreSubscriber<? super T> actual;
        private final Queue<WaitingElement> waiting = new ConcurrentLinkedQueue<>();
        private @Nullable Subscription source;

        private volatile long requested;

        @SuppressWarnings("UnusedVariable") // used by the updater
        private volatile int work;

        private volatile boolean cancelled;

        /** Whether the source has ended. */
        private volatile boolean done;

        /** The error of the source; published by "done". */
        private @Nullable Throwable error;

        private volatile @Nullable Throwable invalidRequest;

        // Accessed only within "drain", by one thread at a time.
        private long requestedUpstream;
        private long emitted;

        /** The highest number of elements to request from the source and not to have emitted yet. */
        private int maxOutstanding = 1;

        private boolean terminated;

        /** The error that was emitted; read by any thread. */
        private volatile @Nullable Throwable failed;

        ThrottledSubscription(Throttle<T> throttle, CoreSubscriber<? super T> actual) {
            this.throttle = throttle;
            this.actual = actual;
        }

        @Override
        public Context currentContext() {
            return actual.currentContext();
        }

        @Override
        public void onSubscribe(Subscription subscription) {
            Objects.requireNonNull(subscription, "subscription");
            if (Operators.validate(source, subscription)) {
                source = subscription;
                actual.onSubscribe(this);
            }
        }

        @Override
        public void onNext(T element) {
            Objects.requireNonNull(element, "element");
            if (done) {
                Operators.onNextDropped(element, currentContext());
                return;
            }
            if (cancelled) {
                Operators.onDiscard(element, currentContext());
                return;
            }
            long permits;
            try {
                permits = Checks.permits(throttle.permits.applyAsLong(element));
            } catch (Throwable e) {
                fail(element, e);
                return;
            }
            if (waiting.size() >= throttle.maxWaiting) {
                fail(
                        element,
                        Exceptions.failWithOverflow(
                                "the source of a throttled stream has emitted more than it was asked for: expected it"
                                        + " to honour requests, for example with onBackpressureBuffer(1_000)"));
                return;
            }
            WaitingElement one = new WaitingElement(element, permits);
            waiting.add(one);
            one.acquire();
            drain();
        }

        private void fail(T element, Throwable cause) {
            Throwable failure = Operators.onOperatorError(source, cause, element, currentContext());
            Operators.onDiscard(element, currentContext());
            onError(failure);
        }

        @Override
        public void onError(Throwable failure) {
            Objects.requireNonNull(failure, "failure");
            if (done) {
                Operators.onErrorDropped(failure, currentContext());
                return;
            }
            error = failure;
            done = true;
            drain();
        }

        @Override
        public void onComplete() {
            if (!done) {
                done = true;
                drain();
            }
        }

        @Override
        public void request(long n) {
            if (n <= 0) {
                invalidRequest = Exceptions.nullOrNegativeRequestException(n);
            } else {
                Operators.addCap(REQUESTED, this, n);
            }
            drain();
        }

        @Override
        public void cancel() {
            cancelled = true;
            subscription().cancel();
            drain();
        }

        private Subscription subscription() {
            Subscription subscription = source;
            return subscription == null ? Operators.emptySubscription() : subscription;
        }

        /** Emits, terminates and requests. One thread at a time; it repeats if another thread has called in between. */
        private void drain() {
            if (WORK.getAndIncrement(this) != 0) {
                return;
            }
            int missed = 1;
            do {
                emitGranted();
                if (cancelled || terminated) {
                    discardAll();
                } else {
                    requestMore();
                }
                missed = WORK.addAndGet(this, -missed);
            } while (missed != 0);
        }

        private void emitGranted() {
            while (!cancelled && !terminated) {
                boolean ended = done;
                WaitingElement next = waiting.peek();
                long now = Time.nanos();
                if (next != null && next.mustReacquire(now)) {
                    reacquireAll(now);
                    continue;
                }
                Throwable failure = failure(next, ended);
                if (failure != null) {
                    terminated = true;
                    failed = failure;
                    if (failure != error) {
                        subscription().cancel();
                    }
                    if (next != null && failure == next.permit.failure) {
                        next.report();
                    }
                    actual.onError(failure);
                } else if (next == null) {
                    if (ended) {
                        terminated = true;
                        actual.onComplete();
                    }
                    return;
                } else if (next.permit.isGranted()) {
                    waiting.poll();
                    emitted++;
                    maxOutstanding = next.fittingAfterGrant(maxOutstanding);
                    next.report();
                    actual.onNext(next.element);
                    if (Time.nanos() - now > STALE_NANOS / 2) {
                        maxOutstanding = 1;
                    }
                } else {
                    return;
                }
            }
        }

        /** Acquires new permits for all elements with stale or missing permits, in their order. */
        private void reacquireAll(long now) {
            maxOutstanding = 1;
            for (WaitingElement one : waiting) {
                if (one.mustReacquire(now)) {
                    one.reacquire();
                }
            }
        }

        /** Returns the failure that is due now. It follows earlier elements, except for an invalid request. */
        private @Nullable Throwable failure(@Nullable WaitingElement next, boolean ended) {
            if (invalidRequest != null) {
                return invalidRequest;
            }
            if (next != null) {
                return next.permit.failure;
            }
            return ended ? error : null;
        }

        private void requestMore() {
            long more = Math.min(maxOutstanding - (requestedUpstream - emitted), requested - requestedUpstream);
            if (more > 0 && !done) {
                requestedUpstream += more;
                subscription().request(more);
            }
        }

        private void discardAll() {
            for (WaitingElement one = waiting.poll(); one != null; one = waiting.poll()) {
                one.permit.release();
                Operators.onDiscard(one.element, currentContext());
            }
        }

        @Override
        @SuppressWarnings("rawtypes") // Reactor's signature
        public @Nullable Object scanUnsafe(Attr key) {
            if (key == Attr.PARENT) {
                return source;
            }
            if (key == Attr.ACTUAL) {
                return actual;
            }
            if (key == Attr.RUN_STYLE) {
                return Attr.RunStyle.ASYNC;
            }
            if (key == Attr.PREFETCH || key == Attr.CAPACITY) {
                return throttle.maxWaiting;
            }
            if (key == Attr.BUFFERED) {
                return waiting.size();
            }
            if (key == Attr.REQUESTED_FROM_DOWNSTREAM) {
                return requested;
            }
            if (key == Attr.CANCELLED) {
                return cancelled;
            }
            if (key == Attr.TERMINATED) {
                return failed != null || (done && waiting.isEmpty());
            }
            return key == Attr.ERROR ? failed : null;
        }

        @SuppressWarnings({"unchecked", "rawtypes"}) // a class literal has no type arguments
        private static AtomicLongFieldUpdater<ThrottledSubscription<?>> requestedUpdater() {
            return (AtomicLongFieldUpdater) AtomicLongFieldUpdater.newUpdater(ThrottledSubscription.class, "requested");
        }

        @SuppressWarnings({"unchecked", "rawtypes"}) // as above
        private static AtomicIntegerFieldUpdater<ThrottledSubscription<?>> workUpdater() {
            return (AtomicIntegerFieldUpdater)
                    AtomicIntegerFieldUpdater.newUpdater(ThrottledSubscription.class, "work");
        }

        /** An element and the permits that it waits for. */
        private final class WaitingElement {

            private final T element;
            private final long permits;
            private final long since = throttle.listener == null ? 0 : Time.nanos();
            private volatile PendingPermit permit = new PendingPermit();
            private boolean retried;

            WaitingElement(T element, long permits) {
                this.element = element;
                this.permits = permits;
            }

            /** Starts to acquire the permits. A cost of 0 is granted at once. */
            void acquire() {
                if (permits == 0) {
                    permit.grant(null);
                } else {
                    throttle.acquire.apply(permits).subscribe(permit);
                }
            }

            /** Returns whether the permit is stale, or its request found no place and may now be repeated. */
            boolean mustReacquire(long now) {
                return permit.isStale(now) || (!retried && permit.foundNoPlace() && waiting.peek() == this);
            }

            void reacquire() {
                retried |= permit.foundNoPlace();
                permit.release();
                permit = new PendingPermit();
                acquire();
            }

            /** Reports the decision with which the element is emitted or the stream fails. */
            void report() {
                Decision decision = permit.decision;
                if (throttle.listener != null && decision != null) {
                    throttle.listener.accept(decision, since);
                }
            }

            /** Returns how many elements of this cost still fitted after its grant; the default if that is unknown. */
            int fittingAfterGrant(int byDefault) {
                Decision decision = permit.decision;
                if (decision == null || permits == 0) {
                    return byDefault;
                }
                return (int) Math.max(1, Math.min(throttle.maxWaiting, decision.remaining() / permits));
            }

            /** The subscriber of one attempt to acquire the permits. */
            private final class PendingPermit extends BaseSubscriber<Decision> {

                private @Nullable Decision decision;
                private long grantedAt;
                private boolean granted;
                private boolean released;
                private volatile @Nullable Throwable failure;

                @Override
                public Context currentContext() {
                    return actual.currentContext();
                }

                @Override
                protected void hookOnNext(Decision answer) {
                    if (!answer.isAllowed()) {
                        decision = answer; // published by "failure"
                        failure = failureOf(answer);
                    } else if (!grant(answer)) {
                        throttle.queues.refund(answer);
                        return;
                    }
                    drain();
                }

                @Override
                protected void hookOnError(Throwable throwable) {
                    failure = throwable;
                    drain();
                }

                synchronized boolean grant(@Nullable Decision answer) {
                    decision = answer;
                    grantedAt = Time.nanos();
                    granted = !released;
                    return granted;
                }

                synchronized boolean isGranted() {
                    return granted;
                }

                synchronized boolean isStale(long now) {
                    return granted && decision != null && now - grantedAt > STALE_NANOS;
                }

                boolean foundNoPlace() {
                    return failure instanceof NoPlaceException;
                }

                void release() {
                    Decision unused;
                    synchronized (this) {
                        released = true;
                        unused = granted ? decision : null;
                    }
                    if (unused == null) {
                        cancel();
                    } else {
                        throttle.queues.refund(unused);
                    }
                }

                private RuntimeException failureOf(Decision denial) {
                    if (denial.source() == Source.LIMITER && denial.retryAfter().isPresent()) {
                        return new NoPlaceException();
                    }
                    if (denial.source() == Source.LIMITER && denial.violated().isEmpty()) {
                        return new LimitLookupException(
                                "a stream cannot go on: the limits of its key could not be looked up, and the lookup"
                                        + " is configured to deny then; expected limits, for example"
                                        + " Otherwise.limits(Limit.perMinute(60))",
                                null);
                    }
                    if (denial.source() == Source.LIMITER) {
                        return new IllegalArgumentException("an element costs " + permits + " permits, which "
                                + denial.violated() + " never hold: expected no more than the smallest of them has, for"
                                + " example 1");
                    }
                    return new LimitStoreException(
                            Kind.REJECTED,
                            "the store denies, and reports no time after which a retry could help: " + denial);
                }
            }
        }
    }

    /** The wait queue is full. */
    private static final class NoPlaceException extends IllegalStateException {

        private static final long serialVersionUID = 1L;

        NoPlaceException() {
            super("the queue of waiters is full: expected fewer streams and callers to wait at a time, or a higher"
                    + " bound, for example .waiters(5_000, 50_000)");
        }
    }
}
