package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

/** What holds of a limiter when everybody who waited has been answered or has gone. */
public final class LineAssertions {

    private LineAssertions() {}

    public static void assertNobodyIsLeft(RateLimiter limiter) {
        assertThat(limiter.queues().size()).as("queues").isZero();
        assertThat(limiter.queues().reserved()).as("places").isZero();
    }
}
