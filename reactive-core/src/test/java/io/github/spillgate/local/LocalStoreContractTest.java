package io.github.spillgate.local;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.ManualClock;
import org.junit.jupiter.api.Nested;

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
    class OnTheSystemsClock extends LimitStoreContract {
        private final LimitStore store = LocalStore.bounded(10_000);

        @Override
        protected LimitStore store() {
            return store;
        }
    }
}
