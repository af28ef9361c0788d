package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.ManualClock;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
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

        @Override
        protected boolean hasExchanges() {
            return false;
        }
    }

    /** A decorator loses nothing. The store has the clock of the system. */
    @Nested
    class BehindADecorator extends LimitStoreContract {
        private final LimitStore store = new ForwardingLimitStore(LocalStore.bounded(10_000)) {};

        @Override
        protected LimitStore store() {
            return store;
        }

        @Test
        void aDecoratorForwardsEachMethod() {
            assertThat(Stream.of(LimitStore.class.getMethods()))
                    .allSatisfy(method -> assertThat(ForwardingLimitStore.class
                                    .getMethod(method.getName(), method.getParameterTypes())
                                    .getDeclaringClass())
                            .isEqualTo(ForwardingLimitStore.class));
        }
    }

    /** A store with the operations that every store has, and no other. */
    private record SmallestStore(LocalStore store) implements LimitStore {

        @Override
        public Mono<StoreDecision> take(StoreRequest request) {
            return request.mode() == StoreRequest.Mode.LEASE ? Mono.empty() : store.take(request);
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return Flux.fromIterable(corrections)
                    .concatMap(one -> one instanceof Settlement
                            ? Mono.just(List.of(Corrected.of(CorrectionOutcome.UNSUPPORTED)))
                            : store.correct(List.of(one)))
                    .concatMapIterable(results -> results)
                    .collectList();
        }

        @Override
        public Mono<Void> reset(List<Claim> claims, long deadline) {
            return store.reset(claims, deadline);
        }
    }
}
