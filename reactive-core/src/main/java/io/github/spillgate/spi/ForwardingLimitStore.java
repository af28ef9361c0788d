package io.github.spillgate.spi;

import io.github.spillgate.StoreState;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * A store that passes everything on to another one, as the base of decorators: a subclass overrides only what it
 * changes, and loses no feature of the other store.
 */
public abstract class ForwardingLimitStore implements LimitStore {

    private final LimitStore store;

    /**
     * Creates a decorator.
     *
     * @param store the store that decides
     */
    protected ForwardingLimitStore(LimitStore store) {
        this.store = store;
    }

    @Override
    public Mono<StoreDecision> take(StoreRequest request) {
        return store.take(request);
    }

    @Override
    public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return store.correct(corrections);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims, long deadline) {
        return store.reset(claims, deadline);
    }

    @Override
    public Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return store.hold(holds, action);
    }

    @Override
    public Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        return store.exchange(request);
    }

    /** {@inheritDoc} A subclass that changes exchanges must return itself. */
    @Override
    public LimitStore origin() {
        return store.origin();
    }

    @Override
    public Mono<Void> prepare(String node) {
        return store.prepare(node);
    }

    @Override
    public String node(List<Claim> claims) {
        return store.node(claims);
    }

    @Override
    public Optional<Duration> deadline() {
        return store.deadline();
    }

    @Override
    public StoreState state() {
        return store.state();
    }

    /** Returns the description of the store that decides, for logs. */
    @Override
    public String toString() {
        return store.toString();
    }
}
