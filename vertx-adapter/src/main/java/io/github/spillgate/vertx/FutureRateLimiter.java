package io.github.spillgate.vertx;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Checks;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import java.time.Duration;
import java.util.Collection;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.MonoSink;

/**
 * A {@link RateLimiter} with futures, for everything except HTTP, such as consumers of the event bus. The futures
 * complete on the context of the caller.
 *
 * <pre>{@code
 * FutureRateLimiter limits = FutureRateLimiter.of(vertx, limiter);
 * vertx.eventBus().<JsonObject>consumer("mails").handler(message ->
 *         limits.tryAcquire(message.body().getString("customer")).onSuccess(decision -> {
 *             if (decision.isAllowed()) {
 *                 send(message);
 *             } else {
 *                 message.fail(429, "too many mails for now");
 *             }
 *         }));
 * }</pre>
 *
 * <p>A denial is a decision, not a failure. An invalid key or charge is thrown when the method is called. A future
 * cannot be cancelled, so a waiting call may wait for all of its longest wait. There is no {@code throttle}, which
 * needs a Reactor stream.
 */
public final class FutureRateLimiter {

    private final Vertx vertx;
    private final RateLimiter limiter;

    private FutureRateLimiter(Vertx vertx, RateLimiter limiter) {
        this.vertx = vertx;
        this.limiter = limiter;
    }

    /**
     * Returns a limiter with futures.
     *
     * @param vertx the Vert.x instance; futures complete on its contexts
     * @param limiter the limiter, which the caller closes
     * @return the limiter with futures
     */
    public static FutureRateLimiter of(Vertx vertx, RateLimiter limiter) {
        Checks.present(vertx, "vertx", "Vertx.vertx()");
        Checks.present(limiter, "limiter", "RateLimiter.builder(\"api\").build()");
        return new FutureRateLimiter(vertx, limiter);
    }

    /**
     * Takes one permit for the key if all limits allow it.
     *
     * @param key the key that is charged
     * @return the decision
     * @see RateLimiter#tryAcquire(String)
     */
    public Future<Decision> tryAcquire(String key) {
        return future(limiter.tryAcquire(key));
    }

    /**
     * Takes the permits of all charges, or none.
     *
     * @param charges one or more charges
     * @return the decision
     * @see RateLimiter#tryAcquire(Charge...)
     */
    public Future<Decision> tryAcquire(Charge... charges) {
        return future(limiter.tryAcquire(charges));
    }

    /**
     * Takes one permit for the key, waiting if necessary.
     *
     * @param key the key that is charged
     * @param longestWait the longest wait
     * @return the decision; denied at once if the wait would be too long
     * @see RateLimiter#acquire(String, Duration)
     */
    public Future<Decision> acquire(String key, Duration longestWait) {
        return future(limiter.acquire(key, longestWait));
    }

    /**
     * Takes the permits of all charges, or none, waiting if necessary.
     *
     * @param charges one or more charges
     * @param longestWait the longest wait
     * @return the decision; denied at once if the wait would be too long
     * @see RateLimiter#acquire(Collection, Duration)
     */
    public Future<Decision> acquire(Collection<Charge> charges, Duration longestWait) {
        return future(limiter.acquire(charges, longestWait));
    }

    /**
     * Returns the decision that an attempt would get now; charges nothing.
     *
     * @param key the key that would be charged
     * @return the decision
     * @see RateLimiter#peek(String)
     */
    public Future<Decision> peek(String key) {
        return future(limiter.peek(key));
    }

    /**
     * Returns the decision that an attempt would get now; charges nothing.
     *
     * @param charges one or more charges
     * @return the decision
     * @see RateLimiter#peek(Charge...)
     */
    public Future<Decision> peek(Charge... charges) {
        return future(limiter.peek(charges));
    }

    /**
     * Refunds the permits that a decision has taken.
     *
     * @param decision a decision of this limiter
     * @return completes when the permits are refunded
     * @see RateLimiter#refund(Decision)
     */
    public Future<Void> refund(Decision decision) {
        return future(limiter.refund(decision));
    }

    /**
     * Refunds the permits that a decision has taken under some of its limits.
     *
     * @param decision a decision of this limiter
     * @param given the limits to refund
     * @return completes when the permits are refunded
     * @see RateLimiter#refund(Decision, Predicate)
     */
    public Future<Void> refund(Decision decision, Predicate<? super Decision.Usage> given) {
        return future(limiter.refund(decision, given));
    }

    /**
     * Replaces the cost of a decision with the real one.
     *
     * @param decision a decision of this limiter
     * @param actual the real cost, 0 or more
     * @return completes when the cost is settled, or at the deadline
     * @see RateLimiter#settle(Decision, long)
     */
    public Future<Void> settle(Decision decision, long actual) {
        return future(limiter.settle(decision, actual));
    }

    /**
     * Replaces the costs of a decision with the real ones.
     *
     * @param decision a decision of this limiter
     * @param actual returns the real cost under each limit
     * @return completes when the costs are settled, or at the deadline
     * @see RateLimiter#settle(Decision, ToLongFunction)
     */
    public Future<Void> settle(Decision decision, ToLongFunction<? super Decision.Usage> actual) {
        return future(limiter.settle(decision, actual));
    }

    /**
     * Refunds permits, the oldest first.
     *
     * @param charges one or more charges
     * @return completes when the permits are refunded
     * @see RateLimiter#refund(Charge...)
     */
    public Future<Void> refund(Charge... charges) {
        return future(limiter.refund(charges));
    }

    /**
     * Deletes the counts of the keys of these charges.
     *
     * @param charges one or more charges
     * @return completes when the counts are deleted
     * @see RateLimiter#reset(Charge...)
     */
    public Future<Void> reset(Charge... charges) {
        return future(limiter.reset(charges));
    }

    /**
     * Deletes the counts of a key.
     *
     * @param key the key
     * @return completes when the counts are deleted
     * @see RateLimiter#reset(String)
     */
    public Future<Void> reset(String key) {
        return future(limiter.reset(key));
    }

    /**
     * Bans a key for a time.
     *
     * @param key the key
     * @param time the time from now on
     * @return completes when the key is banned; fails if it has no limit for that
     * @see RateLimiter#ban(String, Duration)
     */
    public Future<Void> ban(String key, Duration time) {
        return future(limiter.ban(key, time));
    }

    /**
     * Bans the key of a charge for a time.
     *
     * @param charge the key and its limits
     * @param time the time from now on
     * @return completes when the key is banned; fails if it has no limit for that
     * @see RateLimiter#ban(Charge, Duration)
     */
    public Future<Void> ban(Charge charge, Duration time) {
        return future(limiter.ban(charge, time));
    }

    /**
     * Pauses a key for a time.
     *
     * @param key the key
     * @param time the time from now on
     * @return completes when the key is paused; fails if it has no limit for that
     * @see RateLimiter#pause(String, Duration)
     */
    public Future<Void> pause(String key, Duration time) {
        return future(limiter.pause(key, time));
    }

    /**
     * Pauses the key of a charge for a time.
     *
     * @param charge the key and its limits
     * @param time the time from now on
     * @return completes when the key is paused; fails if it has no limit for that
     * @see RateLimiter#pause(Charge, Duration)
     */
    public Future<Void> pause(Charge charge, Duration time) {
        return future(limiter.pause(charge, time));
    }

    /**
     * Ends all bans and pauses of a key.
     *
     * @param key the key
     * @return completes when the key is no longer banned
     * @see RateLimiter#pardon(String)
     */
    public Future<Void> pardon(String key) {
        return future(limiter.pardon(key));
    }

    /**
     * Ends all bans and pauses of the keys of these charges.
     *
     * @param charges one or more charges
     * @return completes when the key is no longer banned
     * @see RateLimiter#pardon(Charge...)
     */
    public Future<Void> pardon(Charge... charges) {
        return future(limiter.pardon(charges));
    }

    /**
     * Releases the permits of concurrency limits that a decision holds, because its work has ended.
     *
     * @param decision a decision of this limiter
     * @return completes when the permits are released
     * @see RateLimiter#release(Decision)
     */
    public Future<Void> release(Decision decision) {
        return future(limiter.release(decision));
    }

    /**
     * Renews the permits of concurrency limits that a decision holds, until the result is disposed of.
     *
     * @param decision a decision of this limiter
     * @param onExpired called on any thread if the permits are lost before that
     * @return releases the permits once when it is disposed of
     * @see RateLimiter#keepHolding(Decision, Consumer)
     */
    public Disposable keepHolding(Decision decision, Consumer<HoldExpiredException> onExpired) {
        return limiter.keepHolding(decision, onExpired);
    }

    /**
     * Runs work while holding one permit for the key, for concurrency limits.
     *
     * @param key the key that is charged
     * @param work starts the work, on the context of the caller
     * @param <T> the type of the result
     * @return the result of the work; a {@link io.github.spillgate.RateLimitedException} after a denial
     * @see #whileHolding(Charge, Supplier)
     */
    public <T> Future<T> whileHolding(String key, Supplier<Future<T>> work) {
        return whileHolding(Charge.of(key), work);
    }

    /**
     * Runs work while holding the permits of a charge, for concurrency limits. A future cannot be cancelled, so if the
     * permits are lost, the result fails with {@link HoldExpiredException}, and the work continues without them.
     *
     * @param charge the charge
     * @param work starts the work, on the context of the caller
     * @param <T> the type of the result
     * @return the result of the work; a {@link io.github.spillgate.RateLimitedException} after a denial
     * @see RateLimiter#limited(Charge...)
     */
    public <T> Future<T> whileHolding(Charge charge, Supplier<Future<T>> work) {
        Checks.present(work, "work", "() -> send(message)");
        Mono<T> started = onContext(vertx.getOrCreateContext(), work);
        return future(started.transform(limiter.limited(charge)));
    }

    /** Returns the result of work that each subscription starts on a context. */
    static <T> Mono<T> onContext(Context context, Supplier<Future<T>> work) {
        return Mono.create(sink -> context.runOnContext(ignored -> start(work, sink)));
    }

    private static <T> void start(Supplier<Future<T>> work, MonoSink<T> sink) {
        Future<T> running;
        try {
            running = Objects.requireNonNull(
                    work.get(), "the work returned null: expected a future, for example Future.succeededFuture()");
        } catch (Throwable e) {
            // Errors too, such as a missing class: no result would follow, and the permits would be renewed.
            sink.error(e);
            return;
        }
        running.onComplete(sink::success, sink::error);
    }

    private <T> Future<T> future(Mono<T> result) {
        return ContextDelivery.future(vertx, result);
    }
}
