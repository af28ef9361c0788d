package io.github.spillgate;

import io.github.spillgate.Claims.ChargedClaims;
import io.github.spillgate.Claims.FoundClaims;
import io.github.spillgate.Claims.LimitSet;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.fleet.Publication;
import io.github.spillgate.fleet.PublicationConflictException;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.Names;
import io.github.spillgate.internal.Turns;
import io.github.spillgate.internal.fleet.Fleet;
import io.github.spillgate.internal.holding.Bans;
import io.github.spillgate.internal.holding.HoldIds;
import io.github.spillgate.internal.holding.Holds;
import io.github.spillgate.internal.holding.Redemption;
import io.github.spillgate.internal.holding.Settlements;
import io.github.spillgate.internal.holding.WhileHolding;
import io.github.spillgate.internal.waiting.LimiterDecisions;
import io.github.spillgate.internal.waiting.NearMarks;
import io.github.spillgate.internal.waiting.Throttle;
import io.github.spillgate.internal.waiting.WaitQueues;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * A rate limiter: a name, its limits, and the store that counts what they grant.
 *
 * <pre>{@code
 * RateLimiter limiter = RateLimiter.builder("api")
 *         .store(RedisStore.create(redisClient))
 *         .limit(Limit.perMinute(120))
 *         .build();
 *
 * limiter.tryAcquire("user:42")
 *         .flatMap(decision -> decision.isAllowed() ? answer() : tooManyRequests(decision.retryAfter()));
 * }</pre>
 *
 * <p>A limiter is thread-safe. Create one for each set of limits and share it; do not create one per request. Only its
 * limits can change, by {@link #replaceLimits(Collection)}.
 *
 * <h2>Contract of all methods</h2>
 *
 * <ul>
 *   <li><b>Lazy.</b> Nothing happens before the subscription. Each subscription is a new attempt.
 *   <li><b>Non-blocking.</b> No method blocks the calling thread.
 *   <li><b>Threads.</b> A decision of Redis is emitted on the event loop that requested it, if the store has a
 *       connection there, and otherwise on {@code Schedulers.parallel()} or on the thread that reads from Redis, if it
 *       is one of few and callers are quick; see {@code RedisStore.Builder.deliverOn}. A decision of the fallback is
 *       emitted on the subscribing thread or, after the deadline, on {@code Schedulers.parallel()}.
 *   <li><b>Errors.</b> A denial is a value, not an error. {@link LimitStoreException} means that the store could not
 *       decide and there is no fallback; {@link LimitLookupException} that a lookup of limits failed and is configured
 *       to fail. Invalid arguments throw {@link IllegalArgumentException} or {@link NullPointerException} when the
 *       method is called.
 *   <li><b>Cancellation.</b> A subscriber that cancels before the command is sent to the store is not charged. If it
 *       cancels later, it may be charged.
 *   <li><b>Demand and Context.</b> A decision is emitted once it is requested. The subscriber's Reactor Context reaches
 *       the store and the lookup of limits.
 * </ul>
 *
 * Use {@link #tryAcquire(String) tryAcquire} to deny at once, {@link #limited(String) limited} to fail, {@link
 * #acquire(Collection, Duration) acquire} to wait in a queue, {@link #throttle(String, ToLongFunction) throttle} to
 * slow down a stream, and {@link #whileHolding(String, Mono) whileHolding} to limit what runs at the same time. The
 * last three document where they differ from this contract.
 */
public final class RateLimiter implements AsyncCloseable {

    private static final String CHARGE = "Charge.of(\"user:42\")";

    /** The charge of a decision at startup that takes nothing. */
    private static final Charge READY = Charge.of("ready", Limit.perMinute(1));

    /** The longest wait for a store that is connected and does not decide. An open breaker waits for up to 1.3 s. */
    private static final Duration READY_LONGEST = Duration.ofSeconds(3);

    private static final Duration READY_PAUSE = Duration.ofMillis(10);

    private static final String NO_ANSWER = "the store answered with null: expected a Mono, as LimitStore promises";

    private final String name;
    private final LimitStore store;
    private final NearMarks marks;
    private final @Nullable ResilientStore ownStore;
    private final InstantSource clock;
    private final Claims claims;
    private final WaitQueues queues;
    private final @Nullable DecisionListeners listeners;
    private final Settlements settlements;
    private final Holds holds;
    private final Bans bans;
    private final Fleet.Member fleet;
    private volatile boolean closed;

    RateLimiter(RateLimiterBuilder builder, LimitStore store) {
        // Before a resilient store is created, which probes its store until it is closed.
        List<Limit> limits = Charge.distinct(builder.limits);
        this.name = builder.name;
        this.ownStore = builder.resilient(store);
        this.store = ownStore == null ? store : ownStore;
        this.marks = new NearMarks(this.store);
        this.clock = builder.clock;
        this.claims = new Claims(this.store, name, limits, builder.lookup);
        this.settlements = new Settlements(builder.debt);
        this.queues = new WaitQueues(marks, clock, builder.maxPerQueue, builder.maxInTotal, claims::renewed);
        this.listeners = DecisionListeners.of(name, builder.listeners);
        this.holds = new Holds(this.store, builder.longestHold, queues::wake);
        this.bans = new Bans(name, clock);
        this.fleet = Fleet.of(this.store).joinLimiter(this, name, this::applyPublished);
    }

    /**
     * Returns a builder of a limiter.
     *
     * @param name the name, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}; limiters with the same name share
     *     their counts on all machines, limiters with different names never do
     * @return the builder
     * @throws IllegalArgumentException if the name is empty, too long or has other characters
     */
    public static RateLimiterBuilder builder(String name) {
        return new RateLimiterBuilder(Names.check("limiter name", name, "\"api\""));
    }

    /**
     * Takes one permit for the key if all limits allow it. Permits of {@linkplain Limit#concurrent(long) concurrency
     * limits} are held until the decision is {@linkplain #release(Decision) released}, and at most for the hold time:
     * they are not renewed. {@link #whileHolding(String, Mono) whileHolding} is safer.
     *
     * @param key the key that is charged
     * @return the decision
     */
    public Mono<Decision> tryAcquire(String key) {
        return tryAcquireOne(Charge.one(key));
    }

    /**
     * Takes the permits of all charges, or none: one atomic verdict. Charges with the same key and limit are summed
     * first. A cost above a limit is denied without a retry time, because it never fits.
     *
     * <pre>{@code
     * limiter.tryAcquire(Charge.of("user:42", 3));
     * }</pre>
     *
     * @param charges one or more; a charge without limits falls under the limits of this limiter
     * @return the decision
     */
    public Mono<Decision> tryAcquire(Charge... charges) {
        return charges != null && charges.length == 1 && charges[0] != null
                ? tryAcquireOne(charges[0])
                : reported(decide(allPresent(charges), this::takeClaims));
    }

    /**
     * Takes one permit for the key, waiting if necessary; see {@link #acquire(Collection, Duration)}.
     *
     * @param key the key that is charged
     * @param longestWait the longest wait; zero takes a permit only if it is the caller's turn now
     * @return the decision
     */
    public Mono<Decision> acquire(String key, Duration longestWait) {
        return acquire(List.of(Charge.one(key)), longestWait);
    }

    /**
     * Takes the permits of all charges in one atomic verdict, and waits until all fit. No thread is blocked.
     *
     * <p><b>Order.</b> Within this limiter, waiters for the same charges are served in FIFO order, whatever their cost:
     * a waiter for one permit stays behind an earlier waiter for a hundred. Charges are the same if they are equal and
     * in the same order. Other limiters, other charges and {@link #tryAcquire(String) tryAcquire} do not queue with
     * them.
     *
     * <p><b>Wait.</b> It begins when the subscriber requests the decision. The limiter denies at once if it knows, from
     * the last reply of the store and the number of waiters ahead, that the wait would be too long. The time of the
     * store's own reply is not part of it. If the first waiter of the queue is denied, it gets the store's decision. A
     * later waiter gets a decision with {@link Source#LIMITER}; its {@link Decision#retryAfter()} is the shortest wait
     * that may be enough, and never shorter than that of the first waiter. If the queue is full, or does not know when
     * permits are free, it is at least a second.
     *
     * <p><b>Bound.</b> The queue is {@linkplain RateLimiterBuilder#waiters(int, int) bounded}; if it is full, the
     * caller is denied at once.
     *
     * <p><b>Cancellation.</b> A waiter that cancels leaves the queue and is not charged. If the store is deciding for
     * it at that moment, the permit goes to the next waiter with the same cost, or is refunded.
     *
     * <p><b>Errors.</b> An error of the store fails all waiters of the queue. {@link #close()} fails them with {@link
     * IllegalStateException}.
     *
     * <p><b>Threads.</b> The decision is emitted on the thread of the store's reply, on {@code Schedulers.parallel()},
     * or on the thread of another caller of this queue. Several waiters may be resumed there one after the other, so
     * keep the continuation short or use {@code publishOn}. The store sees the Reactor Context of the waiter that was
     * first when it was asked.
     *
     * <p><b>Concurrency limits.</b> The first waiter is served as soon as this limiter releases permits. For permits
     * that other instances release, it retries after the {@linkplain Limit#retryAfter() retry time} of the limit, plus
     * or minus a quarter, and at least once a second. The decision holds its permits until they are {@linkplain
     * #release(Decision) released}, or for the hold time; {@link #keepHolding(Decision, Consumer) keepHolding} renews
     * them.
     *
     * <p><b>Limits that count denied requests.</b> A waiting request is not recorded as denied: the limiter peeks until
     * the charges fit, and then takes them. Only if another request comes first is that attempt denied and recorded.
     * For a {@linkplain Limit.Ban ban} it does not count.
     *
     * <pre>{@code
     * limiter.acquire(List.of(Charge.of("partner", 3)), Duration.ofSeconds(2));
     * }</pre>
     *
     * @param charges one or more; a charge without limits falls under the limits of this limiter
     * @param longestWait the longest wait; zero takes permits only if it is the caller's turn now
     * @return the decision
     * @throws IllegalArgumentException if the wait is negative
     */
    public Mono<Decision> acquire(Collection<Charge> charges, Duration longestWait) {
        long nanos = WaitQueues.checkLongestWait(longestWait);
        return reported(acquire(Checks.allPresent(charges, "charges", CHARGE), nanos));
    }

    /**
     * Returns a transformer that delays a stream: each element takes one permit; see {@link #throttle(String,
     * ToLongFunction)}.
     *
     * <pre>{@code
     * orders.transform(limiter.throttle("vies")).flatMap(this::call)
     * }</pre>
     *
     * @param key the key that is charged
     * @param <T> the type of the elements
     * @return a function for {@link Flux#transform(Function)}
     */
    public <T> Function<Flux<T>, Flux<T>> throttle(String key) {
        return throttle(key, element -> 1);
    }

    /**
     * Returns a transformer that delays a stream: each element waits for its permits, in the queue of all callers that
     * {@linkplain #acquire(Collection, Duration) wait} for that key. Elements keep their order.
     *
     * <p><b>Backpressure.</b> The source is asked for one element at a time. If the last reply of the store showed
     * permits for more, it is asked for up to 16. It is never asked for more than the subscriber requested, so no
     * permit is taken for an element that must wait for demand. Nothing is dropped. A source without backpressure, such
     * as {@code Flux.interval}, needs an {@code onBackpressure} operator.
     *
     * <p><b>Rate.</b> On the store's clock no window exceeds its limit. An element is emitted when the reply arrives.
     * If the subscriber is busy for more than 10 ms at that time, the permit is refunded, and the element waits for
     * another. On another clock two elements may therefore be closer than a window by 10 ms plus the difference in
     * network delay.
     *
     * <p><b>Completion and errors.</b> The end of the source, or its error, follows the elements before it. An error of
     * the store, a negative cost, a function that throws, and a cost above a limit cancel the source and fail the
     * stream, in order. After {@link #close()} the next element that needs a permit fails the stream with {@link
     * IllegalStateException}, and so does a full {@linkplain RateLimiterBuilder#waiters(int, int) queue}; a denying
     * lookup fails it with {@link LimitLookupException}.
     *
     * <p><b>Cancellation.</b> Cancels the source, discards buffered elements to {@code doOnDiscard}, leaves the queue,
     * and refunds permits that were granted and not used.
     *
     * <p><b>Threads.</b> Without a wait an element is emitted on the thread of the source, otherwise on the thread of
     * the store's reply or on {@code Schedulers.parallel()}; never on two at once. The subscriber's Reactor Context
     * reaches the source and the store.
     *
     * @param key the key that is charged
     * @param permits the cost of an element; 0 passes it without a decision
     * @param <T> the type of the elements
     * @return a function for {@link Flux#transform(Function)}
     * @throws IllegalStateException if this limiter has a concurrency limit: use {@link #whileHolding(String, Mono)}
     */
    public <T> Function<Flux<T>, Flux<T>> throttle(String key, ToLongFunction<? super T> permits) {
        Checks.present(permits, "permits", "order -> order.lines()");
        Charge one = Charge.of(key);
        if (!claims.hasLookup() && HoldIds.isAnyHold(claims.of(one))) {
            throw noThrottle();
        }
        Mono<Decision> onePermit = acquireToThrottle(one);
        LongFunction<Mono<Decision>> acquire = cost -> cost == 1 ? onePermit : acquireToThrottle(one.permits(cost));
        // With a lookup only one at a time: concurrent lookups could end in any order, and so change that of the queue.
        int maxWaiting = claims.hasLookup() ? 1 : Throttle.MAX_WAITING;
        return source -> new Throttle<>(
                Flux.defer(() -> closed ? Flux.error(closedException()) : source),
                permits,
                acquire,
                queues,
                maxWaiting,
                listeners == null ? null : listeners::report);
    }

    /**
     * Returns a transformer that takes one permit for the key before the work, as {@link #limited(Charge...)}.
     *
     * @param key the key that is charged
     * @param <T> the type of the elements
     * @return a function for {@link Mono#transform(Function)} and {@link Flux#transform(Function)}
     */
    public <T> Function<Publisher<T>, Publisher<T>> limited(String key) {
        return limited(Charge.one(key));
    }

    /**
     * Returns a transformer that takes permits before the work: if they are granted, the work is subscribed to;
     * otherwise the result is a {@link RateLimitedException}. Each subscription takes permits. They are not refunded if
     * the work fails. Permits of concurrency limits are held while the work runs, as {@link #whileHolding(String,
     * Mono)} does.
     *
     * <pre>{@code
     * Mono<String> answer = work.transform(limiter.limited("user:42"));
     * }</pre>
     *
     * @param charges the charges, as in {@link #tryAcquire(Charge...)}
     * @param <T> the type of the elements
     * @return a function for {@link Mono#transform(Function)} and {@link Flux#transform(Function)}
     * @throws IllegalArgumentException as {@link #tryAcquire(Charge...)} does
     */
    public <T> Function<Publisher<T>, Publisher<T>> limited(Charge... charges) {
        Mono<Decision> taken = tryAcquire(charges);
        return work -> {
            WhileHolding<T> held = new WhileHolding<>(taken, work, holds);
            return work instanceof Mono<T> ? Mono.fromDirect(held) : held;
        };
    }

    /**
     * Runs work while holding one permit for the key, for {@linkplain Limit#concurrent(long) concurrency limits}. For
     * charges, use {@link #limited(Charge...)}.
     *
     * <p>Each subscription takes the permit, together with those of other limits, like {@link #tryAcquire(String)}. If
     * it is granted, the work is subscribed to; otherwise the result is a {@link RateLimitedException}. The permit is
     * released once, when the work completes, fails or is cancelled, even if that happens before the decision is known.
     * Other limits stay charged.
     *
     * <pre>{@code
     * Mono<Report> report = limiter.whileHolding("tenant:7", renderReport());
     * }</pre>
     *
     * <p><b>Long work.</b> The permit is renewed after each third of the {@linkplain Limit#hold(Duration) hold time},
     * together with those of other work of this limiter, up to the {@linkplain RateLimiterBuilder#longestHold(Duration)
     * longest hold}. If it cannot be renewed in time, other requests may get it, so shortly before that the work is
     * cancelled, and the result is a {@link HoldExpiredException}. Even then, no more work runs than the limit allows,
     * unless work continues after it was cancelled.
     *
     * <p><b>Threads.</b> The work is subscribed to on the thread of the decision. The result does not wait for the
     * release.
     *
     * @param key the key that is charged
     * @param work the work
     * @param <T> the type of the result
     * @return the result of the work
     */
    public <T> Mono<T> whileHolding(String key, Mono<T> work) {
        return Mono.fromDirect(
                new WhileHolding<>(tryAcquire(key), Checks.present(work, "work", "Mono.just(1)"), holds));
    }

    /**
     * Runs work while holding one permit for the key, until the stream ends; see {@link #whileHolding(String, Mono)}.
     *
     * @param key the key that is charged
     * @param work the work
     * @param <T> the type of the elements
     * @return the elements of the work
     */
    public <T> Flux<T> whileHolding(String key, Flux<T> work) {
        return new WhileHolding<>(tryAcquire(key), Checks.present(work, "work", "Flux.just(1)"), holds);
    }

    /**
     * Keeps the permits of {@linkplain Limit#concurrent(long) concurrency limits} that this decision holds: renews them
     * like {@link #whileHolding(String, Mono)}, until the result is disposed of, which releases them. Use it for work
     * that is not a publisher, such as an HTTP exchange, and for decisions of {@link #acquire(String, Duration)
     * acquire}. Call it as soon as the decision is known, and before the work begins.
     *
     * <p>The hold time counts from the sending of the request. If it has passed before this call, the permits are lost:
     * {@code onExpired} is called before this returns.
     *
     * @param decision a decision of this limiter
     * @param onExpired called if the permits are lost before that, and other requests may get them; it must end the
     *     work, and not block
     * @return the renewal; disposing of it releases the permits, once; already disposed of if the decision holds none
     * @throws IllegalArgumentException if another store made the decision
     */
    public Disposable keepHolding(Decision decision, Consumer<HoldExpiredException> onExpired) {
        Checks.present(onExpired, "onExpired", "expired -> work.cancel()");
        StoreDecision made = checkOurs(decision);
        if (!HoldIds.areIn(made)) {
            return Disposables.disposed();
        }
        return holds.add(made.claims(), Holds.sentAt(made.claims()), onExpired);
    }

    /**
     * Returns the number of holders of permits of this limiter: work in {@link #whileHolding(String, Mono)
     * whileHolding} and decisions in {@link #keepHolding(Decision, Consumer) keepHolding}.
     *
     * @return the number of running subscriptions and kept decisions
     */
    public int holders() {
        return holds.size();
    }

    /**
     * Returns the usage of the key, and whether one more permit would be granted now. Charges nothing, even if denied
     * requests count.
     *
     * @param key the key to look up
     * @return the decision that {@link #tryAcquire(String)} would make
     */
    public Mono<Decision> peek(String key) {
        return peek(Charge.one(key));
    }

    /**
     * Returns the decision that {@link #tryAcquire(Charge...)} would make, and charges nothing. A cost that can never
     * fit is denied without asking the store, and then has no usage.
     *
     * @param charges the charges to look up
     * @return the decision
     */
    public Mono<Decision> peek(Charge... charges) {
        return decide(allPresent(charges), this::peekClaims);
    }

    /**
     * Refunds exactly the permits that this decision took, if they are still in their window and were not {@linkplain
     * #reset(String) reset}. Idempotent: a decision is refunded once, and a denial or a peek has nothing to refund. If
     * the outcome of a refund is unknown, it is not retried, because a second refund would over-admit. Waiters of this
     * limiter for the same charges are woken.
     *
     * <p>A cancelled refund may or may not have happened.
     *
     * @param decision a decision of this limiter
     * @return completes when the permits are refunded
     * @throws IllegalArgumentException if another store made the decision
     */
    public Mono<Void> refund(Decision decision) {
        return refund(decision, usage -> true);
    }

    /**
     * Refunds what a decision took under some of its limits, like {@link #refund(Decision)}. The permits of each limit
     * are refunded once.
     *
     * @param decision a decision of this limiter
     * @param given selects the limits to refund
     * @return completes when the permits are refunded
     * @throws IllegalArgumentException if another store made the decision
     */
    public Mono<Void> refund(Decision decision, Predicate<? super Decision.Usage> given) {
        Checks.present(given, "given", "usage -> usage.limit().name().equals(\"1m\")");
        StoreDecision made = checkOurs(decision);
        return unlessClosed(() -> {
            Redemption redeemed = Redemption.of(made, given);
            if (redeemed.isEmpty()) {
                return Mono.empty();
            }
            HoldIds.noteRelease(HoldIds.holdsIn(redeemed.claims()));
            // All claims, because waiters wait for all of them.
            return thenWake(made.claims(), redeemed.refund(store));
        });
    }

    /**
     * Replaces the cost of a decision with the real one, for costs that are known only afterwards, such as the tokens
     * of a language model: reserve an estimate, and settle the real cost.
     *
     * <pre>{@code
     * limiter.tryAcquire(Charge.of("user:42", estimate)).flatMap(decision -> ask(prompt).flatMap(answer ->
     *         limiter.settle(decision, answer.tokens()).thenReturn(answer)));
     * }</pre>
     *
     * <ul>
     *   <li><b>Less than was charged:</b> the difference is refunded, like {@link #refund(Decision)}. A cost of 0
     *       refunds everything.
     *   <li><b>More:</b> the difference is charged now, even above the limit, up to a bounded {@linkplain
     *       RateLimiterBuilder#debt(double) debt}. Requests are denied until enough of it has expired. Beyond the debt
     *       nothing is charged.
     *   <li><b>Equal:</b> nothing is sent.
     * </ul>
     *
     * <p>The cost applies to each limit of the decision; see {@link #settle(Decision, ToLongFunction)} for others.
     * Idempotent: the permits of each limit are settled or refunded once, whichever is first. A denial or a peek
     * charged nothing, so there is nothing to settle, and neither is there after a {@linkplain #reset(String) reset}.
     * Reserve at least one permit: a decision with a cost of 0 charged nothing either.
     *
     * <p>If the store does not reply by the deadline, this completes, and the settlement is retried in the background
     * for 50 s. It takes effect once. {@link StoreState#lostSettlements()} counts settlements that cannot be delivered.
     * A settlement that is cancelled takes effect all the same.
     *
     * @param decision a decision of this limiter
     * @param actual the real cost, 0 or more
     * @return completes when the cost is settled, or at the deadline
     * @throws IllegalArgumentException if another store made the decision, or the cost is negative
     */
    public Mono<Void> settle(Decision decision, long actual) {
        Checks.cost(actual);
        return settle(decision, usage -> actual);
    }

    /**
     * Replaces the costs of a decision with the real ones, like {@link #settle(Decision, long)}, with another cost for
     * each limit and key. For example, a decision on requests and on tokens:
     *
     * <pre>{@code
     * limiter.settle(decision, usage -> usage.limit().equals(tokensPerMinute) ? answer.tokens() : usage.cost());
     * }</pre>
     *
     * @param decision a decision of this limiter
     * @param actual returns the real cost under each limit, 0 or more; {@link Decision.Usage#cost()} if it is the one
     *     that was charged. Called once for each limit and key when the result is subscribed to
     * @return completes when the costs are settled, or at the deadline; an {@link IllegalArgumentException} if a cost
     *     is negative
     * @throws IllegalArgumentException if another store made the decision
     */
    public Mono<Void> settle(Decision decision, ToLongFunction<? super Decision.Usage> actual) {
        Checks.present(actual, "actual", "usage -> answer.tokens()");
        StoreDecision made = checkOurs(decision);
        return unlessClosed(() -> {
            Map<Object, Long> costs = new HashMap<>();
            for (StoreUsage usage : made.usages()) {
                costs.put(usage.claim().handle(), Checks.cost(actual.applyAsLong(usage)));
            }
            List<Settlement> settled =
                    settlements.of(Redemption.of(made, usage -> !usage.limit().holdsPermits(), costs), costs);
            if (settled.isEmpty()) {
                return Mono.empty();
            }
            Mono<Void> change =
                    store.correct(settled).doOnNext(this::checkSettled).then();
            return settled.stream().anyMatch(one -> one.toRefund() > 0) ? thenWake(made.claims(), change) : change;
        });
    }

    private void checkSettled(List<Corrected> settled) {
        if (settled.contains(Corrected.of(CorrectionOutcome.UNSUPPORTED))) {
            throw new UnsupportedOperationException(
                    store + " cannot settle costs: expected a store that applies a Settlement, for example LocalStore");
        }
    }

    /**
     * Releases the permits of concurrency limits that this decision holds, because its work has ended. Permits of other
     * limits stay charged; {@link #refund(Decision)} returns both. Idempotent. A decision without such permits has
     * nothing to release. Permits that are {@linkplain #keepHolding kept} are no longer renewed. Waiters of this
     * limiter for the same charges are woken.
     *
     * <p>Without a release, the permits are held for the {@linkplain Limit#hold(Duration) hold time}. {@link
     * #whileHolding(String, Mono) whileHolding} renews and releases them automatically.
     *
     * @param decision a decision of this limiter
     * @return completes when the permits are released
     * @throws IllegalArgumentException if another store made the decision
     */
    public Mono<Void> release(Decision decision) {
        StoreDecision made = checkOurs(decision);
        List<Claim> holds = made.isCharged() ? HoldIds.holdsIn(made.claims()) : List.of();
        // Also after closing, because work that is running then ends later.
        return Mono.defer(() -> {
            HoldIds.noteRelease(holds);
            return holds.isEmpty()
                    ? Mono.empty()
                    : thenWake(
                            made.claims(), store.hold(holds, HoldAction.RELEASE).then());
        });
    }

    /**
     * Refunds the permits of each charge, the oldest first: refunding the newest would allow too many within a window.
     * No more is refunded than was taken. Waiters of this limiter for the same charges are woken.
     *
     * <p>The limiter does not know which decision took these permits. So do not refund or settle a decision after its
     * permits were refunded like this: that may refund permits of other requests.
     *
     * <p>A cancelled refund may or may not have happened.
     *
     * @param charges one or more; a charge without limits falls under the limits of this limiter
     * @return completes when the permits are refunded
     */
    public Mono<Void> refund(Charge... charges) {
        List<Charge> given = allPresent(charges);
        for (Charge charge : given) {
            if (charge.permits() < 1) {
                throw new IllegalArgumentException(
                        "permits " + charge.permits() + " cannot be refunded: expected 1 or more, for example 1");
            }
        }
        return change(given, found -> store.correct(RefundOldest.of(found)).then());
    }

    /**
     * Clears the usage of the key under the limits of this limiter. Earlier decisions can no longer be refunded. If
     * Redis does not receive the reset by the deadline, it applies to this instance only, until Redis decides again.
     *
     * @param key the key
     * @return completes when the usage is cleared
     */
    public Mono<Void> reset(String key) {
        return reset(Charge.of(key));
    }

    /**
     * Clears the usage of the charges' keys under their limits, like {@link #reset(String)}. Waiters of this limiter
     * for the same charges are woken.
     *
     * @param charges one or more; a charge without limits falls under the limits of this limiter
     * @return completes when the usage is cleared
     */
    public Mono<Void> reset(Charge... charges) {
        return change(allPresent(charges), found -> store.reset(found, LimitStore.NO_DEADLINE));
    }

    /**
     * Bans the key for a time, as the {@linkplain Limit#ban ban} among its limits does. Of two bans the one that ends
     * later counts, so this is idempotent. If the store does not reply by the deadline, the fallback bans the key, and
     * the ban is reconciled like its grants.
     *
     * @param charge the key; without limits of its own it falls under the limits of this limiter
     * @param time the time from now on, in whole milliseconds, up to a day or, if that is longer, the time of the ban
     * @return completes when the key is banned; an {@link IllegalStateException} if none of its limits is a ban
     */
    public Mono<Void> ban(Charge charge, Duration time) {
        Checks.present(time, "time", "Duration.ofHours(1)");
        return bans(charge, found -> store.correct(bans.of(found, false, time)));
    }

    /**
     * Pauses the key for a time: its requests are denied, and those that {@linkplain #acquire wait} do so until the end
     * of the pause. Otherwise like {@link #ban(Charge, Duration)}, for keys that are {@linkplain Limit#pausable()
     * pausable}.
     *
     * @param charge the key; without limits of its own it falls under the limits of this limiter
     * @param time the time from now on, in whole milliseconds, up to a day
     * @return completes when the key is paused; an {@link IllegalStateException} if it is not pausable
     */
    public Mono<Void> pause(Charge charge, Duration time) {
        Checks.present(time, "time", "Duration.ofMinutes(1)");
        return bans(charge, found -> store.correct(bans.of(found, true, time)));
    }

    /**
     * Pauses the key for a time, like {@link #pause(Charge, Duration)}.
     *
     * @param key the key
     * @param time the time from now on
     * @return completes when the key is paused; an {@link IllegalStateException} if it is not pausable
     */
    public Mono<Void> pause(String key, Duration time) {
        return pause(Charge.of(key), time);
    }

    /**
     * Bans the key for a time, like {@link #ban(Charge, Duration)}.
     *
     * @param key the key
     * @param time the time from now on
     * @return completes when the key is banned; an {@link IllegalStateException} if none of its limits is a ban
     */
    public Mono<Void> ban(String key, Duration time) {
        return ban(Charge.of(key), time);
    }

    /**
     * Ends all bans and pauses of the key, and forgets the denials that were counted for them. Its usage is kept;
     * {@link #reset(Charge...) reset} clears that too.
     *
     * @param charges one or more; a charge without limits falls under the limits of this limiter
     * @return completes when the key is no longer banned
     */
    public Mono<Void> pardon(Charge... charges) {
        return change(allPresent(charges), found -> {
            List<Claim> banned = Bans.among(found);
            return banned.isEmpty() ? Mono.empty() : store.reset(banned, LimitStore.NO_DEADLINE);
        });
    }

    /**
     * Ends all bans and pauses of the key, like {@link #pardon(Charge...)}.
     *
     * @param key the key
     * @return completes when the key is no longer banned
     */
    public Mono<Void> pardon(String key) {
        return pardon(Charge.of(key));
    }

    private Mono<Void> bans(Charge charge, Function<List<Claim>, Mono<List<Corrected>>> ban) {
        Function<List<Claim>, Mono<Void>> made = found ->
                Mono.defer(() -> ban.apply(found)).doOnNext(this::checkBanned).then();
        return change(List.of(Checks.present(charge, "charge", CHARGE)), made, made.apply(List.of()));
    }

    private void checkBanned(List<Corrected> banned) {
        if (banned.contains(Corrected.of(CorrectionOutcome.UNSUPPORTED))) {
            throw new UnsupportedOperationException(
                    store + " cannot ban keys: expected a store that applies a Reconciliation, for example LocalStore");
        }
    }

    /**
     * Returns the name of this limiter.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns the limits of charges that have none of their own and for which no lookup finds any.
     *
     * @return the limits; may be empty
     */
    public List<Limit> limits() {
        return claims.limits();
    }

    /**
     * Replaces the limits of this limiter while it decides, all at once. If one of the new limits is invalid, none is
     * replaced.
     *
     * <p>Each subscription from now on is decided under the new limits, even if its {@code Mono} was created before.
     * Waiters of {@code acquire} and {@code throttle} keep their order and their longest wait, and wait under the new
     * limits. Decisions that were requested before may still be made under the old ones. A throttled stream fails if
     * one of the new limits is a concurrency limit.
     *
     * <p>Usage is kept for each limit with the same name, window and kind: permits and bursts are not part of the
     * count's identity. The usage of a removed limit expires. Limits of charges and of a {@linkplain
     * RateLimiterBuilder#lookup(LimitLookup) lookup} are not affected, and other processes keep their limits until they
     * replace them too; {@link #publish(Publication)} changes all of them. While limits are published, these apply, and
     * the new ones only when those end.
     *
     * @param limits the new limits, at least one
     * @throws IllegalArgumentException if there is none, or two of them would share a count
     */
    public void replaceLimits(Collection<Limit> limits) {
        List<Limit> distinct = Charge.distinct(limits);
        if (distinct.isEmpty()) {
            throw new IllegalArgumentException("no limit was given to replace those of limiter " + name
                    + ": expected at least one, for example List.of(Limit.perMinute(120))");
        }
        claims.replace(distinct);
        queues.renew();
    }

    /**
     * Publishes limits for this limiter in all instances that use its store. They apply here when this completes, and
     * everywhere within 6 s, until they end or are {@linkplain #unpublish withdrawn}, also after a restart. They apply
     * in place of those of the builder and of {@link #replaceLimits(Collection)}, and change what waiters wait for as
     * that does. Limits that a lookup finds for a key apply in place of both.
     *
     * <pre>{@code
     * limiter.publish(Publication.of(Limit.perMinute(30)).comment("partner is overloaded"));
     * }</pre>
     *
     * <p>During an outage of the store nothing can be published, and each instance applies what it knows. An instance
     * that does not know such a limit, because it is older, keeps those that it has.
     *
     * @param value the limits, with the version of the value that they replace; 0 if none is published
     * @return the value with its version. It is not {@linkplain Publication#isShared() shared} if the store is in the
     *     memory of this process. A {@link PublicationConflictException} if another version is published; {@link
     *     UnsupportedOperationException} if the store cannot publish; {@link IllegalStateException} if it has no room
     * @throws IllegalArgumentException if two limits would share a count, or the value is a dry run
     */
    public Mono<Publication> publish(Publication value) {
        Charge.distinct(Checks.present(value, "value", "Publication.of(Limit.perMinute(30))")
                .limits());
        if (value.isShadow()) {
            throw new IllegalArgumentException(value + " is a dry run, and limiter " + name
                    + " has none: expected a rule, for example rules.publish(\"login\", value), or .shadow(false)");
        }
        return unlessClosed(() -> fleet.publish("", value));
    }

    /**
     * Withdraws published limits in all instances that use the store: the present configuration of each applies again.
     *
     * @param version the version of the value that is published
     * @return completes when it is withdrawn; errors as those of {@link #publish(Publication)}
     */
    public Mono<Void> unpublish(long version) {
        return unlessClosed(() -> fleet.unpublish("", version));
    }

    /**
     * Returns the published limits of this limiter, as far as this instance knows.
     *
     * @return the value; empty if none is published, or it has ended
     */
    public Optional<Publication> published() {
        return Optional.ofNullable(fleet.published().get(""));
    }

    private void applyPublished(Map<String, Publication> values) {
        claims.publish(values.get(""));
        // On another thread, because waiters run code of callers.
        Schedulers.parallel().schedule(queues::renew);
    }

    /**
     * Prepares the store: connects, loads the scripts, reads what is published, and makes one decision that charges
     * nothing. Once this has
     * completed, the next decision waits for none of that. A limiter also works earlier: until it has connected, its
     * fallback decides. If an earlier attempt to connect has opened the circuit breaker, this waits until the store
     * decides again; with {@code Fallback.error()} it fails.
     *
     * <p>Use it at startup, for a bounded time: {@code limiter.ready().timeout(Duration.ofSeconds(5))}.
     *
     * @return completes when the store is prepared and decides; a {@link LimitStoreException} if it cannot be prepared
     *     now, or does not decide within 3 s; {@link IllegalStateException} if the limiter is closed
     */
    public Mono<Void> ready() {
        return unlessClosed(() -> store.prepare("").then(fleet.beat()))
                .then(Mono.defer(() -> store.take(StoreRequest.peek(claims.of(READY))))
                        .filter(made -> made.fallbacks() == 0)
                        .repeatWhenEmpty(made -> made.take(READY_LONGEST, Schedulers.parallel())
                                .delayElements(READY_PAUSE, Schedulers.parallel()))
                        .switchIfEmpty(Mono.error(() -> new LimitStoreException(
                                Kind.UNAVAILABLE,
                                store + " is connected, and its fallback still decides: "
                                        + state().problem().orElse("it does not reply by the deadline")))))
                .then();
    }

    /**
     * Returns the longest time for a decision.
     *
     * @return the deadline; zero if the store decides in memory
     */
    public Duration deadline() {
        return store.deadline().orElse(Duration.ZERO);
    }

    /**
     * Returns the state of the store: what decides now, and what is wrong. Cheap enough for every health check.
     *
     * @return the state; limiters that share a store share its state
     */
    public StoreState state() {
        return store.state();
    }

    /**
     * {@inheritDoc}
     *
     * <p>Later subscriptions, and requests that wait, fail with {@link IllegalStateException}. Permits that the
     * fallback granted are reconciled, within a second; this completes at once if there is nothing to reconcile or the
     * store does not respond. The store and whatever else the builder got are not closed, because others may share
     * them: during a shutdown, close them after {@code limiter.closeLater().block()}.
     */
    @Override
    public Mono<Void> closeLater() {
        return Mono.defer(() -> {
            closed = true;
            queues.close(this::closedException);
            Mono<Void> left = fleet.leave();
            return ownStore == null ? left : Mono.when(left, ownStore.closeLater());
        });
    }

    // The path from charges to the store.

    private static List<Charge> allPresent(Charge... charges) {
        return Checks.allPresent(Arrays.asList(Checks.some(charges, "charges", CHARGE)), "charges", CHARGE);
    }

    /** Returns the store that decides, with its deadline and fallback if this limiter has created them. */
    LimitStore deciding() {
        return store;
    }

    private StoreDecision checkOurs(Decision decision) {
        Checks.present(decision, "decision", "the one that tryAcquire gave");
        if (!(decision instanceof StoreDecision made) || !made.claims().stream().allMatch(claims::isOfStore)) {
            throw new IllegalArgumentException(decision + " was made by another store than that of limiter " + name
                    + ": expected a decision of this limiter, for example the one that its tryAcquire gave");
        }
        return made;
    }

    /**
     * Does for one charge, the most frequent case, what {@link #tryAcquire(Charge...)} does, without a list of
     * charges, which costs a local decision measurable time.
     */
    private Mono<Decision> tryAcquireOne(Charge charge) {
        if (claims.hasLookup()) {
            return reported(decide(List.of(charge), this::takeClaims));
        }
        LimitSet under = claims.limitsOf(charge);
        List<Claim> known = claims.of(charge);
        long permits = charge.permits();
        return reported(Mono.defer(() -> takeClaims(claims.underCurrentLimits(known, under, permits))));
    }

    private Mono<Decision> acquire(List<Charge> charges, long longestWait) {
        if (claims.needLookup(charges)) {
            return decideLookedUp(charges, found -> acquireClaims(found, () -> found, longestWait));
        }
        ChargedClaims known = claims.following(charges);
        return Mono.defer(() -> acquireClaims(known.current(), known::current, longestWait));
    }

    /** Waits for the permits of an element. A lookup may find a concurrency limit, or one may replace the limits. */
    private Mono<Decision> acquireToThrottle(Charge charge) {
        return acquire(List.of(charge), WaitQueues.FOREVER).map(decision -> {
            if (HoldIds.areIn(decision)) {
                queues.refund(decision);
                throw noThrottle();
            }
            return decision;
        });
    }

    private IllegalStateException noThrottle() {
        return new IllegalStateException("limiter " + name + " has a concurrency limit, and a throttled stream does not"
                + " say when the work on an element has ended: expected limits with a window, for example"
                + " Limit.perSecond(10), and around the work limiter.whileHolding(key, work)");
    }

    private Mono<Decision> decide(List<Charge> charges, Function<List<Claim>, Mono<Decision>> decide) {
        if (claims.needLookup(charges)) {
            return decideLookedUp(charges, decide);
        }
        ChargedClaims known = claims.following(charges);
        return Mono.defer(() -> decide.apply(known.current()));
    }

    private Mono<Decision> decideLookedUp(List<Charge> charges, Function<List<Claim>, Mono<Decision>> decide) {
        return lookUp(charges, found -> {
            if (found.isDenied()) {
                return atOnce(LimiterDecisions.refused(clock.millis()));
            }
            return found.isUnlimited()
                    ? atOnce(LimiterDecisions.unlimited(clock.millis()))
                    : decide.apply(found.claims());
        });
    }

    /** Looks up limits first. */
    private <T> Mono<T> lookUp(List<Charge> charges, Function<FoundClaims, Mono<T>> then) {
        Mono<FoundClaims> found = claims.lookUp(charges);
        return unlessClosed(() -> found.flatMap(then));
    }

    private Mono<Decision> takeClaims(List<Claim> claims) {
        Mono<Decision> answer = answerWithoutStore(claims);
        return answer == null ? decision(takeAttempt(claims)) : answer;
    }

    private Mono<StoreDecision> takeAttempt(List<Claim> claims) {
        List<Claim> sent = HoldIds.assign(claims);
        Mono<StoreDecision> made = Objects.requireNonNull(storeFor(sent).take(StoreRequest.take(sent)), NO_ANSWER);
        return sent == claims ? made : holds.releasingIfCancelled(made, sent);
    }

    /** Returns the store that decides, and says which decisions are near a limit if any limit has a mark. */
    private LimitStore storeFor(List<Claim> claims) {
        return NearMarks.isAnyMarked(claims) ? marks : store;
    }

    private Mono<Decision> peekClaims(List<Claim> claims) {
        Mono<Decision> answer = answerWithoutStore(claims);
        return answer == null
                ? decision(Objects.requireNonNull(store.take(StoreRequest.peek(claims)), NO_ANSWER))
                : answer;
    }

    @SuppressWarnings("unchecked") // a Mono only emits
    private static Mono<Decision> decision(Mono<StoreDecision> made) {
        return (Mono<Decision>) (Mono<?>) made;
    }

    private Mono<Decision> acquireClaims(List<Claim> claims, Supplier<List<Claim>> currentClaims, long longestWait) {
        Mono<Decision> answer = answerWithoutStore(claims);
        return answer == null ? queues.acquire(claims, currentClaims, longestWait) : answer;
    }

    /** Returns an error if this is closed, a denial if a cost can never fit, and null if the store must decide. */
    private @Nullable Mono<Decision> answerWithoutStore(List<Claim> claims) {
        if (closed) {
            return Mono.error(closedException());
        }
        StoreDecision neverFits = LimiterDecisions.ifNeverFits(clock, claims);
        return neverFits == null ? null : atOnce(neverFits);
    }

    private static Mono<Decision> atOnce(StoreDecision made) {
        if (Turns.isOver()) {
            return Mono.create(sink -> Turns.join(() -> sink.success(made)));
        }
        Turns.count();
        return Mono.just(made);
    }

    /** Refunds or resets. Without a limit nothing is counted, so there is nothing to change. */
    private Mono<Void> change(List<Charge> charges, Function<List<Claim>, Mono<Void>> change) {
        return change(charges, change, Mono.empty());
    }

    /** Changes counts, or does something else if the lookup denies the key or finds no limits. */
    private Mono<Void> change(
            List<Charge> charges, Function<List<Claim>, Mono<Void>> change, Mono<Void> withoutLimits) {
        Function<List<Claim>, Mono<Void>> changeAndWake = found -> thenWake(found, change.apply(found));
        if (claims.needLookup(charges)) {
            return lookUp(
                    charges,
                    found -> found.isDenied() || found.isUnlimited()
                            ? withoutLimits
                            : changeAndWake.apply(found.claims()));
        }
        ChargedClaims known = claims.following(charges);
        return unlessClosed(() -> changeAndWake.apply(known.current()));
    }

    /** Wakes the waiters for these counts after a refund or reset, even a failed one: it may have been executed. */
    private Mono<Void> thenWake(List<Claim> claims, Mono<Void> change) {
        return change.doFinally(end -> queues.wake(claims));
    }

    private Mono<Decision> reported(Mono<Decision> decision) {
        return listeners == null ? decision : listeners.reporting(decision);
    }

    private <T> Mono<T> unlessClosed(Supplier<Mono<T>> answer) {
        return Mono.defer(() -> closed ? Mono.error(closedException()) : answer.get());
    }

    private IllegalStateException closedException() {
        return new IllegalStateException("limiter " + name
                + " is closed: expected it to be open, for example by closing it only after the last request");
    }

    /** Returns the wait queues, for tests. */
    WaitQueues queues() {
        return queues;
    }

    /** Returns the limiter for log messages. */
    @Override
    public String toString() {
        return "RateLimiter[" + name + (limits().isEmpty() ? "" : ", limits=" + limits()) + ", store=" + store + "]";
    }
}
