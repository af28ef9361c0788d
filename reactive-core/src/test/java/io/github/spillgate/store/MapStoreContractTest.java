package io.github.spillgate.store;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.ManualClock;
import java.time.Instant;
import java.time.InstantSource;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Nested;

/** The contract on the example of docs/own-store.md. */
class MapStoreContractTest {

    @Nested
    class OnTheSystemsClock extends LimitStoreContract {
        private final LimitStore store = new MapStore(new ConcurrentHashMap<>(), InstantSource.system());

        @Override
        protected LimitStore store() {
            return store;
        }
    }

    @Nested
    class OnAClockThatIsSet extends LimitStoreContract {
        private final ManualClock clock = new ManualClock();
        private final MapStore store = new MapStore(new ConcurrentHashMap<>(), clock);

        OnAClockThatIsSet() {
            store.useClock(() -> ChronoUnit.MICROS.between(Instant.EPOCH, clock.instant()));
        }

        @Override
        protected LimitStore store() {
            return store;
        }

        @Override
        protected void tick() {
            clock.advanceMillis(1);
        }
    }
}
