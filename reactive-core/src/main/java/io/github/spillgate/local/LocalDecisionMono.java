package io.github.spillgate.local;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/** Decides for each subscriber on the thread that requests: {@code Mono.fromCallable} with fewer steps. */
final class LocalDecisionMono extends Mono<Decision> {

    private final CountTable<?> table;
    private final List<Claim> claims;
    private final boolean charging;

    private LocalDecisionMono(CountTable<?> table, List<Claim> claims, boolean charging) {
        this.table = table;
        this.claims = claims;
        this.charging = charging;
    }

    static Mono<Decision> of(CountTable<?> table, List<Claim> claims, boolean charging) {
        return onAssembly(new LocalDecisionMono(table, claims, charging));
    }

    @Override
    public void subscribe(CoreSubscriber<? super Decision> actual) {
        actual.onSubscribe(new LocalDecisionSubscription(table, claims, charging, actual));
    }

    private static final class LocalDecisionSubscription implements Subscription {

        private static final AtomicIntegerFieldUpdater<LocalDecisionSubscription> STATE =
                AtomicIntegerFieldUpdater.newUpdater(LocalDecisionSubscription.class, "state");

        private static final int NEW = 0;
        private static final int REQUESTED = 1;
        private static final int CANCELLED = 2;

        private final CountTable<?> table;
        private final List<Claim> claims;
        private final boolean charging;
        private final CoreSubscriber<? super Decision> actual;
        private volatile int state;

        LocalDecisionSubscription(
                CountTable<?> table, List<Claim> claims, boolean charging, CoreSubscriber<? super Decision> actual) {
            this.table = table;
            this.claims = claims;
            this.charging = charging;
            this.actual = actual;
        }

        @Override
        public void request(long n) {
            if (!Operators.validate(n) || !STATE.compareAndSet(this, NEW, REQUESTED)) {
                return;
            }
            Decision decision;
            try {
                decision = table.decide(claims, charging);
            } catch (Throwable e) {
                if (state == CANCELLED) {
                    Operators.onErrorDropped(e, actual.currentContext());
                } else {
                    actual.onError(e);
                }
                return;
            }
            if (state == CANCELLED) {
                Operators.onDiscard(decision, actual.currentContext());
                return;
            }
            actual.onNext(decision);
            actual.onComplete();
        }

        @Override
        public void cancel() {
            state = CANCELLED;
        }
    }
}
