package io.github.spillgate;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import java.util.List;
import reactor.core.publisher.Mono;

/** Refunds of decisions: permits of rate limits are refunded, and those of concurrency limits released. */
final class Refunds {

    private Refunds() {}

    /** Refunds a decision that was charged. A failure of one of the two does not prevent the other. */
    static Mono<Void> refund(LimitStore store, StoreDecision decision) {
        List<Claim> holds = HoldIds.holdsIn(decision.claims());
        List<Refund> rates = Refund.of(decision);
        if (holds.isEmpty()) {
            return store.correct(rates).then();
        }
        Mono<Void> released = store.hold(holds, HoldAction.RELEASE).then();
        return rates.isEmpty()
                ? released
                : Mono.whenDelayError(released, store.correct(rates).then());
    }
}
