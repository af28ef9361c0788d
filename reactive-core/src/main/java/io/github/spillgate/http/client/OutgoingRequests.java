package io.github.spillgate.http.client;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.LoggedCauses;
import io.github.spillgate.internal.SummaryLog;
import io.github.spillgate.internal.Text;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.LongAdder;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.Logger;
import reactor.util.Loggers;
import reactor.util.retry.Retry;

/**
 * Requests to services that have limits of their own. Each waits for its permit in the {@linkplain
 * RateLimiter#acquire(String, Duration) queue} of its key. If a service refuses a request with 429 or 503, and
 * {@linkplain RetryFields says} for how long, the key is {@linkplain RateLimiter#pause paused} in the store, for all
 * instances.
 *
 * <p>The adapters have the filters and methods for their clients; this class is for others.
 *
 * <p><b>Refused requests.</b> The body of the response is discarded. A request that is repeatable waits again, behind
 * the requests that wait already. Otherwise, if neither the store nor its fallback can pause the key, or if the longest
 * wait would pass before the pause ends, the result is a {@link RateLimitedException}. All other responses are passed
 * on, such as a 503 that does not say how long.
 *
 * <p><b>The longest wait</b> is one deadline for all attempts. The time that the service takes is part of it, but no
 * response is awaited for a limited time: set a timeout in the client.
 *
 * <p><b>Concurrency limits.</b> Their permits are held until the body of the response has been read, or the request has
 * failed or is cancelled. If they are lost before that, the request or the body fails with {@link
 * HoldExpiredException}.
 *
 * <p><b>Limits.</b> After a pause, a log grants all of its permits at once. A bucket with a small burst, such as {@code
 * 10/s burst=1}, spreads the requests of all instances evenly.
 *
 * <p>Thread-safe. Nothing happens before the subscription, and each subscription sends a request.
 */
public final class OutgoingRequests {

    private static final Logger LOG = Loggers.getLogger(OutgoingRequests.class);

    private static final Set<String> REPEATABLE = Set.of("GET", "HEAD", "OPTIONS", "TRACE", "DELETE");

    /** How long the rest of a refused response is awaited, before its connection is closed. */
    private static final Duration LONGEST_RELEASE = Duration.ofSeconds(1);

    private final RateLimiter limiter;
    private final Duration longestWait;
    private final Duration longestPause;
    private final LoggedCauses loggedKeys = new LoggedCauses(Time::nanos);
    private final SummaryLog otherPauses;
    private final LongAdder waits = new LongAdder();
    private final LongAdder waitedNanos = new LongAdder();
    private final LongAdder pauses = new LongAdder();
    private final LongAdder retries = new LongAdder();

    private OutgoingRequests(Builder builder) {
        this.limiter = builder.limiter;
        this.longestWait = builder.longestWait;
        this.longestPause = builder.longestPause;
        this.otherPauses = new SummaryLog(
                more -> LOG.info("Limiter {} was paused {} more times by responses", limiter.name(), more));
    }

    /**
     * Returns a builder.
     *
     * @param limiter the limiter, with a {@linkplain Limit#pausable() pausable} limit
     * @return the builder
     * @throws IllegalArgumentException if the limiter has no such limit
     */
    public static Builder builder(RateLimiter limiter) {
        Checks.present(limiter, "limiter", "RateLimiter.builder(\"partner\").build()");
        List<Limit> limits = limiter.limits();
        // Without limits of its own, those of a lookup apply.
        if (!limits.isEmpty() && limits.stream().noneMatch(limit -> limit instanceof Limit.Ban ban && ban.isPause())) {
            throw new IllegalArgumentException("limiter " + limiter.name() + " has the limits " + limits
                    + ", none of which is pausable: expected one more, Limit.pausable(), so that a response can pause"
                    + " its requests");
        }
        return new Builder(limiter);
    }

    /**
     * Returns whether a request may be sent again without asking the caller: {@code GET}, {@code HEAD}, {@code
     * OPTIONS}, {@code TRACE} and {@code DELETE} without a body.
     *
     * @param method the method, in upper case
     * @param hasBody whether the request has a body
     * @return whether it is repeatable
     */
    public static boolean isRepeatable(String method, boolean hasBody) {
        return !hasBody && REPEATABLE.contains(method);
    }

    /**
     * Sends a request as soon as it gets a permit.
     *
     * @param key the key that is charged and paused, such as the host and port of the service
     * @param repeatable whether the request is sent again if it was refused
     * @param request sends the request with each subscription, and emits the response before its body is read
     * @param access reads and releases the response
     * @param <R> the type of the response
     * @return the response; a {@link RateLimitedException} if there is no permit within the longest wait, or if the
     *     request was refused and is not sent again
     */
    public <R> Mono<R> send(String key, boolean repeatable, Mono<R> request, ResponseAccess<R> access) {
        Checks.present(key, "key", "\"api.partner.com\"");
        return Mono.defer(() -> {
            long deadline = Time.nanos() + longestWait.toNanos();
            Mono<R> attempt = Mono.defer(() -> {
                long now = Time.nanos();
                Duration left = Duration.ofNanos(Math.max(0, deadline - now));
                return limiter.acquire(key, left).flatMap(decision -> {
                    waits.increment();
                    waitedNanos.add(Time.nanos() - now);
                    if (!decision.isAllowed()) {
                        return Mono.error(denied(decision));
                    }
                    return exchange(decision, request, access)
                            .flatMap(response -> obey(key, repeatable, deadline, response, access));
                });
            });
            return attempt.retryWhen(Retry.indefinitely()
                    .filter(RepeatableException.class::isInstance)
                    .doBeforeRetry(signal -> retries.increment()));
        });
    }

    /** Sends the request, and holds the permits of concurrency limits until the body of its response has ended. */
    private <R> Mono<R> exchange(Decision decision, Mono<R> request, ResponseAccess<R> access) {
        if (decision.limits().stream().noneMatch(usage -> usage.limit().holdsPermits())) {
            return request;
        }
        return Mono.defer(() -> {
            Sinks.Empty<R> lost = Sinks.empty();
            Disposable held = limiter.keepHolding(decision, lost::tryEmitError);
            return Mono.firstWithSignal(lost.asMono(), request)
                    .map(response -> access.whileHolding(response, lost.asMono(), held::dispose))
                    .switchIfEmpty(Mono.fromRunnable(held::dispose))
                    .doOnError(error -> held.dispose())
                    .doOnCancel(held::dispose);
        });
    }

    private <R> Mono<R> obey(String key, boolean repeatable, long deadline, R response, ResponseAccess<R> access) {
        int status = access.status(response);
        Instant now = Instant.ofEpochMilli(Time.millis());
        Optional<Duration> required =
                RetryFields.pause(status, field -> access.values(response, field), now, longestPause);
        if (required.isEmpty()) {
            return Mono.just(response);
        }
        Duration pause = required.get();
        // Other requests depend on it, so it does not end if this one is cancelled.
        CompletableFuture<Void> paused = limiter.pause(key, pause).toFuture();
        boolean repeats = repeatable && deadline - Time.nanos() >= pause.toNanos();
        pauses.increment();
        log(key, status, pause);
        return access.release(response)
                .timeout(LONGEST_RELEASE)
                .onErrorComplete()
                .then(Mono.fromFuture(paused, true))
                .then(Mono.<R>error(() -> repeats ? new RepeatableException() : refused(now.plus(pause))))
                // Without a pause, the next permit would be granted at once.
                .onErrorMap(LimitStoreException.class, down -> refused(now.plus(pause)));
    }

    private static RateLimitedException denied(Decision decision) {
        return decision.retryAfter()
                .map(wait -> refused(Instant.ofEpochMilli(Time.millis()).plus(wait)))
                .orElseGet(() -> refused(Instant.ofEpochMilli(StoreDecision.NEVER)));
    }

    /** Whatever limits requests to the service, a client of this application has not exceeded it: so it is a pause. */
    private static RateLimitedException refused(Instant until) {
        long now = Time.millis();
        return new RateLimitedException(StoreDecision.denied(
                new Reply(Source.LIMITER, now),
                Math.max(now, until.toEpochMilli()),
                List.of(),
                List.of(Limit.pausable())));
    }

    private void log(String key, int status, Duration pause) {
        if (loggedKeys.add(key)) {
            LOG.info(
                    "Limiter {} pauses {} for {} ms: the service responded with {}",
                    limiter.name(),
                    Text.quote(key),
                    pause.toMillis(),
                    status);
        } else {
            otherPauses.count();
        }
    }

    /**
     * Returns the limiter.
     *
     * @return the limiter
     */
    public RateLimiter limiter() {
        return limiter;
    }

    /**
     * Returns how many times a request has waited for a permit, also for no time or in vain.
     *
     * @return the number
     */
    public long waits() {
        return waits.sum();
    }

    /**
     * Returns the sum of these waits.
     *
     * @return the time
     */
    public Duration waited() {
        return Duration.ofNanos(waitedNanos.sum());
    }

    /**
     * Returns how many responses have paused a key.
     *
     * @return the number
     */
    public long pauses() {
        return pauses.sum();
    }

    /**
     * Returns how many refused requests waited to be sent again.
     *
     * @return the number
     */
    public long retries() {
        return retries.sum();
    }

    /** A refused request that may be sent again. */
    private static final class RepeatableException extends RuntimeException {

        private static final long serialVersionUID = 1L;

        RepeatableException() {
            super("the request was refused", null, false, false);
        }
    }

    /** A builder of {@link OutgoingRequests}. */
    public static final class Builder {

        private static final Duration MOST = Duration.ofDays(1);

        private final RateLimiter limiter;
        private Duration longestWait = Duration.ofSeconds(10);
        private Duration longestPause = Duration.ofMinutes(10);

        private Builder(RateLimiter limiter) {
            this.limiter = limiter;
        }

        /**
         * Sets how long a request waits for its permits, with all of its attempts. The default is 10 s.
         *
         * @param longest the longest wait, from zero to a day
         * @return this builder
         * @throws IllegalArgumentException if it is out of range
         */
        public Builder longestWait(Duration longest) {
            this.longestWait = check("longest wait", longest, Duration.ZERO, "zero");
            return this;
        }

        /**
         * Sets how long one response can pause a key. The default is 10 minutes.
         *
         * @param longest the longest pause, from 1 ms to a day
         * @return this builder
         * @throws IllegalArgumentException if it is out of range
         */
        public Builder longestPause(Duration longest) {
            this.longestPause = check("longest pause", longest, Duration.ofMillis(1), "1 ms");
            return this;
        }

        private static Duration check(String what, Duration value, Duration least, String leastText) {
            Checks.present(value, what, "Duration.ofSeconds(10)");
            if (value.compareTo(least) < 0 || value.compareTo(MOST) > 0) {
                throw new IllegalArgumentException(what + " " + value + " is out of range: expected at least "
                        + leastText + " and at most a day, for example 10 s");
            }
            return value;
        }

        /**
         * Builds the requests.
         *
         * @return the requests
         */
        public OutgoingRequests build() {
            return new OutgoingRequests(this);
        }
    }
}
