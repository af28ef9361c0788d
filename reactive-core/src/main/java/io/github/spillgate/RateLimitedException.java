package io.github.spillgate;

import io.github.spillgate.internal.Checks;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Collectors;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.retry.Retry;

/**
 * A denial as an error, from {@link RateLimiter#limited(Charge...)}. It has no stack trace, because denials are
 * frequent and must be cheap.
 */
public class RateLimitedException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final transient Decision decision;

    /**
     * Creates the exception.
     *
     * @param decision the denial
     */
    public RateLimitedException(Decision decision) {
        super(message(decision), null, false, false);
        this.decision = decision;
    }

    private static String message(Decision decision) {
        // Without the key, which is the input of a user.
        String limits =
                decision.violated().stream().map(Limit::toString).distinct().collect(Collectors.joining(", "));
        return "the rate limit is exceeded" + (limits.isEmpty() ? "" : ": " + limits)
                + decision.retryAfter()
                        .map(wait -> "; retry after " + wait.toMillis() + " ms")
                        .orElse("");
    }

    /**
     * Returns the denial.
     *
     * @return the decision, which is not allowed
     */
    public Decision decision() {
        return decision;
    }

    /**
     * Returns the time until the same charge fits, as {@link Decision#retryAfter()}.
     *
     * @return the wait; empty if no wait helps
     */
    public Optional<Duration> retryAfter() {
        return decision.retryAfter();
    }

    /**
     * Returns a retry that waits as long as each denial says. Other errors are not retried. When no retry is left, when
     * a denial requires a longer wait, or when no wait helps, the denial is the error.
     *
     * <p>Callers that wait this way have no order, and each retry is a command. {@link RateLimiter#acquire(String,
     * Duration)} has a queue instead.
     *
     * @param mostRetries the maximum number of retries, at least 1
     * @param longestWait the longest wait before a retry, positive
     * @return a retry for {@link Mono#retryWhen(Retry)} and {@link Flux#retryWhen(Retry)}
     * @throws IllegalArgumentException if an argument is out of range
     */
    public static Retry retry(int mostRetries, Duration longestWait) {
        Checks.present(longestWait, "the longest wait", "Duration.ofSeconds(2)");
        if (mostRetries < 1 || longestWait.isZero() || longestWait.isNegative()) {
            throw new IllegalArgumentException(mostRetries + " retries with a longest wait of " + longestWait
                    + " are out of range: expected at least 1 retry, and a positive wait, for example"
                    + " RateLimitedException.retry(3, Duration.ofSeconds(2))");
        }
        return new RetryAfter(mostRetries, longestWait);
    }

    private static final class RetryAfter extends Retry {

        private final int mostRetries;
        private final Duration longestWait;

        RetryAfter(int mostRetries, Duration longestWait) {
            this.mostRetries = mostRetries;
            this.longestWait = longestWait;
        }

        @Override
        public Publisher<?> generateCompanion(Flux<RetrySignal> signals) {
            return signals.concatMap(this::next);
        }

        private Mono<Long> next(RetrySignal signal) {
            Throwable failure = Objects.requireNonNull(signal.failure(), "a retry follows a failure");
            if (failure instanceof RateLimitedException denied && signal.totalRetries() < mostRetries) {
                return denied.retryAfter()
                        .filter(wait -> wait.compareTo(longestWait) <= 0)
                        .map(Mono::delay)
                        .orElseGet(() -> Mono.error(failure));
            }
            return Mono.error(failure);
        }
    }
}
