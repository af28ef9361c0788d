package io.github.spillgate;

import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;
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
import reactor.util.context.Context;

/** A stream in which every element waits for its permits, and goes on in its order. */
final class Throttle<T> extends FluxOperator<T, T> {
    // Design notes.
    //
    // A permit is of use at the moment at which it is granted. Were it taken before there is an element, or for one
    // that nobody downstream has asked for, the element would go out later than the store believes, and more of them
    // could go out in a window than the limit says. So the element comes first, and only one that is asked for; then
    // its permit is waited for; then it goes out at once. What is in hand at any time is therefore bounded by the
    // demand, and by what the last answer said there is room for: that many permits are asked for at the same time, and
    // one where nothing remained.
    //
    // While the subscriber is busy with one element, the permits of those behind it grow old. One that is too old when
    // its turn comes is given back, and the element waits for another; and who is slow is not asked for more than one
    // ahead.
    //
    // Only the first in hand must find a place to wait. For those behind it, a permit is asked for in advance; where no
    // place is free for that, it is asked for when it is their turn.

    /** The most elements that wait at a time: enough to fill the way to the store, and few of the places in a line. */
    static final int MOST_IN_HAND = 16;

    /** When a permit is too old to be used. */
    private static final long LATE = TimeUnit.MILLISECONDS.toNanos(10);

    private final ToLongFunction<? super T> permits;
    private final LongFunction<Mono<Decision>> acquire;
    private final Lines lines;
    private final int mostInHand;

    private Throttle(
            Flux<T> source,
            ToLongFunction<? super T> permits,
            LongFunction<Mono<Decision>> acquire,
            Lines lines,
            int mostInHand) {
        super(source);
        this.permits = permits;
        this.acquire = acquire;
        this.lines = lines;
        this.mostInHand = mostInHand;
    }

    /**
     * Throttles the source.
     *
     * @param permits how many an element costs
     * @param acquire waits for so many, for ever
     * @param lines where they wait; it tells the time, and takes back what is of no use any more
     * @param mostInHand how many elements may wait at a time
     */
    static <T> Flux<T> of(
            Flux<T> source,
            ToLongFunction<? super T> permits,
            LongFunction<Mono<Decision>> acquire,
            Lines lines,
            int mostInHand) {
        return onAssembly(new Throttle<>(source, permits, acquire, lines, mostInHand));
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
        private final Queue<Slot> inHand = new ConcurrentLinkedQueue<>();
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
        private volatile @Nullable Throwable failed;

        Throttled(Throttle<T> how, CoreSubscriber<? super T> actual) {
            this.how = how;
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
                permits = Charge.checkPermits(how.permits.applyAsLong(element));
            } catch (Throwable e) {
                Throwable failure = Operators.onOperatorError(source, e, element, currentContext());
                Operators.onDiscard(element, currentContext());
                onError(failure);
                return;
            }
            Slot slot = new Slot(element, permits);
            if (inHand.size() >= how.mostInHand) {
                Throwable failure = Operators.onOperatorError(
                        source,
                        Exceptions.failWithOverflow(
                                "the source of a throttled stream has emitted more than it was asked for: expected it "
                                        + "to"
                                        + " honour requests, for example with onBackpressureBuffer(1_000)"),
                        element,
                        currentContext());
                Operators.onDiscard(element, currentContext());
                onError(failure);
                return;
            }
            inHand.add(slot);
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
                long now = how.lines.nanos();
                if (next != null && next.mustTakeAnew(now)) {
                    takeAnew(now);
                    continue;
                }
                Throwable failure = failure(next, ended);
                if (failure != null) {
                    terminated = true;
                    failed = failure;
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
                    if (how.lines.nanos() - now > LATE / 2) {
                        room = 1;
                    }
                } else {
                    return;
                }
            }
        }

        /** All in hand whose permits are too old wait for others, in their order. */
        private void takeAnew(long now) {
            room = 1;
            for (Slot slot : inHand) {
                if (slot.mustTakeAnew(now)) {
                    slot.takeAnew();
                }
            }
        }

        /** What is in hand goes first; a failure comes in its order too, unless it is the subscriber's own. */
        private @Nullable Throwable failure(@Nullable Slot next, boolean ended) {
            if (wrongRequest != null) {
                return wrongRequest;
            }
            if (next != null) {
                return next.failure();
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
                return failed != null || (done && inHand.isEmpty());
            }
            return key == Attr.ERROR ? failed : null;
        }

        @SuppressWarnings({"unchecked", "rawtypes"}) // a class literal has no type arguments
        private static AtomicLongFieldUpdater<Throttled<?>> requestedUpdater() {
            return (AtomicLongFieldUpdater) AtomicLongFieldUpdater.newUpdater(Throttled.class, "requested");
        }

        @SuppressWarnings({"unchecked", "rawtypes"}) // as above
        private static AtomicIntegerFieldUpdater<Throttled<?>> roundsUpdater() {
            return (AtomicIntegerFieldUpdater) AtomicIntegerFieldUpdater.newUpdater(Throttled.class, "rounds");
        }

        /** An element in hand, and the permits that it waits for. */
        private final class Slot {

            private final T element;
            private final long permits;
            private volatile Permit permit = new Permit();
            private boolean again;

            Slot(T element, long permits) {
                this.element = element;
                this.permits = permits;
            }

            /** Takes its permits; who asks for none has them. */
            void take() {
                if (permits == 0) {
                    permit.grant(null);
                } else {
                    how.acquire.apply(permits).subscribe(permit);
                }
            }

            /** Returns whether what it has got is of no use now, and it may try again. */
            boolean mustTakeAnew(long now) {
                return permit.isOld(now) || (!again && permit.hasFoundNoPlace() && inHand.peek() == this);
            }

            void takeAnew() {
                again |= permit.hasFoundNoPlace();
                permit.letGo();
                permit = new Permit();
                take();
            }

            boolean isGranted() {
                return permit.isGranted();
            }

            @Nullable
            Throwable failure() {
                return permit.failure;
            }

            /** Its element will not go out any more. */
            void letGo() {
                permit.letGo();
            }

            /** Returns how many more such elements there was room for when this one was granted. */
            int room(int before) {
                Decision decision = permit.decision;
                if (decision == null || permits == 0) {
                    return before;
                }
                return (int) Math.max(1, Math.min(how.mostInHand, decision.remaining() / permits));
            }

            /** One try to get its permits. */
            private final class Permit extends BaseSubscriber<Decision> {

                private @Nullable Decision decision;
                private long grantedAt;
                private boolean granted;
                private boolean gone;
                private volatile @Nullable Throwable failure;

                @Override
                public Context currentContext() {
                    return actual.currentContext();
                }

                @Override
                protected void hookOnNext(Decision answer) {
                    if (!answer.isAllowed()) {
                        failure = refused(answer);
                    } else if (!grant(answer)) {
                        how.lines.giveBack(answer);
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
                    grantedAt = how.lines.nanos();
                    granted = !gone;
                    return granted;
                }

                synchronized boolean isGranted() {
                    return granted;
                }

                synchronized boolean isOld(long now) {
                    return granted && decision != null && now - grantedAt > LATE;
                }

                boolean hasFoundNoPlace() {
                    return failure instanceof NoPlaceException;
                }

                void letGo() {
                    Decision unused;
                    synchronized (this) {
                        gone = true;
                        unused = granted ? decision : null;
                    }
                    if (unused == null) {
                        cancel();
                    } else {
                        how.lines.giveBack(unused);
                    }
                }

                private RuntimeException refused(Decision answer) {
                    if (answer.source() == Source.LIMITER && answer.retryAfter().isPresent()) {
                        return new NoPlaceException();
                    }
                    if (answer.source() == Source.LIMITER && answer.violated().isEmpty()) {
                        return new LimitLookupException(
                                "a stream cannot go on: the limits of its key could not be looked up, and the lookup "
                                        + "was told"
                                        + " to deny then; expected limits, for example "
                                        + "Otherwise.limits(Limit.perMinute(60))",
                                null);
                    }
                    if (answer.source() == Source.LIMITER) {
                        return new IllegalArgumentException("an element costs " + permits + " permits, which "
                                + answer.violated() + " never hold: expected no more than the smallest of them has, for"
                                + " example 1");
                    }
                    return new LimitStoreException(
                            "the store refuses, and says of no wait that would help: " + answer, null);
                }
            }
        }
    }

    /** Nobody may wait any more, for a while. */
    private static final class NoPlaceException extends IllegalStateException {

        private static final long serialVersionUID = 1L;

        NoPlaceException() {
            super("no place is free to wait for a permit: expected fewer streams and callers to wait at a time, or more"
                    + " places, for example .waiters(5_000, 50_000)");
        }
    }
}
