package io.github.spillgate.local;

import io.github.spillgate.count.Count;
import io.github.spillgate.internal.Turns;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
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

        private final CountTable<?> table;
        private final List<Claim> claims;
        private final boolean charging;
        private final boolean takesTurns;
        private final CoreSubscriber<? super StoreDecision> actual;

        /** Not volatile: the calls of a subscriber to its subscription are serial (Reactive Streams, rule 2.7). */
        private boolean isRequested;

        private volatile boolean isCancelled;

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
            if (!Operators.validate(n) || isRequested) {
                return;
            }
            isRequested = true;
            if (takesTurns && Turns.isOver()) {
                Turns.join(this::decide);
            } else {
                decide();
            }
        }

        private void decide() {
            if (isCancelled) {
                return;
            }
            if (takesTurns) {
                Turns.count();
            }
            StoreDecision decision;
            try {
                decision = table.decide(claims, charging);
            } catch (Throwable e) {
                if (isCancelled) {
                    Operators.onErrorDropped(e, actual.currentContext());
                } else {
                    actual.onError(e);
                }
                return;
            }
            if (isCancelled) {
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
            isCancelled = true;
        }
    }
}
