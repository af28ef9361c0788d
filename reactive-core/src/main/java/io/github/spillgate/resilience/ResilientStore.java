package io.github.spillgate.resilience;

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
 * A store that always answers in time: it asks another one, with a deadline and behind a circuit breaker, and falls back on what
 * this process can decide by itself.
 *
 * <p>A {@code RateLimiter} puts a Redis store behind one of these by itself. Make one yourself to share it between limiters, so
 * that they have one breaker for one Redis, or for settings that the limiter's builder does not have.
 *
 * <pre>{@code
 * ResilientStore store = ResilientStore.builder(RedisStore.create(redisClient))
 *         .fallback(LocalStore.bounded(100_000).share(0.25))
 *         .deadline(Duration.ofMillis(50))
 *         .build();
 * }</pre>
 *
 * <h2>What happens when the store does not answer</h2>
 *
 * <ul>
 *   <li>A question that is not answered by the deadline goes to the fallback. It goes there at once when the store reports an
 *       error, when too many questions are open, or when the breaker is.
 *   <li>The breaker opens when half of the last 20 questions have failed, at the least 10; and at once if the store cannot be
 *       reached. A second later, more or less, three questions try the store again. Whoever asks them is answered by the fallback
 *       at once. If they go well, the store decides again. It is not to blame for a deadline that this process has slept through,
 *       if it answers soon after. Where a store has parts that fail apart from each other, as the nodes of a cluster do, each has a
 *       breaker of its own, and what was granted in its place is settled by itself.
 *   <li>The local store as the fallback starts from what the store has said last of each count, and keeps account of what it
 *       admits. That is charged in the store when it is back, in small batches, and once, also where a reply is lost. Until it is
 *       sent, the fallback goes on deciding about that count; else the store would grant what is used already.
 *   <li>What the store allows in time, while the fallback has granted something of the same counts that the store does not know of, is
 *       held against that: if the two do not fit into the limit together, the fallback decides, and the store is given back what it has
 *       charged. So one instance whose share is 1 lets in no more than the limit, whichever of the two decides.
 *   <li>A question that was sent and not answered may have been done. If its answer comes within a minute, it is taken into
 *       account; else what it asked for counts as not charged, and is charged.
 * </ul>
 *
 * <p>A refund that the store does not hear of is not repeated: that errs towards denying. A reset that it does not hear of holds
 * here until it decides again.
 */
public final class ResilientStore implements ProtectedStore, AutoCloseable {
    // Design notes.
    //
    // What has to hold: nobody is told that he is allowed, by the store or by the fallback, unless he fits into the
    // limit together with all whom this instance has told so before and who still count.
    //
    // Of each count the fallback has two numbers: what is known, which is what the store has said it has charged, and
    // what is owed, which the fallback has granted and the store may not have charged. Everybody who has been told is
    // in one of them at the least. So it is enough that whoever is told finds, with himself in it, that both together
    // are at most the limit.
    //
    // A grant of the fallback looks at both. It knows of nobody who is under way, and need not: an answer of the
    // store goes into what is known first, and is handed on only if both fit together then (FallbackStore.remember).
    // Each of the two is one step under the count's monitor, so of a grant and an answer that meet, the later one
    // sees the other. Of several counts each is looked at by itself: once an answer is known, no grant takes its
    // place away.
    //
    // An answer that does not fit has come too late, as if the deadline had passed: the fallback decides, and if it
    // denies, what the store has charged is given back. Until the store tells of that, it counts as used; that errs
    // towards denying, for a window at most.
    //
    // Whoever moves from one number to the other is in both for a moment, and never in none. A settlement is known
    // before it is no longer owed, and so is a late answer. What is on its way to be settled may be known already,
    // with the answer to somebody else: who would be turned away only because it is in both waits until that is clear
    // (Question.hear), to his deadline at most.
    //
    // What is known is what the newest answer says, by the clock of the server that gave it; where the order is not
    // certain, the most that any of them says. What is given back is taken off before the store is asked, for an
    // answer may have it off already.
    //
    // Not covered is what nobody knows of: what a store has lost, counts that were forgotten for want of memory, what
    // was granted elsewhere.

    private static final Duration LONGEST = Duration.ofMinutes(1);
    private static final long LATEST = TimeUnit.MINUTES.toNanos(1);

    /** How long a refund waits, at most, before it looks again whether local grants are reconciled. */
    private static final Duration LOOK_AGAIN = Duration.ofMillis(5);

    private final LimitStore primary;
    private final LimitStore fallback;
    private final @Nullable FallbackStore standIn;
    private final Gates gates;
    private final long deadlineNanos;
    private final Duration lookAgain;
    private final Deadlines deadlines;
    private final Deadlines grace;
    private final Deadlines late = new Deadlines(LATEST);
    private final Doubts doubts = new Doubts();
    private final Denials denials;
    private final Resets resets = new Resets();
    private final @Nullable Settlers settlers;
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
        denials = new Denials(builder.cacheDenials);
        gates = new Gates(primary, fallback, builder.maxInFlight, deadlineNanos, builder.breaker);
        standIn = fallback instanceof FallbackStore store ? store : null;
        settlers = standIn == null ? null : new Settlers(primary, standIn, gates, doubts);
        if (standIn != null) {
            standIn.standInFor(primary);
        }
        // So that what is wrong is said at the start, and the first who asks is not the one who waits for a connection.
        Mono.defer(primary::prepare).subscribe(null, error -> gates.whole().failed(0, error));
    }

    /**
     * A store with the settings that suit most.
     *
     * @param store what decides as long as it can
     * @return a store that answers in time
     */
    public static ResilientStore of(LimitStore store) {
        return builder(store).build();
    }

    /**
     * Starts a store.
     *
     * @param store what decides as long as it can
     * @return its builder
     * @throws IllegalArgumentException if that store answers in time by itself
     */
    public static Builder builder(LimitStore store) {
        return new Builder(store);
    }

    @Override
    public Mono<Decision> take(List<Claim> claims) {
        return new Asking<>(actual -> {
            Decision denied = denials.find(claims);
            return denied == null ? new Taking(this, claims, actual) : Operators.scalarSubscription(actual, denied);
        });
    }

    @Override
    public Mono<Decision> peek(List<Claim> claims) {
        return new Asking<>(actual -> new Question<Decision>(this, claims, store -> store.peek(claims), true, actual) {
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
     * The fallback forgets it before the store is asked. What the store has said by then still has it in it; what it says after that
     * may not, and would become too little if as much were taken off once more.
     */
    private Mono<Void> refund(Decision decision, List<Claim> claims, FallbackStore remembering) {
        Mono<Void> elsewhere = change(claims, store -> store == remembering ? Mono.empty() : store.refund(decision));
        return Mono.defer(() -> remembering.refund(decision).then(elsewhere));
    }

    /**
     * {@inheritDoc}
     *
     * <p>Which permits are the oldest is known only when the local grants of these counts are reconciled. The refund waits for that. If
     * they are not by the deadline, it gives back local grants, and the rest in the store; during an outage the fallback makes it.
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
            // It is not waited for: the deadline has passed.
            freeing(rest, Mono.defer(() -> refundInOrder(rest))).subscribe(null, error -> {});
        }
        return Mono.empty();
    }

    /** Waits until the local grants of these counts are reconciled, up to the deadline and not during an outage. */
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
     * The fallback forgets it first, and no more if the answer is lost: decisions may have been made since. If the store refuses, its
     * count is as before, and the fallback learns it again.
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
        return new Asking<>(actual -> new Changing(this, claims, what, actual));
    }

    /**
     * What was denied until now does not hold any more: before it is given back, for all that is known, and after that; before
     * anybody is told, who may ask at once.
     */
    private Mono<Void> freeing(List<Claim> claims, Mono<Void> giveBack) {
        return Mono.defer(() -> {
            denials.freed(claims);
            return giveBack.doOnTerminate(() -> denials.freed(claims)).doOnCancel(() -> denials.freed(claims));
        });
    }

    /** The longest that an answer takes, as far as it depends on the store. */
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

    /** Ends the settling, after a last chance; does not wait for it. See {@link #closeLater()}. */
    @Override
    public void close() {
        closeLater().subscribe();
    }

    @Override
    public Mono<Void> closeLater() {
        return settlers == null ? Mono.empty() : settlers.end();
    }

    // What questions need.

    LimitStore primary() {
        return primary;
    }

    LimitStore fallback() {
        return fallback;
    }

    /** The gate to the store as a whole. */
    Gate gate() {
        return gates.whole();
    }

    /** The gate to that part of the store that decides on these claims. */
    Gate gateTo(List<Claim> claims) {
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

    Doubts doubts() {
        return doubts;
    }

    Denials denials() {
        return denials;
    }

    long deadlineNanos() {
        return deadlineNanos;
    }

    /** How long somebody still waits for the store, if he has been waiting for something else before. */
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

    /** Lets the fallback know what the store has said, and returns whether that fits together with what the fallback has granted. */
    Fit remember(@Nullable Object answer) {
        return standIn != null && answer instanceof Decision decision ? standIn.remember(decision) : Fit.YES;
    }

    /** Whether what was handed over to be settled is on its way, so that its fate will soon be known. */
    boolean isOnItsWay(List<Claim> claims) {
        return settlers != null && !settlers.hold(claims);
    }

    /** The fallback has granted something that is to be charged in the store. */
    void owes(Decision granted) {
        if (settlers != null) {
            settlers.wake(granted);
        } else {
            lost.add(permits(granted));
        }
    }

    boolean mustSettle(List<Claim> claims) {
        // In this order: what is not owed any more because it has been handed over, a settler holds by then.
        if (standIn == null || settlers == null || !(standIn.owes(claims) || settlers.hold(claims))) {
            return false;
        }
        settlers.hurry(claims);
        return true;
    }

    /** What the fallback has granted is charged in the store, unless a reset that came behind the question has forgotten it there. */
    void takeBack(Decision granted, List<Claim> claims, long askedAt) {
        if (standIn != null && !resets.isAnySince(claims, askedAt)) {
            List<Claim> refunded = standIn.cancel(granted);
            if (!refunded.isEmpty()) {
                freeing(refunded, Mono.defer(() -> primary.refund(refunded))).subscribe(null, error -> {});
            }
        }
    }

    /** Gives back what nobody uses; if that fails, it leaks towards denying. */
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

    /** Returns the store for a log. */
    @Override
    public String toString() {
        return "ResilientStore[" + primary + ", fallback=" + fallback + "]";
    }

    /** A change of counts: what is freed by it may be freed late. */
    private static final class Changing extends Question<Void> {

        Changing(
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
     * Gives the oldest back, here or there. Where it is not known whether the store has done it, it may be missing already from what the
     * store has said of the count since; so it is left at that.
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

    /** A question for each subscriber. */
    private static final class Asking<T> extends Mono<T> {

        private final Function<CoreSubscriber<? super T>, Subscription> question;

        Asking(Function<CoreSubscriber<? super T>, Subscription> question) {
            this.question = question;
        }

        @Override
        public void subscribe(CoreSubscriber<? super T> actual) {
            actual.onSubscribe(question.apply(actual));
        }
    }

    /** What a {@link ResilientStore} falls back on, and when. */
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
         * Sets what decides when the store does not. {@code LocalStore.bounded(100_000)} at first.
         *
         * @param fallback a local store, which then stands in for this store alone; {@link Fallback#allow()},
         *     {@link Fallback#deny()} or {@link Fallback#error()}; or a store of the user's own, which must answer in time by itself
         * @return this builder
         */
        public Builder fallback(LimitStore fallback) {
            this.fallback = Objects.requireNonNull(
                    fallback, "fallback is null: expected one, for example LocalStore.bounded(100_000)");
            return this;
        }

        /**
         * Sets how long an answer of the store is waited for. 100 milliseconds at first.
         *
         * @param deadline more than zero, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if it is something else
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
         * Sets how long a denial by the store is remembered at most, 1 second at first; see {@link
         * io.github.spillgate.RateLimiter.Builder#cacheDenials(Duration)}.
         *
         * @param longest zero, which switches it off, or more, and at most a minute
         * @return this builder
         * @throws IllegalArgumentException if it is something else
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
         * Sets how many questions to the store may be open at a time; 10,000 at first. More go to the fallback. A question is
         * open until the store has answered it, whether somebody waits for the answer or not.
         *
         * @param questions 1 to 1,000,000
         * @return this builder
         * @throws IllegalArgumentException if it is something else
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
         * Changes the settings of the circuit breaker. They come as they are at first: a window of 20 questions, counted, of which
         * at the least 10 must be known; open at half of them failed, for a second, more or less 30 percent; then 3 that try.
         *
         * @param change changes what it is given, for example {@code settings -> settings.failureRateThreshold(25)}
         * @return this builder
         */
        public Builder breaker(UnaryOperator<CircuitBreakerConfig.Builder> change) {
            this.breaker = Objects.requireNonNull(
                    change, "change is null: expected one, for example settings -> settings.failureRateThreshold(25)");
            return this;
        }

        /**
         * Makes the store, and lets the other one connect in the background.
         *
         * @return a store that answers in time
         * @throws IllegalArgumentException if the fallback is a local store that stands in for another store already
         */
        public ResilientStore build() {
            return new ResilientStore(this);
        }
    }
}
