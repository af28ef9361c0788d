package io.github.spillgate.failover;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.Optional;

/** Delegates to a store and states no deadline of its own. */
class WithoutDeadline extends Unprotected {

    WithoutDeadline(LimitStore store) {
        super(store);
    }

    @Override
    public Optional<Duration> deadline() {
        return Optional.empty();
    }
}
