package io.github.spillgate.testkit;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * A store as it is, for a test that wants to see its errors and how long it takes: a limiter puts no deadline and no
 * fallback around it. Subclasses change what a store does, in a method for each kind of request. The store does not
 * know the deadlines of requests, except for leases.
 */
public class Unprotected extends ForwardingLimitStore {

    public Unprotected(LimitStore store) {
        super(store);
    }

    public static RateLimiter limiter(LimitStore store, Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder("api").store(new Unprotected(store));
        List.of(limits).forEach(builder::limit);
        return builder.build();
    }

    /** Returns what the caller of any operation on counts gets; a subclass may change it. */
    protected <T> Mono<T> around(Mono<T> operation) {
        return operation;
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        // Without a switch, which would be a class of its own in the artifact of the contract.
        if (request.mode() == StoreRequest.Mode.LEASE) {
            return lease(request);
        }
        return request.mode() == StoreRequest.Mode.TAKE ? take(request.claims()) : peek(request.claims());
    }

    protected Mono<StoreDecision> take(List<Claim> claims) {
        return around(super.take(StoreRequest.take(claims)));
    }

    protected Mono<StoreDecision> peek(List<Claim> claims) {
        return around(super.take(StoreRequest.peek(claims)));
    }

    protected Mono<StoreDecision> lease(StoreRequest request) {
        return around(super.take(request));
    }

    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return around(super.correct(corrections));
    }

    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return action == HoldAction.RENEW ? renew(holds) : release(holds).then(Mono.just(HoldRenewal.released(holds)));
    }

    protected Mono<List<HoldRenewal>> renew(List<Claim> holds) {
        return around(super.hold(holds, HoldAction.RENEW));
    }

    protected Mono<Void> release(List<Claim> holds) {
        return around(super.hold(holds, HoldAction.RELEASE).then());
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return around(super.reset(claims, NO_DEADLINE));
    }

    /** Returns this store, so that a limiter without a deadline makes no exchanges that a test would count. */
    @Override
    public LimitStore origin() {
        return this;
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ZERO);
    }
}
