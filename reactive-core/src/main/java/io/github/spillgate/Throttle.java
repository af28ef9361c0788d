package io.github.spillgate;

import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;
import java.util.function.Consumer;
import java.util.function.LongFunction;
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
import reactor.util.concurrent.Queues;
import reactor.util.context.Context;

/** A stream in which every element waits for its permits, and goes on in its order. */
final class Throttle<T> extends FluxOperator<T, T> {
    // Design notes.
    //
    // A permit is of use at the moment at which it is granted. Were it taken before there is an element, or for one
    // that
    // nobody downstream has asked for, the element would go out later than the store believes, and more of them could
    // go
    // out in a window than the limit says. So the element comes first, and only one that is asked for; then its permit
    // is
    // waited for; then it goes out at once. What is in hand at any time is therefore bounded by the demand, and by what
    // the last answer said there is room for: that many permits are asked for at the same time, and one where nothing
    // remained.

    private final ToLongFunction<? super T> permits;
    private final LongFunction<Mono<Decision>> acquire;
    private final Consumer<Decision> giveBack;
    private final int mostInHand;

    private Throttle(
            Flux<T> source,
            ToLongFunction<? super T> permits,
            LongFunction<Mono<Decision>> acquire,
            Consumer<Decision> giveBack,
            int mostInHand) {
        super(source);
        this.permits = permits;
        this.acquire = acquire;
        this.giveBack = giveBack;
        this.mostInHand = mostInHand;
    }

    /**
     * Throttles the source.
     *
     * @param permits how many an element costs
     * @param acquire waits for so many, for ever
     * @param giveBack takes a decision that is of no use any more
     * @param mostInHand how many elements may wait at a time
     */
    static <T> Flux<T> of(
            Flux<T> source,
            ToLongFunction<? super T> permits,
            LongFunction<Mono<Decision>> acquire,
            Consumer<Decision> giveBack,
            int mostInHand) {
        return onAssembly(new Throttle<>(source, permits, acquire, giveBack, mostInHand));
    }

    @Override
    public void subscribe(CoreSubscriber<? super T> actual) {
        source.subscribe(new Throttled<>(this, actual));
    }

    private static final class Throttled<T> implements CoreSubscriber<T>, Subscription, Scannable {

        private static final AtomicLongFieldUpdater<Throttled<?>> REQUESTED = requestedUpdater();
        private static final AtomicIntegerFieldUpdater<Throttled<?>> ROUNDS = roundsUpdater();

        private final Throttle<T> how;
        private final CoreSubscriber<? super T> actual;
        private final Queue<Slot> inHand;
        private @Nullable Subscription source;

        private volatile long requested;

        @SuppressWarnings("UnusedVariable") // by its name
        private volatile int rounds;

        private volatile boolean cancelled;
        private volatile boolean done;
        private volatile @Nullable Throwable wrongRequest;
        private @Nullable Throwable error; // written before "done"

        // Of whoever is in "drain".
        private long asked;
        private long emitted;
        private int room = 1;
        private boolean terminated;

        Throttled(Throttle<T> how, CoreSubscriber<? super T> actual) {
            this.how = how;
            this.actual = actual;
            this.inHand = Queues.<Slot>get(how.mostInHand).get();
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
            long permits;
            try {
                permits = Charge.checkPermits(how.permits.applyAsLong(element));
            } catch (Throwable e) {
                onError(Operators.onOperatorError(source, e, element, currentContext()));
                return;
            }
            Slot slot = new Slot(element, permits);
            if (!inHand.offer(slot)) {
                onError(Operators.onOperatorError(
                        source,
                        Exceptions.failWithOverflow(
                                "the source of a throttled stream has emitted more than it was asked for: expected it to"
                                        + " honour requests, for example with onBackpressureBuffer(1_000)"),
                        element,
                        currentContext()));
                return;
            }
            slot.take();
            drain();
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
                wrongRequest = Exceptions.nullOrNegativeRequestException(n);
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

        /** Lets go what may go, in its order; one thread at a time, which goes another round if somebody has come. */
        private void drain() {
            if (ROUNDS.getAndIncrement(this) != 0) {
                return;
            }
            int missed = 1;
            do {
                letGo();
                if (cancelled || terminated) {
                    discardAll();
                } else {
                    askForMore();
                }
                missed = ROUNDS.addAndGet(this, -missed);
            } while (missed != 0);
        }

        private void letGo() {
            while (!cancelled && !terminated) {
                boolean ended = done;
                Slot next = inHand.peek();
                Throwable failure = failure(next, ended);
                if (failure != null) {
                    terminated = true;
                    if (failure != error) {
                        subscription().cancel();
                    }
                    actual.onError(failure);
                } else if (next == null) {
                    if (ended) {
                        terminated = true;
                        actual.onComplete();
                    }
                    return;
                } else if (next.isGranted()) {
                    inHand.poll();
                    emitted++;
                    room = next.room(room);
                    actual.onNext(next.element);
                } else {
                    return;
                }
            }
        }

        /** What is in hand goes first; a failure comes in its order too, unless it is the subscriber's own. */
        private @Nullable Throwable failure(@Nullable Slot next, boolean ended) {
            if (wrongRequest != null) {
                return wrongRequest;
            }
            if (next != null) {
                return next.failure;
            }
            return ended ? error : null;
        }

        private void askForMore() {
            long more = Math.min(room - (asked - emitted), requested - asked);
            if (more > 0 && !done) {
                asked += more;
                subscription().request(more);
            }
        }

        private void discardAll() {
            for (Slot slot = inHand.poll(); slot != null; slot = inHand.poll()) {
                slot.letGo();
                Operators.onDiscard(slot.element, currentContext());
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
                return how.mostInHand;
            }
            if (key == Attr.BUFFERED) {
                return inHand.size();
            }
            if (key == Attr.REQUESTED_FROM_DOWNSTREAM) {
                return requested;
            }
            if (key == Attr.CANCELLED) {
                return cancelled;
            }
            if (key == Attr.TERMINATED) {
                return done && inHand.isEmpty();
            }
            return key == Attr.ERROR ? error : null;
        }

        @SuppressWarnings({"unchecked", "rawtypes"}) // a class literal has no type arguments
        private static AtomicLongFieldUpdater<Throttled<?>> requestedUpdater() {
            return (AtomicLongFieldUpdater) AtomicLongFieldUpdater.newUpdater(Throttled.class, "requested");
        }

        @SuppressWarnings({"unchecked", "rawtypes"}) // as above
        private static AtomicIntegerFieldUpdater<Throttled<?>> roundsUpdater() {
            return (AtomicIntegerFieldUpdater) AtomicIntegerFieldUpdater.newUpdater(Throttled.class, "rounds");
        }

        /** An element in hand, and its permits. */
        private final class Slot extends BaseSubscriber<Decision> {

            private final T element;
            private final long permits;
            private @Nullable Decision decision;
            private boolean granted;
            private boolean gone;
            volatile @Nullable Throwable failure;

            Slot(T element, long permits) {
                this.element = element;
                this.permits = permits;
            }

            /** Takes its permits; who asks for none has them. */
            void take() {
                if (permits == 0) {
                    grant(null);
                } else {
                    how.acquire.apply(permits).subscribe(this);
                }
            }

            @Override
            public Context currentContext() {
                return actual.currentContext();
            }

            @Override
            protected void hookOnNext(Decision answer) {
                if (!answer.isAllowed()) {
                    failure = refused(answer);
                } else if (!grant(answer)) {
                    how.giveBack.accept(answer);
                    return;
                }
                drain();
            }

            @Override
            protected void hookOnError(Throwable throwable) {
                failure = throwable;
                drain();
            }

            private synchronized boolean grant(@Nullable Decision answer) {
                decision = answer;
                granted = !gone;
                return granted;
            }

            synchronized boolean isGranted() {
                return granted;
            }

            /** Its element will not go out any more. */
            void letGo() {
                Decision unused;
                synchronized (this) {
                    gone = true;
                    unused = granted ? decision : null;
                }
                if (unused == null) {
                    cancel();
                } else {
                    how.giveBack.accept(unused);
                }
            }

            /** Returns how many more such elements there was room for when this one was granted. */
            int room(int before) {
                if (decision == null || permits == 0) {
                    return before;
                }
                return (int) Math.max(1, Math.min(how.mostInHand, decision.remaining() / permits));
            }

            private RuntimeException refused(Decision answer) {
                if (answer.retryAfter().isPresent()) {
                    return Exceptions.failWithOverflow(
                            "no place is free to wait for a permit: expected fewer streams and"
                                    + " callers to wait at a time, or more places, for example .waiters(5_000, 50_000)");
                }
                if (answer.source() == Source.LIMITER) {
                    return new IllegalArgumentException("an element costs " + permits + " permits, which "
                            + answer.violated()
                            + " never hold: expected no more than the smallest of them has, for example"
                            + " 1");
                }
                return new LimitStoreException(
                        "the store refuses, and says of no wait that would help: " + answer, null);
            }
        }
    }
}
