package io.github.spillgate.failover;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.StoreForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** Delegates to a store and states no deadline of its own. */
public class WithoutDeadline extends Unprotected {

    /** Wraps a store. */
    public WithoutDeadline(LimitStore store) {
        super(store);
    }

    /** Returns a store that takes permits in another way. */
    static LimitStore taking(LimitStore store, Function<List<Claim>, Mono<StoreDecision>> take) {
        return new WithoutDeadline(StoreForTests.taking(store, take));
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.empty();
    }
}
