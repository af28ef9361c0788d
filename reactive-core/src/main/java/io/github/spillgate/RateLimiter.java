package io.github.spillgate;

import io.github.spillgate.StoreProtection.ProtectedStore;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Limits bound to a store: what a service asks before it lets something through.
 *
 * <pre>{@code
 * RateLimiter limiter = RateLimiter.builder("api")
 *         .store(RedisStore.create(redisClient))
 *         .limit(Limit.perMinute(120))
 *         .build();
 *
 * limiter.tryAcquire("user:42")
 *         .flatMap(decision -> decision.isAllowed() ? answer() : comeBackAfter(decision.retryAfter()));
 * }</pre>
 *
 * <h2>What every method keeps</h2>
 *
 * <ul>
 *   <li>It is lazy: nothing happens before the subscription, and each subscription is one attempt of its own.
 *   <li>It never blocks. The answer comes on the thread that the store delivers on; unless the user asked for that, never on
 *       that of the Redis connection. Where the fallback decides, it comes on the thread that subscribes or, when a deadline has
 *       passed, on one of {@code Schedulers.parallel()}.
 *   <li>A denial is a value. An error is a {@link LimitStoreException}, of a store that could not decide and has nothing to fall
 *       back on; or a
 *       {@link LimitLookupException}, where a lookup of limits was told to fail.
 *   <li>A wrong argument is an {@link IllegalArgumentException} at once, when the method is called; a missing one is a
 *       {@link NullPointerException}.
 *   <li>Cancelled before its question left for the store, it has charged nothing. Cancelled later, it may have charged.
 *   <li>The answer is emitted once it is requested. The Reactor Context of the subscriber reaches the store, and the lookup of
 *       limits, if there is one.
 * </ul>
 *
 * {@link #acquire(Collection, Duration) acquire} and {@link #throttle(String, ToLongFunction) throttle} wait, and say for
 * themselves what that means for a subscriber who cancels, and on which thread he is answered.
 *
 * <p>A limiter is immutable and may be shared by all threads; a service has one for each set of limits, not one for each
 * request.
 */
public final class RateLimiter implements AutoCloseable {

    private static final Duration FOREVER = Duration.ofSeconds(Long.MAX_VALUE);
    private static final String CHARGE = "Charge.of(\"user:42\")";

    private final String name;
    private final LimitStore store;
    private final @Nullable ProtectedStore ownProtection;
    private final List<Limit> limits;
    private final InstantSource clock;
    private final Claims claims;
    private final Lines lines;
    private final Function<List<Claim>, Mono<Decision>> take;
    private final Function<List<Claim>, Mono<Decision>> peek;
    private volatile boolean closed;

    private RateLimiter(Builder builder, LimitStore store) {
        this.name = builder.name;
        this.limits = Charge.distinct(builder.limits);
        this.ownProtection = builder.protection(store);
        this.store = ownProtection == null ? store : ownProtection;
        this.clock = builder.clock;
        this.claims = new Claims(this.store, name, limits, builder.lookup);
        this.lines = new Lines(this.store, clock, builder.mostInLine, builder.mostInAll);
        this.take = this.store::take;
        this.peek = this.store::peek;
    }

    /**
     * Starts a limiter.
     *
     * @param name what it is called, 1 to 64 of the characters {@code A-Z a-z 0-9 . _ -}; limiters of one name share their
     *     counts, wherever they run, and limiters of different names never do
     * @return its builder
     * @throws IllegalArgumentException if the name has other characters, or too many
     */
    public static Builder builder(String name) {
        return new Builder(Names.check("limiter name", name, "\"api\""));
    }

    /**
     * Takes one permit for the key, if all limits have one.
     *
     * @param key who is charged
     * @return the decision
     */
    public Mono<Decision> tryAcquire(String key) {
        return decide(Charge.one(key), take);
    }

    /**
     * Takes so many permits for the key, if all limits have them.
     *
     * @param key who is charged
     * @param permits the cost; 0 asks and takes nothing; more than a limit ever holds is denied at once, without a wait that
     *     would help
     * @return the decision
     */
    public Mono<Decision> tryAcquire(String key, long permits) {
        return decide(Charge.one(key).permits(permits), take);
    }

    /**
     * Takes what all the charges ask, or nothing: one atomic verdict. Charges to the same key under the same limit are summed
     * before they are checked.
     *
     * @param charges at least one; those without limits of their own fall under this limiter's
     * @return the decision
     */
    public Mono<Decision> tryAcquire(Charge... charges) {
        return tryAcquire(Arrays.asList(Checks.present(charges, "charges", CHARGE)));
    }

    /**
     * Takes what all the charges ask, or nothing, as {@link #tryAcquire(Charge...)} does.
     *
     * @param charges at least one; those without limits of their own fall under this limiter's
     * @return the decision
     */
    public Mono<Decision> tryAcquire(Collection<Charge> charges) {
        return decide(charges, take);
    }

    /**
     * Takes one permit for the key, and waits for it if it has to; see {@link #acquire(Collection, Duration)}.
     *
     * @param key who is charged
     * @param longestWait for how long to wait at most; zero takes what is there in its turn
     * @return the decision
     */
    public Mono<Decision> acquire(String key, Duration longestWait) {
        return acquire(Charge.of(key), longestWait);
    }

    /**
     * Takes so many permits for the key, and waits for them if it has to; see {@link #acquire(Collection, Duration)}.
     *
     * @param key who is charged
     * @param permits the cost; more than a limit ever holds is denied at once
     * @param longestWait for how long to wait at most; zero takes what is there in its turn
     * @return the decision
     */
    public Mono<Decision> acquire(String key, long permits, Duration longestWait) {
        return acquire(Charge.of(key).permits(permits), longestWait);
    }

    /**
     * Takes what the charge asks, and waits for it if it has to; see {@link #acquire(Collection, Duration)}.
     *
     * @param charge if it has no limits of its own, it falls under this limiter's
     * @param longestWait for how long to wait at most; zero takes what is there in its turn
     * @return the decision
     */
    public Mono<Decision> acquire(Charge charge, Duration longestWait) {
        return decide(charge, waiting(longestWait));
    }

    /**
     * Takes what all the charges ask, in one atomic verdict, and waits until they all fit. No thread waits.
     *
     * <p><b>The turn.</b> Within this limiter, those who wait for the same charges are served first come, first served, however
     * many permits they ask for; who asks for one waits until the one before him has got his hundred. The store is asked for
     * those who are first, when it has said that there is something for them, and not for each of the others. Between
     * processes, and between different sets of charges, whoever comes first to the store is first. {@link #tryAcquire(String)
     * tryAcquire} does not wait, and so does not queue.
     *
     * <p><b>The wait</b> begins with the first request of the subscriber. He is denied at once when he would have to wait for
     * longer than he wants, as far as is known: by what the store has said last, and by how many are before him. As long as
     * those stay and nothing is given back, nobody is denied who would have been served. The time of the store's answer comes
     * on top of the wait, as it does in {@code tryAcquire}. Who was first is denied with the store's own
     * decision; that of one behind him has {@link Source#LIMITER} as its source, and its {@link Decision#retryAfter()} is the
     * shortest wait that may be enough.
     *
     * <p><b>The bound.</b> There is place for {@linkplain Builder#waiters(int, int) so many}; who comes when all are taken is
     * denied at once.
     *
     * <p><b>Cancelled</b> while it waits, it leaves the line, charges nothing, and wakes the next. If the store is just being
     * asked for it, the answer goes to the next who asks the same, or is given back.
     *
     * <p><b>An error</b> of the store ends the waiting of all in that line, with that error. {@link #close()} ends it with an
     * {@link IllegalStateException}.
     *
     * <p><b>The answer</b> comes on the thread on which the store has answered, on one of {@code Schedulers.parallel()}, or on that
     * of somebody else who comes to the line at that moment. Several may be answered there one after another; so what follows an
     * answer should be short, as on any event loop, or go on elsewhere with {@code publishOn}. It is emitted once there is demand,
     * with the Reactor Context of its subscriber untouched. The store sees the Context of the one who was first when it was asked.
     *
     * <p>Where denied requests count, waiting does not: the store is asked with a peek until the charges fit, and then with a take.
     * Only where somebody else comes in between is that take denied, and recorded.
     *
     * <p>Charges are the same if they are given in the same order.
     *
     * @param charges at least one; those without limits of their own fall under this limiter's
     * @param longestWait for how long to wait at most; zero takes what is there in its turn
     * @return the decision
     * @throws IllegalArgumentException if the wait is negative
     */
    public Mono<Decision> acquire(Collection<Charge> charges, Duration longestWait) {
        return decide(charges, waiting(longestWait));
    }

    /**
     * Slows a stream to what the key may have: one permit for each element; see {@link #throttle(String, ToLongFunction)}.
     *
     * <pre>{@code
     * orders.transform(limiter.throttle("vies")).flatMap(this::call)
     * }</pre>
     *
     * @param key who is charged
     * @param <T> what flows
     * @return what {@link Flux#transform(Function)} takes
     */
    public <T> Function<Flux<T>, Flux<T>> throttle(String key) {
        return throttle(key, element -> 1);
    }

    /**
     * Slows a stream to what the key may have. Every element waits for its permits, in the line of all who
     * {@linkplain #acquire(Collection, Duration) wait} for that key, and goes on in its order.
     *
     * <p><b>Backpressure.</b> The source is asked for one element, and for more only as far as the last answer of the store has
     * said that there are permits for them, up to 16. It is never asked for more than the subscriber has asked for, so no
     * permit is taken for an element that has to wait for its subscriber. Nothing is dropped. A source that cannot be slowed,
     * such as {@code Flux.interval}, needs one of Reactor's {@code onBackpressure} operators in front.
     *
     * <p><b>The rate.</b> By the clock of the store, never more permits are taken in any window than the limits say. An element
     * goes out when the answer has come back. If the subscriber is busy then, and for longer than 10 milliseconds, the permit is
     * given back and another waited for. So by the clock of somebody else, two elements may be closer to each other than a window
     * says by those 10 milliseconds, and by the difference of the ways of their answers.
     *
     * <p><b>Ends and errors.</b> The end of the source, or its error, comes after the elements that came before it. An error of
     * the store, a function that throws or returns a negative cost, and a cost that a limit never holds, cancel the source and
     * are the stream's error, in their order too. After {@link #close()} the next element that needs a permit, or waits for one,
     * ends the stream with an {@link IllegalStateException}; that is the error as well when there is {@linkplain
     * Builder#waiters(int, int) no place} to wait, and a {@link LimitLookupException} where a lookup of limits denies.
     *
     * <p><b>Cancelled</b>, it cancels the source, discards what it has in hand to {@code doOnDiscard}, and leaves the line;
     * permits that were granted and not used are given back.
     *
     * <p><b>Where it goes on.</b> Elements are emitted on the thread on which the source has emitted them if there is no wait,
     * else on the one on which the store has answered or on one of {@code Schedulers.parallel()}; never on two at a time. The
     * Reactor Context of the subscriber reaches the source, and the store.
     *
     * @param key who is charged
     * @param permits what an element costs; 0 lets it go without asking
     * @param <T> what flows
     * @return what {@link Flux#transform(Function)} takes
     */
    public <T> Function<Flux<T>, Flux<T>> throttle(String key, ToLongFunction<? super T> permits) {
        Checks.present(permits, "permits", "order -> order.lines()");
        Charge one = Charge.of(key);
        Mono<Decision> onePermit = decide(one, waiting(FOREVER));
        LongFunction<Mono<Decision>> acquire =
                cost -> cost == 1 ? onePermit : decide(one.permits(cost), waiting(FOREVER));
        // Elements whose limits are looked up at the same time would come to the line in any order.
        int mostInHand = claims.areLookedUp() ? 1 : Throttle.MOST_IN_HAND;
        return source -> Throttle.of(
                Flux.defer(() -> closed ? Flux.error(isClosed()) : source), permits, acquire, lines, mostInHand);
    }

    /**
     * Tells how much the key has used, and whether one more permit would be granted now. Charges nothing, also where denied
     * requests count.
     *
     * @param key who is asked about
     * @return the decision that {@link #tryAcquire(String)} would get
     */
    public Mono<Decision> peek(String key) {
        return decide(Charge.one(key), peek);
    }

    /**
     * Tells what {@link #tryAcquire(Charge...)} would answer, and charges nothing. Like that, it asks no store about a cost that
     * can never fit, and then has no usage to tell.
     *
     * @param charges as they would be charged
     * @return the decision that is not made
     */
    public Mono<Decision> peek(Charge... charges) {
        return peek(Arrays.asList(Checks.present(charges, "charges", CHARGE)));
    }

    /**
     * Tells what {@link #tryAcquire(Collection)} would answer, and charges nothing.
     *
     * @param charges as they would be charged
     * @return the decision that is not made
     */
    public Mono<Decision> peek(Collection<Charge> charges) {
        return decide(charges, peek);
    }

    /**
     * Gives back exactly what this decision took, as far as it is still within its window and was not {@linkplain #reset(String)
     * forgotten}. A decision is given back once: further calls do nothing, as does the refund of a denial or of a peek. If the
     * outcome of a refund is unknown, it is not tried again, because what is given back twice would be over-admitted. Cancelled, it
     * may have been given back. Those who wait in this limiter for just what is given back are woken.
     *
     * @param decision one of this limiter's
     * @return empty, when it is given back
     * @throws IllegalArgumentException if another store has made the decision
     */
    public Mono<Void> refund(Decision decision) {
        return refund(decision, usage -> true);
    }

    /**
     * Gives back what a decision took under some of its limits, as {@link #refund(Decision)} does. A decision is redeemed once: what
     * it took under the others can then not be given back any more.
     *
     * @param decision one of this limiter's
     * @param given whether what it took under a limit is given back
     * @return empty when it is done
     * @throws IllegalArgumentException if another limiter made the decision
     */
    public Mono<Void> refund(Decision decision, Predicate<? super Decision.Usage> given) {
        Checks.present(given, "given", "usage -> usage.limit().name().equals(\"1m\")");
        Checks.present(decision, "decision", "the one that tryAcquire gave");
        for (Decision.Usage usage : decision.limits()) {
            if (!usage.claim().isFor(store)) {
                throw new IllegalArgumentException(decision + " was made by another store than that of limiter " + name
                        + ": expected a decision of this limiter, for example the one that its tryAcquire gave");
            }
        }
        Decision part = decision.only(given);
        return open(() -> !part.limits().isEmpty() && decision.redeem()
                ? freeing(claimsOf(part), store.refund(part))
                : Mono.empty());
    }

    /**
     * Gives back so many permits of the key under each of this limiter's limits, the oldest first: taking the newest first
     * would let more through within a window than the limit says. No more is given back than is recorded. Cancelled, it may have
     * been given back. Those who wait in this limiter for just these charges are woken.
     *
     * @param key who gets them back
     * @param permits how many, at least 1
     * @return empty, when they are given back
     */
    public Mono<Void> refund(String key, long permits) {
        return refund(Charge.of(key).permits(permits));
    }

    /**
     * Gives back the permits of each charge, the oldest first, as {@link #refund(String, long)} does.
     *
     * @param charges at least one; those without limits of their own fall under this limiter's
     * @return empty, when they are given back
     */
    public Mono<Void> refund(Charge... charges) {
        List<Charge> given = allPresent(Arrays.asList(Checks.present(charges, "charges", CHARGE)));
        for (Charge charge : given) {
            if (charge.permits() < 1) {
                throw new IllegalArgumentException(
                        "permits " + charge.permits() + " cannot be given back: expected 1 or more, for example 1");
            }
        }
        return change(given, store::refund);
    }

    /**
     * Forgets what the key has used under this limiter's limits. What was decided before that cannot be given back any more.
     *
     * @param key who starts anew
     * @return empty, when it is forgotten
     */
    public Mono<Void> reset(String key) {
        return reset(Charge.of(key));
    }

    /**
     * Forgets what the keys of the charges have used under their limits, as {@link #reset(String)} does. Those who wait in this
     * limiter for just these charges are woken.
     *
     * @param charges at least one; those without limits of their own fall under this limiter's
     * @return empty, when it is forgotten
     */
    public Mono<Void> reset(Charge... charges) {
        return change(allPresent(Arrays.asList(Checks.present(charges, "charges", CHARGE))), store::reset);
    }

    /**
     * Returns what this limiter is called.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Returns what a charge falls under that has no limits of its own, and for which none are looked up.
     *
     * @return the limits; may be empty
     */
    public List<Limit> limits() {
        return limits;
    }

    /**
     * Returns how long a decision takes at most, whatever the store does.
     *
     * @return the deadline; zero if the store decides in memory
     */
    public Duration deadline() {
        return store.deadline().orElse(Duration.ZERO);
    }

    /**
     * Returns who is deciding now, how well, and what is wrong, if something is. Cheap enough for every health check.
     *
     * @return the state of the store; where limiters share a store, they share its state
     */
    public StoreState state() {
        return store.state();
    }

    /**
     * Ends this limiter: from now on every subscription fails with an {@link IllegalStateException}, and so does whoever is
     * waiting. The store is not closed, for others may share it, and nor is anything else that was given to the builder.
     *
     * <p>It does not wait. What was granted in place of the store, and is not settled yet, gets a last chance in the background;
     * who is about to end the process waits for {@link #closeLater()}.
     */
    @Override
    public void close() {
        closeLater().subscribe();
    }

    /**
     * Ends this limiter as {@link #close()} does, and tells when what waits to be settled has had its last chance. It has a
     * second for that; where the store does not answer, or nothing waits, it is over at once.
     *
     * <p>For a shutdown that may block: {@code limiter.closeLater().block()}, before the store and its client are closed.
     *
     * @return empty, when everything is done; never an error
     */
    public Mono<Void> closeLater() {
        return Mono.defer(() -> {
            closed = true;
            lines.close(this::isClosed);
            return ownProtection == null ? Mono.empty() : ownProtection.closeLater();
        });
    }

    private static List<Charge> allPresent(Collection<Charge> charges) {
        return Checks.allPresent(charges, "charges", CHARGE);
    }

    private Mono<Decision> decide(Charge charge, Function<List<Claim>, Mono<Decision>> how) {
        return claims.areLookedUp() ? decideOn(List.of(charge), how) : Attempt.of(this, claims.of(charge), how);
    }

    private Mono<Decision> decide(Collection<Charge> charges, Function<List<Claim>, Mono<Decision>> how) {
        return decideOn(allPresent(charges), how);
    }

    private Mono<Decision> decideOn(List<Charge> charges, Function<List<Claim>, Mono<Decision>> how) {
        return open(claims.of(
                charges,
                claims -> answer(claims, how),
                () -> Mono.just(Decision.refused(clock.millis())),
                () -> Mono.just(Decision.unlimited(clock.millis()))));
    }

    /** What an attempt comes to: an error, if this is closed; a denial, if it can never fit; else what the store says. */
    Mono<Decision> answer(List<Claim> claims, Function<List<Claim>, Mono<Decision>> how) {
        if (closed) {
            return Mono.error(isClosed());
        }
        List<Limit> tooSmall = tooSmall(claims);
        return tooSmall.isEmpty() ? how.apply(claims) : Mono.just(Decision.neverFits(clock.millis(), tooSmall));
    }

    /** Where nothing is counted, nothing is changed. */
    private Mono<Void> change(List<Charge> charges, Function<List<Claim>, Mono<Void>> how) {
        return open(claims.of(charges, claims -> freeing(claims, how.apply(claims)), Mono::empty, Mono::empty));
    }

    private <T> Mono<T> open(Supplier<Mono<T>> answer) {
        return Mono.defer(() -> closed ? Mono.error(isClosed()) : answer.get());
    }

    private IllegalStateException isClosed() {
        return new IllegalStateException("limiter " + name
                + " is closed: expected it to be open, for example by closing it" + " only after the last request");
    }

    private Function<List<Claim>, Mono<Decision>> waiting(Duration longestWait) {
        long patience = nanos(longestWait);
        // Whoever waits in a line has time; the store's answer comes on top, and has its own.
        return claims -> new Acquisition(lines, claims, patience)
                .contextWrite(context -> context.delete(LimitStore.WAITING_SINCE));
    }

    private static long nanos(Duration longestWait) {
        if (Checks.present(longestWait, "longestWait", "Duration.ofSeconds(2)").isNegative()) {
            throw new IllegalArgumentException("longestWait " + longestWait
                    + " is negative: expected zero or more, for example Duration.ofSeconds(2)");
        }
        // Some 292 years are for ever.
        return longestWait.toSeconds() >= Waiter.FOREVER / 1_000_000_000 ? Waiter.FOREVER : longestWait.toNanos();
    }

    /** Lets those know who wait for what is given back here; also where it may have been, for all that is known. */
    private Mono<Void> freeing(List<Claim> claims, Mono<Void> giveBack) {
        return giveBack.doFinally(end -> lines.wake(claims));
    }

    private static List<Claim> claimsOf(Decision decision) {
        return decision.limits().stream().map(Decision.Usage::claim).toList();
    }

    private static List<Limit> tooSmall(List<Claim> claims) {
        List<Limit> tooSmall = List.of();
        for (int i = 0; i < claims.size(); i++) {
            Claim claim = claims.get(i);
            if (claim.permits() > claim.limit().permits()) {
                tooSmall = tooSmall.isEmpty() ? new ArrayList<>(claims.size()) : tooSmall;
                tooSmall.add(claim.limit());
            }
        }
        return tooSmall;
    }

    /** Those who wait, for tests to look at. */
    Lines lines() {
        return lines;
    }

    /** Returns the limiter for a log. */
    @Override
    public String toString() {
        return "RateLimiter[" + name + ", limits=" + limits + ", store=" + store + "]";
    }

    /** What a {@link RateLimiter} is made of: a store, and what holds where a charge names no limits. */
    public static final class Builder {

        private static final int MOST_WAITERS = 1_000_000;

        private final String name;
        private final List<Limit> limits = new ArrayList<>();
        private @Nullable LimitStore store;
        private InstantSource clock = InstantSource.system();
        private @Nullable LimitLookup lookup;
        private int mostInLine = 1_000;
        private int mostInAll = 10_000;
        private @Nullable LimitStore fallback;
        private @Nullable Duration deadline;
        private @Nullable Duration cacheDenials;

        private Builder(String name) {
            this.name = name;
        }

        /**
         * Decides with this store. It stays the caller's: the limiter does not close it.
         *
         * <p>A store that may stall, such as the Redis store, is asked with a deadline and behind a circuit breaker, and when it
         * does not answer, another one decides. See {@link #fallback(LimitStore)} and {@link #deadline(Duration)}; and, for several
         * limiters that share all of that, or for more settings, {@code ResilientStore}.
         *
         * @param store a Redis store, a local store, a resilient store or one of the user's own
         * @return this builder
         */
        public Builder store(LimitStore store) {
            this.store = Checks.present(store, "store", "RedisStore.create(redisClient)");
            return this;
        }

        /**
         * Decides with this one when the store does not. {@code LocalStore.bounded(100_000)} by default. It stays the caller's.
         *
         * @param fallback a local store; one of {@code Fallback.allow()}, {@code Fallback.deny()} and {@code Fallback.error()}; or
         *     one of the user's own that always answers in time
         * @return this builder
         */
        public Builder fallback(LimitStore fallback) {
            this.fallback = Checks.present(fallback, "fallback", "LocalStore.bounded(100_000)");
            return this;
        }

        /**
         * Sets how long a decision takes at most: when the store has not answered by then, the fallback decides. 100 milliseconds
         * by default. The time that a {@linkplain #lookup(LimitLookup) lookup} takes is inside of it; that of a wait for permits
         * is not.
         *
         * @param deadline more than zero, and at most a minute
         * @return this builder
         */
        public Builder deadline(Duration deadline) {
            this.deadline = Checks.present(deadline, "deadline", "Duration.ofMillis(100)");
            return this;
        }

        /**
         * Sets how long a denial by the store is remembered at most. 1 second by default; zero switches it off.
         *
         * <p>Until then, or until the instant that the denial names if that is sooner, whoever asks for as much or more is denied
         * here, without asking the store: a client who is kept out costs it next to nothing. Nobody is denied whom the store would
         * have allowed, but for this time at most where something was given back, reset or raised in another process, where the
         * store has lost its data, or where its clock jumps forward. Where denied requests count, all of them are asked about.
         *
         * @param longest zero or more, and at most a minute
         * @return this builder
         */
        public Builder cacheDenials(Duration longest) {
            this.cacheDenials = Checks.present(longest, "cacheDenials", "Duration.ofSeconds(1)");
            return this;
        }

        /**
         * Adds a limit. Several must all agree, and are charged together or not at all.
         *
         * @param limit one more limit
         * @return this builder
         */
        public Builder limit(Limit limit) {
            limits.add(Checks.present(limit, "limit", "Limit.perMinute(120)"));
            return this;
        }

        /**
         * Looks up the limits of keys, instead of putting all of them under this limiter's own. Charges with limits of their own
         * are not looked up.
         *
         * @param lookup where limits come from, and what holds when none come
         * @return this builder
         */
        public Builder lookup(LimitLookup lookup) {
            this.lookup = Checks.present(lookup, "lookup", "LimitLookup.of(key -> plans.of(key).map(Plan::limits))");
            return this;
        }

        /**
         * Bounds how many may wait; 1,000 for the same counts and 10,000 in all by default. Who comes when all places are taken
         * is denied at once. A throttled stream takes a place for the element whose turn it is, and more, if they are free, for those
         * that it has in hand behind it.
         *
         * @param forOneKey how many may wait for the same counts
         * @param inAll how many may wait in this limiter, at least as many as for one key and at most 1,000,000
         * @return this builder
         * @throws IllegalArgumentException if one of them is out of its bounds
         */
        public Builder waiters(int forOneKey, int inAll) {
            if (forOneKey < 1 || inAll < forOneKey || inAll > MOST_WAITERS) {
                throw new IllegalArgumentException("waiters(" + forOneKey + ", " + inAll
                        + ") are not a bound: expected 1 or more for one key, and in all no fewer, and no more than "
                        + MOST_WAITERS + ", for example .waiters(1_000, 10_000)");
            }
            mostInLine = forOneKey;
            mostInAll = inAll;
            return this;
        }

        /** For decisions that no store makes, and so have no store's clock. */
        Builder clock(InstantSource clock) {
            this.clock = clock;
            return this;
        }

        /** What stands before a store that may stall; null for one that does not. */
        private @Nullable ProtectedStore protection(LimitStore unprotected) {
            Optional<Duration> ofItsOwn = unprotected.deadline();
            if (ofItsOwn.isEmpty()) {
                return protector()
                        .protect(
                                unprotected,
                                Optional.ofNullable(fallback),
                                Optional.ofNullable(deadline),
                                Optional.ofNullable(cacheDenials));
            }
            if (!ofItsOwn.get().isZero() && (fallback != null || deadline != null || cacheDenials != null)) {
                throw new IllegalStateException(
                        "limiter " + name + " has a fallback, a deadline or cached denials, and store " + unprotected
                                + " has its own: expected them in one place, for example in ResilientStore.builder(redisStore)");
            }
            return null;
        }

        private StoreProtection protector() {
            return ServiceLoader.load(StoreProtection.class, StoreProtection.class.getClassLoader())
                    .findFirst()
                    .orElseThrow(() -> new IllegalStateException("nothing is there to protect the store of limiter "
                            + name + ": expected the jar to be whole, with META-INF/services/"
                            + StoreProtection.class.getName()));
        }

        /**
         * Makes the limiter. A store that has to connect first begins to, in the background.
         *
         * @return a limiter
         * @throws IllegalStateException if no store was given; or no limit where a lookup may need it; or a fallback, a deadline
         *     or cached denials for a store that has its own; or if a lookup may take as long as the whole decision
         * @throws IllegalArgumentException if two of the limits would share a count, or the deadline or the shortcut is out of range
         */
        public RateLimiter build() {
            if (store == null) {
                throw new IllegalStateException("limiter " + name + " has no store: expected one, for example"
                        + " .store(RedisStore.create(redisClient))");
            }
            if (lookup != null && lookup.needsLimitsOfLimiter() && limits.isEmpty()) {
                throw new IllegalStateException(
                        "limiter " + name + " has no limit for keys whose lookup finds nothing, fails"
                                + " or hangs: expected one, for example .limit(Limit.perMinute(60)), or another setting of "
                                + lookup + ", for example .whenEmpty(Otherwise.deny())");
            }
            RateLimiter limiter = new RateLimiter(this, store);
            Duration longest = limiter.deadline();
            if (lookup != null && !longest.isZero() && lookup.timeout().compareTo(longest) >= 0) {
                limiter.close();
                throw new IllegalStateException("limiter " + name + " has a deadline of " + longest + ", and " + lookup
                        + " may take all of it: expected a lookup that leaves time to decide, for example .timeout(Duration.ofMillis("
                        + Math.max(1, longest.toMillis() / 2) + "))");
            }
            return limiter;
        }
    }
}
