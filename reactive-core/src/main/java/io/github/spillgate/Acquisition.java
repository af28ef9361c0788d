package io.github.spillgate;

import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/** Waits in a line for each of its subscribers, from when he requests his decision until he has it or cancels. */
final class Acquisition extends Mono<Decision> {

    private final Lines lines;
    private final List<Claim> claims;
    private final long patience;

    Acquisition(Lines lines, List<Claim> claims, long patience) {
        this.lines = lines;
        this.claims = claims;
        this.patience = patience;
    }

    @Override
    public void subscribe(CoreSubscriber<? super Decision> actual) {
        actual.onSubscribe(new Subscriber(lines, claims, patience, actual));
    }

    private static final class Subscriber extends Waiter implements Subscription {

        private static final AtomicIntegerFieldUpdater<Subscriber> STATE =
                AtomicIntegerFieldUpdater.newUpdater(Subscriber.class, "state");

        private static final int NEW = 0;
        private static final int WAITING = 1;
        private static final int ENDED = 2;

        private final Lines lines;
        private final CoreSubscriber<? super Decision> actual;
        private volatile int state;

        Subscriber(Lines lines, List<Claim> claims, long patience, CoreSubscriber<? super Decision> actual) {
            super(claims, patience, actual.currentContext());
            this.lines = lines;
            this.actual = actual;
        }

        @Override
        public void request(long n) {
            if (Operators.validate(n) && STATE.compareAndSet(this, NEW, WAITING)) {
                lines.join(this);
                if (state == ENDED) {
                    // He may have gone before he stood anywhere that he could have left.
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
        boolean granted(Decision decision) {
            if (!STATE.compareAndSet(this, WAITING, ENDED)) {
                return false;
            }
            actual.onNext(decision);
            actual.onComplete();
            return true;
        }

        @Override
        void denied(Decision decision) {
            granted(decision);
        }

        @Override
        void failed(Throwable error) {
            if (STATE.compareAndSet(this, WAITING, ENDED)) {
                actual.onError(error);
            }
            // Else he has gone; the error is that of the line, and those who are left are told.
        }
    }
}
