package io.github.spillgate;

import java.util.List;
import reactor.core.publisher.Mono;

/** A store that wraps another, for tests to do something in between. */
class LimitStoreAround implements LimitStore {

    private final LimitStore store;

    LimitStoreAround(LimitStore store) {
        this.store = store;
    }

    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return store.take(claims);
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return store.peek(claims);
    }

    @Override
    public Mono<Void> refund(Decision decision) {
        return store.refund(decision);
    }

    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return store.refund(claims);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return store.reset(claims);
    }
}
