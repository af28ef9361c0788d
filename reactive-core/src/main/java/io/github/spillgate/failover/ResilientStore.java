package io.github.spillgate.failover;

import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.FallbackStore;
import io.github.spillgate.FallbackStore.Fit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreRefusedException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.Source;
import io.github.spillgate.StoreProtection.ProtectedStore;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/**
 * A store with a deadline, a circuit breaker and a fallback around another store.
 *
 * <p>A {@code RateLimiter} wraps a Redis store in one by default. Create one yourself to share it between limiters, so
 * that one Redis has one breaker, or for settings that the limiter's builder does not have.
 *
 * <pre>{@code
 * ResilientStore store = ResilientStore.builder(RedisStore.create(redisClient))
 *         .fallback(LocalStore.bounded(100_000).share(0.25))
 *         .deadline(Duration.ofMillis(50))
 *         .build();
 * }</pre>
 *
 * <h2>What happens if the store does not answer</h2>
 *
 * <ul>
 *   <li><b>Deadline.</b> If a request is not answered by the deadline, the fallback decides. It decides at once if the
 *       store reports an error, if too many requests are in flight, or if the breaker is open.
 *   <li><b>Circuit breaker.</b> It opens if half of the last 20 requests have failed, and at least 10 were made; and at
 *       once if the store cannot be reached. About 1 s later, three requests probe the store. The fallback answers them
 *       at once, unless it is {@link Fallback#error()}, which waits for the store. If the probes succeed, the store
 *       decides again. A deadline that was missed because this process stalled is not a failure of the store, if the
 *       store answers soon after. If a store has parts that fail independently, such as the nodes of a cluster, each
 *       part has its own breaker and is reconciled separately.
 *   <li><b>Reconciliation.</b> A local store as the fallback starts from the last known usage of each count, and
 *       records what it grants. These grants are charged in the store when it is back: in small batches, and only
 *       once, even if a reply is lost. Until the grants of a count are sent, the fallback keeps deciding on it;
 *       otherwise the store would grant permits that are already used.
 *   <li><b>Grants on both sides.</b> If the store allows a request by the deadline, that is compared with the
 *       fallback's grants that the store does not know of yet. If the two do not fit into the limit together, the
 *       fallback decides, and the charge in the store is refunded. An instance with a share of 1 therefore never
 *       exceeds the limit, whichever of the two decides.
 *   <li><b>Lost replies.</b> A request that was sent but not answered may have been executed. If its reply arrives
 *       within a minute, it is taken into account. Otherwise the request counts as not charged, and its permits are
 *       charged by reconciliation.
 * </ul>
 *
 * <p>A refund that does not reach the store is not retried: this errs towards denying. A reset that does not reach the
 * store is in effect in this process until the store decides again.
 */
public final class ResilientStore implements ProtectedStore, AutoCloseable {
    // Design notes.
    //
    // Invariant: a request is reported as allowed, by the store or by the fallback, only if it fits into the limit
    // together with all requests that this instance has reported as allowed before and that still count.
    //
    // For each count the fallback has two numbers: what is known, which is what the store has reported as charged, and
    // what is owed, which the fallback has granted and the store may not have charged. Every allowed request is in at
    // least one of them. So it is enough to check, with the new request included, that both together are at most the
    // limit.
    //
    // A grant of the fallback checks both. It knows of no request in flight, and need not: a reply of the store is
    // added to what is known first, and is passed on only if both fit together then (FallbackStore.remember). Each of
    // the two is one step under the count's monitor, so of a grant and a reply at the same time, the later one sees
    // the other. If there are several counts, each is checked by itself: once a reply is known, no grant takes its
    // permits.
    //
    // A reply that does not fit is treated as if it had missed the deadline: the fallback decides, and if it denies,
    // the store's charge is refunded. Until the store reports the refund, the charge counts as used; that errs towards
    // denying, for a window at most.
    //
    // A grant that moves from one number to the other is in both for a moment, and never in none. A settlement is
    // known before it is no longer owed, and so is a late reply. A settlement in flight may be known already, from the
    // reply to another request. A request that does not fit only because a grant is in both numbers waits until that
    // is clear (StoreCall.hear), at most until its deadline.
    //
    // What is known is what the newest reply says, by the clock of the server that sent it; where the order is not
    // certain, the highest value of any reply. A refund is subtracted before the store is asked, because a reply may
    // be without it already.
    //
    // Not covered: permits that the store has lost, evicted counts, and grants elsewhere.

    private static final Duration LONGEST = Duration.ofMinutes(1);
    private static final long LATEST = TimeUnit.MINUTES.toNanos(1);

    /** The interval at which a waiting refund checks whether local grants are reconciled. */
    private static final Duration LOOK_AGAIN = Duration.ofMillis(5);

    private final LimitStore primary;
    private final LimitStore fallback;
    private final @Nullable FallbackStore standIn;
    private final CircuitGates gates;
    private final long deadlineNanos;
    private final Duration lookAgain;
    private final Deadlines deadlines;
    private final Deadlines grace;
    private final Deadlines late = new Deadlines(LATEST);
    private final UnansweredCalls doubts = new UnansweredCalls();
    private final DenialCache denials;
    private final ResetLog resets = new ResetLog();
    private final @Nullable Reconcilers settlers;
    private final LongAdder fellBack = new LongAdder();
    private final LongAdder unknown = new LongAdder();
    private final LongAdder lost = new LongAdder();

    private ResilientStore(Builder builder) {
        primary = builder.primary;
        fallback = builder.fallback == null ? LocalStore.bounded(Builder.COUNTS) : builder.fallback;
        deadlineNanos = builder.deadline.toNanos();
        lookAgain = builder.deadline.compareTo(LOOK_AGAIN) < 0 ? builder.deadline : LOOK_AGAIN;
        deadlines = new Deadlines(deadlineNanos);
        grace = new Deadlines(deadlineNanos);
        denials = new DenialCache(builder.cacheDenials);
        gates = new CircuitGates(primary, fallback, builder.maxInFlight, deadlineNanos, builder.breaker);
        standIn = fallback instanceof FallbackStore store ? store : null;
        settlers = standIn == null ? null : new Reconcilers(primary, standIn, gates, doubts);
        if (standIn != null) {
            standIn.standInFor(primary);
        }
        // So that a wrong setting is reported at startup, and the first request does not wait for a connection.
        Mono.defer(primary::prepare).subscribe(null, error -> gates.whole().failed(0, error));
    }

    /**
     * Returns a resilient store with the default settings.
     *
     * @param store the primary store, which decides while it can
     * @return the resilient store
     */
    public static ResilientStore of(LimitStore store) {
        return builder(store).build();
    }

    /**
     * Returns a builder of a resilient store.
     *
     * @param store the primary store, which decides while it can
     * @return the builder
     * @throws IllegalArgumentException if that store has a deadline of its own
     */
    public static Builder builder(LimitStore store) {
        return new Builder(store);
    }

    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return new CallMono<>(actual -> {
            Decision denied = denials.find(claims);
            return denied == null ? new TakeCall(this, claims, actual) : Operators.scalarSubscription(actual, denied);
        });
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return new CallMono<>(
                actual -> new StoreCall<Decision>(this, claims, store -> store.peek(claims), true, actual) {
                    @Override
                    boolean mustBeSettledFirst() {
                        return mustSettle(claims);
                    }
                });
    }

    @Override
    public Mono<Void> refund(Decision decision) {
        List<Claim> claims =
                decision.limits().stream().map(Decision.Usage::claim).toList();
        return freeing(claims, refund(decision, claims));
    }

    private Mono<Void> refund(Decision decision, List<Claim> claims) {
        if (decision.source() != fallback.state().source()) {
            return standIn == null
                    ? change(claims, store -> store.refund(decision))
                    : refund(decision, claims, standIn);
        }
        if (standIn == null) {
            return fallback.refund(decision);
        }
        return Mono.defer(() -> {
            List<Claim> settled = standIn.takeBack(decision);
            return settled.isEmpty() ? Mono.empty() : change(settled, new OnceGivenBack(primary, settled));
        });
    }

    /**
     * Refunds in the fallback before the store is asked. Replies up to then still include the permits; a later reply
     * may not, and subtracting them from that one would count the refund twice.
     */
    private Mono<Void> refund(Decision decision, List<Claim> claims, FallbackStore remembering) {
        Mono<Void> elsewhere = change(claims, store -> store == remembering ? Mono.empty() : store.refund(decision));
        return Mono.defer(() -> remembering.refund(decision).then(elsewhere));
    }

    /**
     * {@inheritDoc}
     *
     * <p>The store knows the oldest permits only when the local grants of these counts are reconciled. The refund waits
     * for that, up to the deadline. After the deadline, it refunds local grants first, and the rest in the store.
     * During an outage the fallback makes the refund.
     */
    @Override
    public Mono<Void> refund(List<Claim> claims) {
        return freeing(
                claims,
                Mono.defer(() -> standIn == null || isReconciled(claims)
                        ? refundInOrder(claims)
                        : refundReconciled(claims, standIn)));
    }

    private Mono<Void> refundReconciled(List<Claim> claims, FallbackStore granting) {
        long since = Deadlines.now();
        return reconciled(claims)
                .then(Mono.defer(() -> refundNow(claims, granting)))
                .contextWrite(context -> context.hasKey(WAITING_SINCE) ? context : context.put(WAITING_SINCE, since));
    }

    private Mono<Void> refundInOrder(List<Claim> claims) {
        return change(claims, new OnceGivenBack(primary, claims));
    }

    private Mono<Void> refundNow(List<Claim> claims, FallbackStore granting) {
        if (isReconciled(claims)) {
            return refundInOrder(claims);
        }
        if (!gateTo(claims).isAsked()) {
            return granting.refund(claims);
        }
        List<Claim> rest = granting.refundGranted(claims);
        if (!rest.isEmpty()) {
            // Do not wait: the deadline has passed.
            freeing(rest, Mono.defer(() -> refundInOrder(rest))).subscribe(null, error -> {});
        }
        return Mono.empty();
    }

    /** Completes when the local grants of these counts are reconciled, at the deadline, or at once during an outage. */
    private Mono<Void> reconciled(List<Claim> claims) {
        return Mono.deferContextual(context -> Flux.interval(Duration.ZERO, lookAgain, Schedulers.parallel())
                .takeUntil(look -> isReconciled(claims) || !gateTo(claims).isAsked() || patienceLeft(context) <= 0)
                .then());
    }

    /** Returns whether the fallback has granted nothing that the store may not know of. */
    boolean isReconciled() {
        return fallback.state().toReconcile() == 0;
    }

    private boolean isReconciled(List<Claim> claims) {
        return !mustSettle(claims) && !doubts.onAny(claims);
    }

    @Override
    public Mono<Void> reset(List<Claim> claims) {
        return freeing(claims, standIn == null ? change(claims, store -> store.reset(claims)) : reset(claims, standIn));
    }

    /**
     * Resets the fallback first. If the store's reply is lost, the fallback is not reset again, because decisions may
     * have been made since. If the store refuses, its count is unchanged, and the fallback learns it again.
     */
    private Mono<Void> reset(List<Claim> claims, FallbackStore remembering) {
        Mono<Void> elsewhere = change(claims, store -> store == remembering ? Mono.empty() : store.reset(claims));
        return Mono.defer(() -> {
            resets.note(claims);
            return remembering
                    .reset(claims)
                    .then(elsewhere)
                    .onErrorResume(
                            LimitStoreRefusedException.class,
                            refused -> peek(claims).then(Mono.error(refused)))
                    .doOnTerminate(() -> resets.note(claims))
                    .doOnCancel(() -> resets.note(claims));
        });
    }

    private Mono<Void> change(List<Claim> claims, Function<LimitStore, Mono<Void>> what) {
        return new CallMono<>(actual -> new ChangeCall(this, claims, what, actual));
    }

    /**
     * Drops the cached denials of these counts: before the refund or reset, because of all that are cached then, and
     * after it, because of those cached since; in any case before the caller is notified, which may retry at once.
     */
    private Mono<Void> freeing(List<Claim> claims, Mono<Void> giveBack) {
        return Mono.defer(() -> {
            denials.freed(claims);
            return giveBack.doOnTerminate(() -> denials.freed(claims)).doOnCancel(() -> denials.freed(claims));
        });
    }

    /** Returns the deadline, the longest time for an answer, as far as it depends on the store. */
    @Override
    public Optional<Duration> deadline() {
        return Optional.of(Duration.ofNanos(deadlineNanos));
    }

    @Override
    public StoreState state() {
        Source decides = (gates.isAnyDeciding() ? primary : fallback).state().source();
        StoreState settling = fallback.state();
        return StoreState.of(decides)
                .behind(gates.state(), gates.isAnyFallenBack(), gates.problem(), fellBack.sum())
                .reconciling(
                        settling.toReconcile(), settling.reconciled(), settling.lost() + lost.sum(), unknown.sum());
    }

    /** Ends the reconciliation after a last attempt. Does not wait; see {@link #closeLater()}. */
    @Override
    public void close() {
        closeLater().subscribe();
    }

    @Override
    public Mono<Void> closeLater() {
        return settlers == null ? Mono.empty() : settlers.end();
    }

    // For requests (StoreCall).

    LimitStore primary() {
        return primary;
    }

    LimitStore fallback() {
        return fallback;
    }

    /** Returns the gate to the store as a whole. */
    CircuitGate gate() {
        return gates.whole();
    }

    /** Returns the gate to the part of the store that decides on these claims. */
    CircuitGate gateTo(List<Claim> claims) {
        return gates.to(claims);
    }

    Deadlines deadlines() {
        return deadlines;
    }

    Deadlines grace() {
        return grace;
    }

    Deadlines late() {
        return late;
    }

    UnansweredCalls doubts() {
        return doubts;
    }

    DenialCache denials() {
        return denials;
    }

    long deadlineNanos() {
        return deadlineNanos;
    }

    /**
     * Returns how long the caller still waits for the store, less the time that the caller has already spent waiting
     * for something else.
     */
    long patienceLeft(ContextView context) {
        Object since = context.getOrDefault(WAITING_SINCE, null);
        return since instanceof Long nanos ? deadlineNanos - Math.max(0, Deadlines.now() - nanos) : deadlineNanos;
    }

    void countFallBack() {
        fellBack.increment();
    }

    void countUnknown(Decision granted) {
        unknown.add(permits(granted));
    }

    /**
     * Passes a reply of the store to the fallback, and returns whether it fits together with the grants of the
     * fallback.
     */
    Fit remember(@Nullable Object answer) {
        return standIn != null && answer instanceof Decision decision ? standIn.remember(decision) : Fit.YES;
    }

    /**
     * Returns whether all settlements handed over for these claims are in flight, so that their outcome is known soon.
     */
    boolean isOnItsWay(List<Claim> claims) {
        return settlers != null && !settlers.hold(claims);
    }

    /** Notes a grant of the fallback that has to be charged in the store. */
    void owes(Decision granted) {
        if (settlers != null) {
            settlers.wake(granted);
        } else {
            lost.add(permits(granted));
        }
    }

    boolean mustSettle(List<Claim> claims) {
        // In this order: what has just been handed over, and so is no longer owed, a settler already holds.
        if (standIn == null || settlers == null || !(standIn.owes(claims) || settlers.hold(claims))) {
            return false;
        }
        settlers.hurry(claims);
        return true;
    }

    /**
     * Cancels the reconciliation of a grant of the fallback that the store has charged after all, unless a reset after
     * the request has removed that charge.
     */
    void takeBack(Decision granted, List<Claim> claims, long askedAt) {
        if (standIn != null && !resets.isAnySince(claims, askedAt)) {
            List<Claim> refunded = standIn.cancel(granted);
            if (!refunded.isEmpty()) {
                freeing(refunded, Mono.defer(() -> primary.refund(refunded))).subscribe(null, error -> {});
            }
        }
    }

    /** Refunds a charge that is not used. If the refund fails, the error is towards denying. */
    void giveBack(Decision charged) {
        List<Claim> claims =
                charged.limits().stream().map(Decision.Usage::claim).toList();
        freeing(claims, Mono.defer(() -> primary.refund(charged))).subscribe(null, error -> {});
    }

    private static long permits(Decision decision) {
        long permits = 0;
        for (Decision.Usage usage : decision.limits()) {
            permits += usage.claim().permits();
        }
        return permits;
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return "ResilientStore[" + primary + ", fallback=" + fallback + "]";
    }

    /** A refund or reset. It may free permits even if its reply is late. */
    private static final class ChangeCall extends StoreCall<Void> {

        ChangeCall(
                ResilientStore store,
                List<Claim> claims,
                Function<LimitStore, Mono<Void>> what,
                CoreSubscriber<? super Void> actual) {
            super(store, claims, what, false, actual);
        }

        @Override
        void answeredLate(@Nullable Void answer) {
            store.denials.freed(claims);
        }

        @Override
        void failedLate(Throwable error) {
            store.denials.freed(claims);
        }
    }

    /**
     * Refunds the oldest permits, in the store or in the fallback. If the outcome in the store is unknown, the fallback
     * does not refund too: the store's later replies may already be without those permits.
     */
    private static final class OnceGivenBack implements Function<LimitStore, Mono<Void>> {

        private final LimitStore primary;
        private final List<Claim> claims;
        private volatile boolean inDoubt;

        OnceGivenBack(LimitStore primary, List<Claim> claims) {
            this.primary = primary;
            this.claims = claims;
        }

        @Override
        public Mono<Void> apply(LimitStore store) {
            if (store != primary) {
                return inDoubt ? Mono.empty() : store.refund(claims);
            }
            inDoubt = true;
            return Mono.defer(() -> primary.refund(claims)).doOnError(this::failed);
        }

        private void failed(Throwable error) {
            inDoubt = error instanceof LimitStoreUnansweredException;
        }
    }

    /** A Mono that creates a request for each subscriber. */
    private static final class CallMono<T> extends Mono<T> {

        private final Function<CoreSubscriber<? super T>, Subscription> question;

        CallMono(Function<CoreSubscriber<? super T>, Subscription> question) {
            this.question = question;
        }

        @Override
        public void subscribe(CoreSubscriber<? super T> actual) {
            actual.onSubscribe(question.apply(actual));
        }
    }

    /** Builder of a {@link ResilientStore}. Not thread-safe. */
    public static final class Builder {

        private static final int COUNTS = 100_000;
        private static final int MOST_OPEN = 1_000_000;

        private final LimitStore primary;
        private @Nullable LimitStore fallback;
        private Duration deadline = Duration.ofMillis(100);
        private Duration cacheDenials = Duration.ofSeconds(1);
        private int maxInFlight = 10_000;
        private UnaryOperator<CircuitBreakerConfig.Builder> breaker = UnaryOperator.identity();

        private Builder(LimitStore primary) {
            this.primary = Objects.requireNonNull(
                    primary, "store is null: expected one, for example RedisStore.create(redisClient)");
            if (primary.deadline().isPresent()) {
                throw new IllegalArgumentException("store " + primary
                        + " answers in time by itself: expected one that may not, for example"
                        + " RedisStore.create(redisClient)");
            }
        }

        /**
         * Sets the store that decides if the primary store does not; {@code LocalStore.bounded(100_000)} by default.
         *
         * @param fallback a local store, which can then be the fallback of this store only; {@link Fallback#allow()}
         *     (fail open), {@link Fallback#deny()} (fail closed) or {@link Fallback#error()}; or a store of your own
         *     that never stalls
         * @return this builder
         */
        public Builder fallback(LimitStore fallback) {
            this.fallback = Objects.requireNonNull(
                    fallback, "fallback is null: expected one, for example LocalStore.bounded(100_000)");
            return this;
        }

        /**
         * Sets the longest time to wait for an answer of the store; 100 ms by default.
         *
         * @param deadline more than zero, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if the deadline is out of range
         */
        public Builder deadline(Duration deadline) {
            Objects.requireNonNull(deadline, "deadline is null: expected one, for example Duration.ofMillis(100)");
            if (deadline.isNegative() || deadline.isZero() || deadline.compareTo(LONGEST) > 0) {
                throw new IllegalArgumentException("deadline " + deadline
                        + " is out of range: expected more than zero and at most " + LONGEST
                        + ", for example Duration.ofMillis(100)");
            }
            this.deadline = deadline;
            return this;
        }

        /**
         * Sets the longest time for which a denial by the store is cached; 1 s by default. See {@link
         * io.github.spillgate.RateLimiter.Builder#cacheDenials(Duration)}.
         *
         * @param longest zero, which disables the cache, or more, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if the time is out of range
         */
        public Builder cacheDenials(Duration longest) {
            Objects.requireNonNull(longest, "cacheDenials is null: expected one, for example Duration.ofSeconds(1)");
            if (longest.isNegative() || longest.compareTo(LONGEST) > 0) {
                throw new IllegalArgumentException("cacheDenials " + longest
                        + " is out of range: expected zero, which switches it off, or more, and at most " + LONGEST
                        + ", for example Duration.ofSeconds(1)");
            }
            this.cacheDenials = longest;
            return this;
        }

        /**
         * Bounds the requests to the store that are in flight; 10,000 by default. If there are more, the fallback
         * decides. A request is in flight until the store has answered it, whether its caller is still waiting or not.
         * In a cluster the bound applies to each node.
         *
         * @param questions the highest number of requests in flight, 1 to 1,000,000
         * @return this builder
         * @throws IllegalArgumentException if the number is out of range
         */
        public Builder maxInFlight(int questions) {
            if (questions < 1 || questions > MOST_OPEN) {
                throw new IllegalArgumentException("maxInFlight " + questions + " is out of range: expected 1 to "
                        + MOST_OPEN + ", for example 10_000");
            }
            this.maxInFlight = questions;
            return this;
        }

        /**
         * Changes the settings of the circuit breaker. The defaults are: a count-based window of 20 requests, of which
         * at least 10 must have ended; a failure rate of 50%; open for 1 s, give or take 30%; then 3 probes.
         *
         * @param change a function that changes the settings, for example {@code settings ->
         *     settings.failureRateThreshold(25)}
         * @return this builder
         */
        public Builder breaker(UnaryOperator<CircuitBreakerConfig.Builder> change) {
            this.breaker = Objects.requireNonNull(
                    change, "change is null: expected one, for example settings -> settings.failureRateThreshold(25)");
            return this;
        }

        /**
         * Returns the store, and makes the primary store connect in the background.
         *
         * @return the resilient store
         * @throws IllegalArgumentException if the fallback is a local store that is already the fallback of another
         *     store
         */
        public ResilientStore build() {
            return new ResilientStore(this);
        }
    }
}
