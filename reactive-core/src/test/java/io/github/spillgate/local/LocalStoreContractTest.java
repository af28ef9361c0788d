package io.github.spillgate.local;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.ManualClock;
import java.util.List;
import org.junit.jupiter.api.Nested;
import reactor.core.publisher.Mono;

class LocalStoreContractTest {

    @Nested
    class OnAClockThatIsSet extends LimitStoreContract {
        private final ManualClock clock = new ManualClock();
        private final LimitStore store = LocalStore.bounded(10_000, clock);

        @Override
        protected LimitStore store() {
            return store;
        }

        @Override
        protected void tick() {
            clock.advanceMillis(1);
        }
    }

    @Nested
    class WithoutOptionalOperations extends LimitStoreContract {
        private final ManualClock clock = new ManualClock();
        private final LimitStore store = new SmallestStore(LocalStore.bounded(10_000, clock));

        @Override
        protected LimitStore store() {
            return store;
        }

        @Override
        protected void tick() {
            clock.advanceMillis(1);
        }

        @Override
        protected boolean hasSettlements() {
            return false;
        }

        @Override
        protected boolean hasConcurrencyLimits() {
            return false;
        }
    }

    @Nested
    class OnTheSystemsClock extends LimitStoreContract {
        private final LimitStore store = LocalStore.bounded(10_000);

        @Override
        protected LimitStore store() {
            return store;
        }
    }

    /** A store with the operations that every store has, and no other. */
    private record SmallestStore(LocalStore store) implements LimitStore {

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return store.take(claims);
        }

        @Override
        public Mono<StoreDecision> peek(List<Claim> claims) {
            return store.peek(claims);
        }

        @Override
        public Mono<Void> refund(StoreDecision decision) {
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
}
