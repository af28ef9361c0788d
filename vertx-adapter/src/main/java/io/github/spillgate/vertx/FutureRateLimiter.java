package io.github.spillgate.vertx;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.RateLimiter;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import java.time.Duration;
import java.util.Collection;
import java.util.Objects;
import java.util.function.Predicate;
import reactor.core.publisher.Mono;

/**
 * A limiter for what is not HTTP, such as consumers of the event bus: what {@link RateLimiter} does, as futures, which complete on the
 * context of the caller.
 *
 * <pre>{@code
 * FutureRateLimiter limits = FutureRateLimiter.of(vertx, limiter);
 * vertx.eventBus().<JsonObject>consumer("mails").handler(message -> limits.tryAcquire(message.body().getString("customer"))
 *         .onSuccess(decision -> {
 *             if (decision.isAllowed()) {
 *                 send(message);
 *             } else {
 *                 message.fail(429, "too many mails for now");
 *             }
 *         }));
 * }</pre>
 *
 * There is no {@code throttle}: a stream that is slowed down is one of Reactor. A denial is a decision, not a failure. What is wrong with a key or a charge is thrown at once. A future cannot be called off: who
 * waits, waits as long as he has said.
 */
public final class FutureRateLimiter {

    private final Vertx vertx;
    private final RateLimiter limiter;

    private FutureRateLimiter(Vertx vertx, RateLimiter limiter) {
        this.vertx = vertx;
        this.limiter = limiter;
    }

    /**
     * The futures of a limiter.
     *
     * @param vertx whose contexts they complete on
     * @param limiter the limiter, which remains the caller's to close
     * @return its futures
     */
    public static FutureRateLimiter of(Vertx vertx, RateLimiter limiter) {
        Objects.requireNonNull(vertx, "vertx is null: expected one, for example Vertx.vertx()");
        Objects.requireNonNull(
                limiter, "limiter is null: expected one, for example RateLimiter.builder(\"api\").build()");
        return new FutureRateLimiter(vertx, limiter);
    }

    /**
     * Takes one permit.
     *
     * @param key who is charged
     * @return the decision
     * @see RateLimiter#tryAcquire(String)
     */
    public Future<Decision> tryAcquire(String key) {
        return ask(limiter.tryAcquire(key));
    }

    /**
     * Takes permits.
     *
     * @param key who is charged
     * @param permits how many
     * @return the decision
     * @see RateLimiter#tryAcquire(String, long)
     */
    public Future<Decision> tryAcquire(String key, long permits) {
        return ask(limiter.tryAcquire(key, permits));
    }

    /**
     * Takes what all the charges ask, or nothing.
     *
     * @param charges at least one
     * @return the decision
     * @see RateLimiter#tryAcquire(Charge...)
     */
    public Future<Decision> tryAcquire(Charge... charges) {
        return ask(limiter.tryAcquire(charges));
    }

    /**
     * Takes what all the charges ask, or nothing.
     *
     * @param charges at least one
     * @return the decision
     * @see RateLimiter#tryAcquire(Collection)
     */
    public Future<Decision> tryAcquire(Collection<Charge> charges) {
        return ask(limiter.tryAcquire(charges));
    }

    /**
     * Takes one permit, and waits for it if it has to.
     *
     * @param key who is charged
     * @param longestWait how long at most
     * @return the decision; denied at once if the wait would be too long
     * @see RateLimiter#acquire(String, Duration)
     */
    public Future<Decision> acquire(String key, Duration longestWait) {
        return ask(limiter.acquire(key, longestWait));
    }

    /**
     * Takes permits, and waits for them if it has to.
     *
     * @param key who is charged
     * @param permits how many
     * @param longestWait how long at most
     * @return the decision; denied at once if the wait would be too long
     * @see RateLimiter#acquire(String, long, Duration)
     */
    public Future<Decision> acquire(String key, long permits, Duration longestWait) {
        return ask(limiter.acquire(key, permits, longestWait));
    }

    /**
     * Takes what a charge asks, and waits for it if it has to.
     *
     * @param charge what is asked
     * @param longestWait how long at most
     * @return the decision; denied at once if the wait would be too long
     * @see RateLimiter#acquire(Charge, Duration)
     */
    public Future<Decision> acquire(Charge charge, Duration longestWait) {
        return ask(limiter.acquire(charge, longestWait));
    }

    /**
     * Takes what all the charges ask, and waits for it if it has to.
     *
     * @param charges at least one
     * @param longestWait how long at most
     * @return the decision; denied at once if the wait would be too long
     * @see RateLimiter#acquire(Collection, Duration)
     */
    public Future<Decision> acquire(Collection<Charge> charges, Duration longestWait) {
        return ask(limiter.acquire(charges, longestWait));
    }

    /**
     * Tells what a decision would say, and charges nothing.
     *
     * @param key who would be charged
     * @return the decision that is not made
     * @see RateLimiter#peek(String)
     */
    public Future<Decision> peek(String key) {
        return ask(limiter.peek(key));
    }

    /**
     * Tells what a decision would say, and charges nothing.
     *
     * @param charges at least one
     * @return the decision that is not made
     * @see RateLimiter#peek(Charge...)
     */
    public Future<Decision> peek(Charge... charges) {
        return ask(limiter.peek(charges));
    }

    /**
     * Tells what a decision would say, and charges nothing.
     *
     * @param charges at least one
     * @return the decision that is not made
     * @see RateLimiter#peek(Collection)
     */
    public Future<Decision> peek(Collection<Charge> charges) {
        return ask(limiter.peek(charges));
    }

    /**
     * Gives back what a decision has taken.
     *
     * @param decision one of this limiter
     * @return completes when it is given back
     * @see RateLimiter#refund(Decision)
     */
    public Future<Void> refund(Decision decision) {
        return ask(limiter.refund(decision));
    }

    /**
     * Gives back what a decision has taken under some of its limits.
     *
     * @param decision one of this limiter
     * @param given under which
     * @return completes when it is given back
     * @see RateLimiter#refund(Decision, Predicate)
     */
    public Future<Void> refund(Decision decision, Predicate<? super Decision.Usage> given) {
        return ask(limiter.refund(decision, given));
    }

    /**
     * Gives back permits, the oldest first.
     *
     * @param key who gets them
     * @param permits how many
     * @return completes when they are given back
     * @see RateLimiter#refund(String, long)
     */
    public Future<Void> refund(String key, long permits) {
        return ask(limiter.refund(key, permits));
    }

    /**
     * Gives back permits, the oldest first.
     *
     * @param charges at least one
     * @return completes when they are given back
     * @see RateLimiter#refund(Charge...)
     */
    public Future<Void> refund(Charge... charges) {
        return ask(limiter.refund(charges));
    }

    /**
     * Forgets what keys have used.
     *
     * @param charges at least one
     * @return completes when it is forgotten
     * @see RateLimiter#reset(Charge...)
     */
    public Future<Void> reset(Charge... charges) {
        return ask(limiter.reset(charges));
    }

    /**
     * Forgets what a key has used.
     *
     * @param key whose count begins anew
     * @return completes when it is forgotten
     * @see RateLimiter#reset(String)
     */
    public Future<Void> reset(String key) {
        return ask(limiter.reset(key));
    }

    private <T> Future<T> ask(Mono<T> asked) {
        return Arrival.future(vertx, asked);
    }
}
