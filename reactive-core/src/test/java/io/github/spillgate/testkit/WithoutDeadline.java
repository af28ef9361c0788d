package io.github.spillgate.testkit;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
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
    public static LimitStore taking(LimitStore store, Function<List<Claim>, Mono<StoreDecision>> take) {
        return new WithoutDeadline(StoreForTests.taking(store, take));
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.empty();
    }
}
