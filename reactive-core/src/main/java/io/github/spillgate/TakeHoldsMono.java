package io.github.spillgate;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/**
 * A decision on claims that hold permits. If it is emitted while its subscriber cancels, the permits are released. The
 * store does that if the subscriber has cancelled before.
 */
final class TakeHoldsMono extends Mono<StoreDecision> {

    private final Mono<StoreDecision> decision;
    private final List<Claim> claims;
    private final Holds holds;

    TakeHoldsMono(Mono<StoreDecision> decision, List<Claim> claims, Holds holds) {
        this.decision = decision;
        this.claims = claims;
        this.holds = holds;
    }

    @Override
    public void subscribe(CoreSubscriber<? super StoreDecision> actual) {
        decision.subscribe(new TakingSubscriber(actual));
    }

    private final class TakingSubscriber implements CoreSubscriber<StoreDecision>, Subscription {

        private final CoreSubscriber<? super StoreDecision> actual;
        private final AtomicBoolean isOver = new AtomicBoolean();
        private @Nullable Subscription upstream;

        TakingSubscriber(CoreSubscriber<? super StoreDecision> actual) {
            this.actual = actual;
        }

        @Override
        public Context currentContext() {
            return actual.currentContext();
        }

        @Override
        public void onSubscribe(Subscription s) {
            if (Operators.validate(upstream, s)) {
                upstream = s;
                actual.onSubscribe(this);
            }
        }

        @Override
        public void request(long n) {
            Subscription asked = upstream;
            if (asked != null) {
                asked.request(n);
            }
        }

        @Override
        public void cancel() {
            isOver.set(true);
            Subscription asked = upstream;
            if (asked != null) {
                asked.cancel();
            }
        }

        @Override
        public void onNext(StoreDecision made) {
            if (isOver.compareAndSet(false, true)) {
                actual.onNext(made);
                actual.onComplete();
            } else if (made.isCharged()) {
                holds.release(claims);
            }
        }

        @Override
        public void onError(Throwable error) {
            if (isOver.compareAndSet(false, true)) {
                actual.onError(error);
            } else {
                Operators.onErrorDropped(error, actual.currentContext());
            }
        }

        @Override
        public void onComplete() {
            if (isOver.compareAndSet(false, true)) {
                actual.onComplete();
            }
        }
    }
}
