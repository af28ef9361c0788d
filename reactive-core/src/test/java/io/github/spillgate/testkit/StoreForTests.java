package io.github.spillgate.testkit;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** Stores that differ from another one in a single operation, and operations on stores. */
public final class StoreForTests {

    private StoreForTests() {}

    /** Refunds what a decision took under rate limits. */
    public static Mono<Void> refund(LimitStore store, StoreDecision decision) {
        return store.correct(Refund.of(decision)).then();
    }

    /** Returns a store as it is, but for how it takes permits. */
    public static LimitStore taking(LimitStore store, Function<List<Claim>, Mono<StoreDecision>> take) {
        return new Unprotected(store) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                return take.apply(claims);
            }
        };
    }
}
