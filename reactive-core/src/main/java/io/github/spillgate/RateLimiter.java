package io.github.spillgate;

import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
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
 *       that of the Redis connection.
 *   <li>A denial is a value. An error is a {@link LimitStoreException}, of a store that could not decide.
 *   <li>A wrong argument is an {@link IllegalArgumentException} at once, when the method is called; a missing one is a
 *       {@link NullPointerException}.
 *   <li>Cancelled before its question left for the store, it has charged nothing. Cancelled later, it may have charged.
 * </ul>
 *
 * A limiter is immutable and may be shared by all threads; a service has one for each set of limits, not one for each
 * request.
 */
public final class RateLimiter implements AutoCloseable {

    private static final String CHARGE = "Charge.of(\"user:42\")";

    private final String name;
    private final LimitStore store;
    private final List<Limit> limits;
    private final InstantSource clock;
    private volatile boolean closed;

    private RateLimiter(String name, LimitStore store, List<Limit> limits, InstantSource clock) {
        this.name = name;
        this.store = store;
        this.limits = limits;
        this.clock = clock;
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
        return decide(claims(Charge.of(key)), store::take);
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
        return decide(claims(Charge.of(key).permits(permits)), store::take);
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
        return decide(claims(charges), store::take);
    }

    /**
     * Tells how much the key has used, and whether one more permit would be granted now. Charges nothing, also where denied
     * requests count.
     *
     * @param key who is asked about
     * @return the decision that {@link #tryAcquire(String)} would get
     */
    public Mono<Decision> peek(String key) {
        return decide(claims(Charge.of(key)), store::peek);
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
        return decide(claims(charges), store::peek);
    }

    /**
     * Gives back exactly what this decision took, as far as it is still within its window. A decision is given back once:
     * further calls do nothing, as does the refund of a denial or of a peek. If the outcome of a refund is unknown, it is not
     * tried again, because what is given back twice would be over-admitted.
     *
     * @param decision one of this limiter's
     * @return empty, when it is given back
     * @throws IllegalArgumentException if another store has made the decision
     */
    public Mono<Void> refund(Decision decision) {
        Checks.present(decision, "decision", "the one that tryAcquire gave");
        for (Decision.Usage usage : decision.limits()) {
            if (!usage.claim().isFor(store)) {
                throw new IllegalArgumentException(decision + " was made by another store than that of limiter " + name
                        + ": expected a decision of this limiter, for example the one that its tryAcquire gave");
            }
        }
        return open(() -> decision.redeem() ? store.refund(decision) : Mono.empty());
    }

    /**
     * Gives back so many permits of the key under each of this limiter's limits, the oldest first: taking the newest first
     * would let more through within a window than the limit says. No more is given back than is recorded.
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
        List<Claim> claims = claims(Arrays.asList(Checks.present(charges, "charges", CHARGE)));
        for (Claim claim : claims) {
            if (claim.permits() < 1) {
                throw new IllegalArgumentException(
                        "permits " + claim.permits() + " cannot be given back: expected 1 or more, for example 1");
            }
        }
        return open(() -> store.refund(claims));
    }

    /**
     * Forgets what the key has used under this limiter's limits.
     *
     * @param key who starts anew
     * @return empty, when it is forgotten
     */
    public Mono<Void> reset(String key) {
        return reset(Charge.of(key));
    }

    /**
     * Forgets what the keys of the charges have used under their limits.
     *
     * @param charges at least one; those without limits of their own fall under this limiter's
     * @return empty, when it is forgotten
     */
    public Mono<Void> reset(Charge... charges) {
        List<Claim> claims = claims(Arrays.asList(Checks.present(charges, "charges", CHARGE)));
        return open(() -> store.reset(claims));
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
     * Returns what a charge falls under that has no limits of its own.
     *
     * @return the limits; may be empty
     */
    public List<Limit> limits() {
        return limits;
    }

    /**
     * Ends this limiter: from now on every subscription fails with an {@link IllegalStateException}. The store is not closed,
     * for others may share it, and nor is anything else that was given to the builder.
     */
    @Override
    public void close() {
        closed = true;
    }

    private List<Claim> claims(Charge charge) {
        return Claim.of(store, name, limits, charge);
    }

    private List<Claim> claims(Collection<Charge> charges) {
        return Claim.of(store, name, limits, Checks.allPresent(charges, "charges", CHARGE));
    }

    private Mono<Decision> decide(List<Claim> claims, Function<List<Claim>, Mono<Decision>> how) {
        List<Limit> tooSmall = tooSmall(claims);
        if (tooSmall.isEmpty()) {
            return open(() -> how.apply(claims));
        }
        return open(() -> Mono.just(Decision.neverFits(clock.millis(), tooSmall)));
    }

    private <T> Mono<T> open(Supplier<Mono<T>> answer) {
        return Mono.defer(() -> closed
                ? Mono.error(new IllegalStateException("limiter " + name + " is closed: expected it to be open, for"
                        + " example by closing it only after the last request"))
                : answer.get());
    }

    private static List<Limit> tooSmall(List<Claim> claims) {
        List<Limit> tooSmall = List.of();
        for (Claim claim : claims) {
            if (claim.permits() > claim.limit().permits()) {
                tooSmall = tooSmall.isEmpty() ? new ArrayList<>(claims.size()) : tooSmall;
                tooSmall.add(claim.limit());
            }
        }
        return tooSmall;
    }

    /** Returns the limiter for a log. */
    @Override
    public String toString() {
        return "RateLimiter[" + name + ", limits=" + limits + ", store=" + store + "]";
    }

    /** What a {@link RateLimiter} is made of: a store, and the limits that hold where a charge names none. */
    public static final class Builder {

        private final String name;
        private final List<Limit> limits = new ArrayList<>();
        private @Nullable LimitStore store;
        private InstantSource clock = InstantSource.system();

        private Builder(String name) {
            this.name = name;
        }

        /**
         * Decides with this store. It stays the caller's: the limiter does not close it.
         *
         * @param store a Redis store, a local store or one of the user's own
         * @return this builder
         */
        public Builder store(LimitStore store) {
            this.store = Checks.present(store, "store", "RedisStore.create(redisClient)");
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

        /** For decisions that no store makes, and so have no store's clock. */
        Builder clock(InstantSource clock) {
            this.clock = clock;
            return this;
        }

        /**
         * Makes the limiter.
         *
         * @return a limiter
         * @throws IllegalStateException if no store was given
         * @throws IllegalArgumentException if two of the limits would share a count
         */
        public RateLimiter build() {
            if (store == null) {
                throw new IllegalStateException("limiter " + name + " has no store: expected one, for example"
                        + " .store(RedisStore.create(redisClient))");
            }
            return new RateLimiter(name, store, Charge.distinct(limits), clock);
        }
    }
}
