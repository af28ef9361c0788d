package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

/** Assertions on a limiter without waiters. */
public final class WaiterAssertions {

    private WaiterAssertions() {}

    public static void assertNoWaiterIsLeft(RateLimiter limiter) {
        assertThat(limiter.queues().size()).as("queues").isZero();
        assertThat(limiter.queues().reserved()).as("places").isZero();
    }
}
