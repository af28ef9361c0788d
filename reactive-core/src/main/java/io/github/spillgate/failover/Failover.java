package io.github.spillgate.failover;

import io.github.spillgate.failover.StoreCall.Operation;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.util.context.ContextView;

/**
 * Makes the calls of a {@link ResilientStore}: what they have in common.
 *
 * @param primary the store that decides while it can
 * @param fallback the store that decides otherwise
 * @param deadlineNanos the longest time for a result
 * @param gates the circuit breakers
 * @param grants what the fallback has granted
 * @param denials the cached denials
 * @param leases the leased permits
 * @param timers the deadlines of calls
 * @param fallbacks how many calls fell back
 * @param missedDeadlines how many of them fell back at the deadline although the breaker was closed
 */
record Failover(
        LimitStore primary,
        LimitStore fallback,
        long deadlineNanos,
        CircuitGates gates,
        LocalGrants grants,
        DenialCache denials,
        Leases leases,
        Timers timers,
        LongAdder fallbacks,
        LongAdder missedDeadlines) {

    Mono<StoreDecision> take(List<Claim> claims) {
        return new CallMono<>(this, claims, Operation.TAKE);
    }

    Mono<StoreDecision> peek(List<Claim> claims) {
        return new CallMono<>(this, claims, Operation.PEEK);
    }

    <T> Mono<T> call(List<Claim> claims, Operation<T> operation) {
        return new CallMono<>(this, claims, operation);
    }

    /** Returns how long a caller still waits, less the time that it has already spent waiting for something else. */
    long timeLeft(ContextView context) {
        Object since = context.getOrDefault(LimitStore.WAITING_SINCE, null);
        return since instanceof Long nanos ? deadlineNanos - Math.max(0, Deadlines.now() - nanos) : deadlineNanos;
    }

    void countFallback() {
        fallbacks.increment();
    }

    void countMissedDeadline() {
        missedDeadlines.increment();
    }

    /** Makes a call for each subscriber, unless leased permits or a cached denial are the result. */
    private static final class CallMono<T> extends Mono<T> {

        private final Failover failover;
        private final List<Claim> claims;
        private final Operation<T> operation;

        CallMono(Failover failover, List<Claim> claims, Operation<T> operation) {
            this.failover = failover;
            this.claims = claims;
            this.operation = operation;
        }

        @Override
        public void subscribe(CoreSubscriber<? super T> actual) {
            if (operation.maySpend(claims)) {
                actual.onSubscribe(new LeasedCall<>(failover, claims, operation, actual));
                return;
            }
            T known = operation.known(failover, claims);
            actual.onSubscribe(
                    known == null
                            ? new StoreCall<>(failover, claims, operation, actual)
                            : Operators.scalarSubscription(actual, known));
        }
    }

    /**
     * Deadlines that all calls share.
     *
     * @param deadline the deadline of a call
     * @param grace as much time again, if this process stood still
     * @param late the time for which late replies are accepted
     */
    record Timers(Deadlines deadline, Deadlines grace, Deadlines late) {

        private static final long LATEST_REPLY = TimeUnit.MINUTES.toNanos(1);

        static Timers of(long deadlineNanos) {
            return new Timers(new Deadlines(deadlineNanos), new Deadlines(deadlineNanos), new Deadlines(LATEST_REPLY));
        }
    }
}
