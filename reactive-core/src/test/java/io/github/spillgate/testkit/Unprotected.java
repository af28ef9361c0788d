package io.github.spillgate.testkit;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState;
import io.github.spillgate.spi.ChargedPermits;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * A store as it is, for a test that wants to see its errors and how long it takes: a limiter puts no deadline and no
 * fallback around it. Subclasses change what a store does. All requests for permits arrive at {@link #take(List)}, so
 * the store does not know the deadline of a request.
 */
public class Unprotected implements LimitStore {

    private final LimitStore store;

    public Unprotected(LimitStore store) {
        this.store = store;
    }

    public static RateLimiter limiter(LimitStore store, Limit... limits) {
        RateLimiter.Builder builder = RateLimiter.builder("api").store(new Unprotected(store));
        List.of(limits).forEach(builder::limit);
        return builder.build();
    }

    /** Returns what the caller of any operation on counts gets; a subclass may change it. */
    protected <T> Mono<T> around(Mono<T> operation) {
        return operation;
    }

    @Override
    public Mono<StoreDecision> take(List<Claim> claims) {
        return around(store.take(claims));
    }

    @Override
    public Mono<StoreDecision> peek(List<Claim> claims) {
        return around(store.peek(claims));
    }

    @Override
    public Mono<StoreDecision> lease(Claim claim, int parts, long deadline) {
        return around(store.lease(claim, parts, deadline));
    }

    @Override
    public Mono<Void> refund(StoreDecision decision) {
        return around(store.refund(decision));
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return around(store.refund(claims));
    }

    @Override
    public Mono<Void> refundCharged(List<ChargedPermits> permits) {
        return around(store.refundCharged(permits));
    }

    @Override
    public Mono<Void> release(List<Claim> holds) {
        return around(store.release(holds));
    }

    @Override
    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return around(store.renew(holds));
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return around(store.reset(claims));
    }

    @Override
    public Mono<StoreDecision> reconcile(List<Reconciliation> reconciliations) {
        return around(store.reconcile(reconciliations));
    }

    @Override
    public Mono<StoreDecision> settle(List<Settlement> settlements) {
        return around(store.settle(settlements));
    }

    @Override
    public String node(List<Claim> claims) {
        return store.node(claims);
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }

    @Override
    public StoreState state() {
        return store.state();
    }

    @Override
    public String toString() {
        return store.toString();
    }
}
