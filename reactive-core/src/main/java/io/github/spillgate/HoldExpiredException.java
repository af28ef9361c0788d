package io.github.spillgate;

import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The loss of the permits of a {@linkplain Limit#concurrent(long) concurrency limit} before the end of the work, which
 * was cancelled: other requests may hold the permits now. {@link RateLimiter#whileHolding(String,
 * reactor.core.publisher.Mono) whileHolding} signals it.
 */
public class HoldExpiredException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    /**
     * Creates the exception.
     *
     * @param limits the limits of the permits that were held
     * @param held the time for which the permits were held
     * @param reason the reason why they are no longer held
     */
    public HoldExpiredException(List<Limit> limits, Duration held, String reason) {
        // Without the key, which is the input of a user.
        super("the permits of " + limits.stream().map(Limit::toString).collect(Collectors.joining(", "))
                + " are lost after " + held.toMillis() + " ms: " + reason);
    }
}
