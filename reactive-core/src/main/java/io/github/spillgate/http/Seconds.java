package io.github.spillgate.http;

import io.github.spillgate.Decision;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Times in the whole seconds that HTTP knows, rounded up: who comes at the second that he is told does not come too
 * early.
 */
final class Seconds {

    private Seconds() {}

    /** Returns how long it is from the one to the other, which is not earlier. */
    static long between(Instant from, Instant to) {
        return ofMillis(to.toEpochMilli() - from.toEpochMilli());
    }

    /** Returns the whole seconds that the duration needs. */
    static long of(Duration duration) {
        return ofMillis(duration.toMillis());
    }

    /** Returns the second of the epoch at which the instant is reached. */
    static long ofEpoch(Instant instant) {
        return ofMillis(instant.toEpochMilli());
    }

    /**
     * Returns for how long to wait until none of these decisions is a denial any more.
     *
     * @return at least 1; empty if none of them is a denial, or no wait helps against one of them
     */
    static OptionalLong untilAllowed(List<Decision> decisions) {
        OptionalLong longest = OptionalLong.empty();
        for (Decision decision : decisions) {
            if (decision.isAllowed()) {
                continue;
            }
            Optional<Duration> wait = decision.retryAfter();
            if (wait.isEmpty()) {
                return OptionalLong.empty();
            }
            // Zero would mean at once, and so in a loop.
            long seconds = Math.max(1, ofMillis(wait.get().toMillis()));
            longest = OptionalLong.of(Math.max(seconds, longest.orElse(0)));
        }
        return longest;
    }

    private static long ofMillis(long millis) {
        return -Math.floorDiv(-millis, 1_000L);
    }
}
