package io.github.spillgate.local;

import io.github.spillgate.count.Count;
import io.github.spillgate.internal.Turns;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;

/**
 * Decides for each subscriber on the thread that requests: {@code Mono.fromCallable} with fewer steps.
 */
final class LocalDecisionMono extends Mono<StoreDecision> {

    private final CountTable<?> table;
    private final List<Claim> claims;
    private final boolean charging;
    private final boolean takesTurns;

    private LocalDecisionMono(CountTable<?> table, List<Claim> claims, boolean charging, boolean takesTurns) {
        this.table = table;
        this.claims = claims;
        this.charging = charging;
        this.takesTurns = takesTurns;
    }

    /** Returns decisions for callers that have taken their turn before. */
    static Mono<StoreDecision> of(CountTable<?> table, List<Claim> claims, boolean charging) {
        return onAssembly(new LocalDecisionMono(table, claims, charging, false));
    }

    /** Returns decisions for callers that take turns. */
    static Mono<StoreDecision> inTurns(CountTable<?> table, List<Claim> claims, boolean charging) {
        return onAssembly(new LocalDecisionMono(table, claims, charging, true));
    }

    @Override
    public void subscribe(CoreSubscriber<? super StoreDecision> actual) {
        actual.onSubscribe(new LocalDecisionSubscription(table, claims, charging, takesTurns, actual));
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
        private final boolean takesTurns;
        private final CoreSubscriber<? super StoreDecision> actual;
        private volatile int state;

        LocalDecisionSubscription(
                CountTable<?> table,
                List<Claim> claims,
                boolean charging,
                boolean takesTurns,
                CoreSubscriber<? super StoreDecision> actual) {
            this.table = table;
            this.claims = claims;
            this.charging = charging;
            this.takesTurns = takesTurns;
            this.actual = actual;
        }

        @Override
        public void request(long n) {
            if (!Operators.validate(n) || !STATE.compareAndSet(this, NEW, REQUESTED)) {
                return;
            }
            if (takesTurns && Turns.isOver()) {
                Turns.join(this::decide);
            } else {
                decide();
            }
        }

        private void decide() {
            if (state == CANCELLED) {
                return;
            }
            if (takesTurns) {
                Turns.count();
            }
            StoreDecision decision;
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
                release(decision);
                Operators.onDiscard(decision, actual.currentContext());
                return;
            }
            actual.onNext(decision);
            actual.onComplete();
        }

        /** Releases the holds that the decision has taken, because its subscriber does not know it. */
        private void release(StoreDecision decision) {
            if (!decision.isCharged()) {
                return;
            }
            for (Claim claim : claims) {
                table.update(claim, Count::release);
            }
        }

        @Override
        public void cancel() {
            state = CANCELLED;
        }
    }
}
