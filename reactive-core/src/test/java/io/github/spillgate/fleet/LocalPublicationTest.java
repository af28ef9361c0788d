package io.github.spillgate.fleet;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LogForTests;
import org.junit.jupiter.api.Test;

/** What is published on a store in the memory of this process applies here only, and says so. */
class LocalPublicationTest extends PublicationContract {

    private static final LimitStore STORE = LocalStore.bounded(1_000);

    @Override
    LimitStore store() {
        return STORE;
    }

    @Override
    boolean isShared() {
        return false;
    }

    /** Without a heartbeat, a change of this process reads all. */
    @Override
    void beat() {
        try (RateLimiter other =
                RateLimiter.builder(name + "-other").store(STORE).build()) {
            other.publish(Publication.of(Limit.perHour(1))
                            .version(other.published().map(Publication::version).orElse(0L)))
                    .block();
        }
    }

    @Test
    void theLogSaysThatItAppliesInThisProcess() {
        try (LogForTests log = LogForTests.listen()) {
            publish(Publication.of(Limit.perHour(10)));
            assertThat(log.lines(name, "[10/1h] in this process only")).hasSize(1);
        }
    }
}
