package io.github.spillgate;

import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import java.util.function.Supplier;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/** A Mono that joins a wait queue when its subscriber requests the decision, and leaves it on cancellation. */
final class AcquireMono extends Mono<Decision> {

    private final WaitQueues queues;
    private final List<Claim> claims;
    private final Supplier<List<Claim>> currentClaims;
    private final long longestWait;

    AcquireMono(WaitQueues queues, List<Claim> claims, Supplier<List<Claim>> currentClaims, long longestWait) {
        this.queues = queues;
        this.claims = claims;
        this.currentClaims = currentClaims;
        this.longestWait = longestWait;
    }

    @Override
    public void subscribe(CoreSubscriber<? super Decision> actual) {
        actual.onSubscribe(new WaitingSubscriber(this, actual));
    }

    private static final class WaitingSubscriber extends Waiter implements Subscription {

        private static final AtomicIntegerFieldUpdater<WaitingSubscriber> STATE =
                AtomicIntegerFieldUpdater.newUpdater(WaitingSubscriber.class, "state");

        private static final int NEW = 0;
        private static final int WAITING = 1;
        private static final int ENDED = 2;

        private final WaitQueues queues;
        private final CoreSubscriber<? super Decision> actual;
        private volatile int state;

        WaitingSubscriber(AcquireMono acquire, CoreSubscriber<? super Decision> actual) {
            super(acquire.claims, acquire.currentClaims, acquire.longestWait, actual.currentContext());
            this.queues = acquire.queues;
            this.actual = actual;
        }

        @Override
        public void request(long n) {
            if (Operators.validate(n) && STATE.compareAndSet(this, NEW, WAITING)) {
                queues.join(this);
                if (state == ENDED) {
                    // It may have been cancelled before it was in the queue, when "leave" had no effect.
                    leave();
                }
            }
        }

        @Override
        public void cancel() {
            if (STATE.getAndSet(this, ENDED) == WAITING) {
                leave();
            }
        }

        @Override
        boolean isEnded() {
            return state == ENDED;
        }

        @Override
        boolean grant(Decision decision) {
            if (!STATE.compareAndSet(this, WAITING, ENDED)) {
                return false;
            }
            actual.onNext(decision);
            actual.onComplete();
            return true;
        }

        @Override
        void deny(Decision decision) {
            grant(decision);
        }

        @Override
        void fail(Throwable error) {
            if (STATE.compareAndSet(this, WAITING, ENDED)) {
                actual.onError(error);
            }
            // Otherwise it was cancelled. The error need not be reported: all other waiters of the queue get it too.
        }
    }
}
