package io.github.spillgate;

import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.holding.Settlements;
import io.github.spillgate.spi.LimitStore;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Builder of a {@link RateLimiter}. It needs a {@linkplain #store(LimitStore) store}, and a {@linkplain #limit(Limit)
 * limit} unless all charges have limits of their own, or a {@linkplain #lookup(LimitLookup) lookup} finds them. All
 * other settings have defaults. Not thread-safe.
 */
public final class RateLimiterBuilder {

    private static final int MOST_WAITERS = 1_000_000;

    final String name;
    final List<Limit> limits = new ArrayList<>();
    private @Nullable LimitStore store;
    InstantSource clock = InstantSource.system();

    @Nullable
    LimitLookup lookup;

    int maxPerQueue = 1_000;
    int maxInTotal = 10_000;
    final List<DecisionListener> listeners = new ArrayList<>();
    double debt = 1;
    Duration longestHold = Duration.ofHours(1);

    /** The settings of the resilient store that is put around one without a deadline. */
    private final List<Consumer<ResilientStore.Builder>> protection = new ArrayList<>();

    RateLimiterBuilder(String name) {
        this.name = name;
    }

    /**
     * Sets the store. The limiter does not close it.
     *
     * <p>A store that may stall, such as the Redis store, gets a deadline, a circuit breaker and a fallback; see
     * {@link #deadline(Duration)} and {@link #fallback(LimitStore)}. For more settings, or to share these between
     * limiters, use {@code ResilientStore}.
     *
     * @param store a Redis store, a local store, a resilient store or your own
     * @return this builder
     */
    public RateLimiterBuilder store(LimitStore store) {
        this.store = Checks.present(store, "store", "RedisStore.create(redisClient)");
        return this;
    }

    /**
     * Shares the store of another limiter, and with it the deadline, the circuit breaker and the fallback, which cannot
     * be set here. Close the other limiter after this one.
     *
     * @param other the limiter that has the store
     * @return this builder
     */
    public RateLimiterBuilder storeOf(RateLimiter other) {
        return store(
                Checks.present(other, "other", "the limiter that has the store").deciding());
    }

    /**
     * Sets the store that decides if the main one does not, {@code Fallback.local(100_000)} by default. The
     * limiter does not close it.
     *
     * @param fallback a local store, {@code Fallback.allow()} (fail open), {@code Fallback.deny()} (fail closed),
     *     {@code Fallback.error()}, or a store of your own that never stalls
     * @return this builder
     */
    public RateLimiterBuilder fallback(LimitStore fallback) {
        Checks.present(fallback, "fallback", "Fallback.local(100_000)");
        protection.add(resilient -> resilient.fallback(fallback));
        return this;
    }

    /**
     * Sets the longest time for a decision, 100 ms by default. After that the fallback decides. If the event loop
     * of the request is busy then, the fallback waits until the loop has read the replies of Redis, for half the
     * deadline at most. The deadline begins after a {@linkplain #lookup(LimitLookup) lookup}, which has a timeout
     * of its own, and does not include the time that {@code acquire} waits for permits.
     *
     * @param deadline at least 1 ms, and at most a minute
     * @return this builder
     * @throws IllegalArgumentException if the deadline is out of range
     */
    public RateLimiterBuilder deadline(Duration deadline) {
        Checks.deadline(Checks.present(deadline, "deadline", "Duration.ofMillis(100)"));
        protection.add(resilient -> resilient.deadline(deadline));
        return this;
    }

    /**
     * Sets the longest time for which a denial is cached, 1 second by default. Zero disables the cache.
     *
     * <p>For that time, and at most until the denial's retry time, a request for as many permits or more is denied
     * without asking the store, so a blocked client costs Redis next to nothing. A cached denial may deny a request
     * that the store would allow if permits were refunded, reset or raised in another process, or if the store lost
     * its data or its clock jumped forward; for this time at most. Limits that count denied requests are not
     * cached.
     *
     * @param longest zero or more, and at most a minute
     * @return this builder
     * @throws IllegalArgumentException if the time is out of range
     */
    public RateLimiterBuilder cacheDenials(Duration longest) {
        Checks.cacheDenials(Checks.present(longest, "cacheDenials", "Duration.ofSeconds(1)"));
        protection.add(resilient -> resilient.cacheDenials(longest));
        return this;
    }

    /**
     * Adds a limit. Several limits must all agree, and are charged together or not at all.
     *
     * @param limit the limit
     * @return this builder
     */
    public RateLimiterBuilder limit(Limit limit) {
        limits.add(Checks.present(limit, "limit", "Limit.perMinute(120)"));
        return this;
    }

    /**
     * Looks up the limits of each key instead of applying those of the limiter. Charges with limits of their own
     * are not looked up.
     *
     * @param lookup the lookup
     * @return this builder
     */
    public RateLimiterBuilder lookup(LimitLookup lookup) {
        this.lookup = Checks.present(lookup, "lookup", "LimitLookup.of(key -> plans.of(key).map(Plan::limits))");
        return this;
    }

    /**
     * Bounds the waiters, by default 1,000 for the same charges and 10,000 in all. If the queue is full, a caller
     * is denied at once. A throttled stream takes one place for its current element, and more, if free, for the
     * elements that it has buffered.
     *
     * @param forOneKey the most waiters for the same charges
     * @param inAll the most waiters of this limiter, at least {@code forOneKey} and at most 1,000,000
     * @return this builder
     * @throws IllegalArgumentException if a bound is out of range
     */
    public RateLimiterBuilder waiters(int forOneKey, int inAll) {
        if (forOneKey < 1 || inAll < forOneKey || inAll > MOST_WAITERS) {
            throw new IllegalArgumentException("waiters(" + forOneKey + ", " + inAll
                    + ") are not a bound: expected 1 or more for one key, and in all no fewer, and no more than "
                    + MOST_WAITERS + ", for example .waiters(1_000, 10_000)");
        }
        maxPerQueue = forOneKey;
        maxInTotal = inAll;
        return this;
    }

    /**
     * Adds a listener of the decisions of this limiter, for example {@code DecisionMetrics}. Listeners are called
     * in the order in which they were added.
     *
     * @param listener the listener
     * @return this builder
     */
    public RateLimiterBuilder listener(DecisionListener listener) {
        listeners.add(Checks.present(listener, "listener", "DecisionMetrics.of(registry)"));
        return this;
    }

    /**
     * Bounds the debt that {@link RateLimiter#settle(Decision, long)} may leave, by default one full limit: at most
     * twice the permits of a limit, or twice its burst, can be in use. With 0, a real cost above the reserved one is
     * charged only as far as it fits.
     *
     * @param limits the debt as a multiple of each limit, 0 to 10
     * @return this builder
     * @throws IllegalArgumentException if the debt is out of range
     */
    public RateLimiterBuilder debt(double limits) {
        debt = Settlements.checkDebt(limits);
        return this;
    }

    /**
     * Sets the longest time for which work holds permits of a {@linkplain Limit#concurrent(long) concurrency
     * limit}, 1 hour by default. After that the permits are no longer renewed: they expire within the limit's
     * {@linkplain Limit#hold(Duration) hold time}, and the work is cancelled. So work that hangs does not hold
     * permits for ever.
     *
     * @param longest more than zero, and at most 366 days
     * @return this builder
     * @throws IllegalArgumentException if the time is out of range
     */
    public RateLimiterBuilder longestHold(Duration longest) {
        Duration given = Checks.present(longest, "longestHold", "Duration.ofHours(1)");
        if (given.isNegative() || given.isZero() || given.compareTo(Limit.LONGEST_WINDOW) > 0) {
            throw new IllegalArgumentException("longestHold " + given
                    + " is out of range: expected more than zero and at most " + Limit.LONGEST_WINDOW.toDays()
                    + " days, for example Duration.ofHours(1)");
        }
        longestHold = given;
        return this;
    }

    /** Sets the clock of decisions that are made without a store. */
    RateLimiterBuilder clock(InstantSource clock) {
        this.clock = clock;
        return this;
    }

    /** Returns a resilient store around the store, or null if that has a deadline of its own. */
    @Nullable
    ResilientStore resilient(LimitStore unprotected) {
        Optional<Duration> ownDeadline = unprotected.deadline();
        if (ownDeadline.isEmpty()) {
            ResilientStore.Builder resilient = ResilientStore.builder(unprotected);
            protection.forEach(setting -> setting.accept(resilient));
            return resilient.build();
        }
        if (!ownDeadline.get().isZero() && !protection.isEmpty()) {
            throw new IllegalStateException(
                    "limiter " + name + " has a fallback, a deadline or cached denials, and store " + unprotected
                            + " has its own: expected them in one place, for example in "
                            + "ResilientStore.builder(redisStore)");
        }
        return null;
    }

    /**
     * Returns the limiter. A store that needs a connection starts to connect in the background.
     *
     * @return the limiter
     * @throws IllegalStateException if there is no store; no limit although a lookup may need one; or a fallback, a
     *     deadline or cached denials for a store that has its own
     * @throws IllegalArgumentException if two limits would share a count
     */
    public RateLimiter build() {
        if (store == null) {
            throw new IllegalStateException("limiter " + name + " has no store: expected one, for example"
                    + " .store(RedisStore.create(redisClient))");
        }
        if (lookup != null && lookup.needsLimitsOfLimiter() && limits.isEmpty()) {
            throw new IllegalStateException("limiter " + name + " has no limit for lookups that find nothing, fail"
                    + " or hang: expected one, for example .limit(Limit.perMinute(60)), or another setting of "
                    + lookup + ", for example .whenEmpty(Otherwise.deny())");
        }
        return new RateLimiter(this, store);
    }
}
