package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import com.github.benmanes.caffeine.cache.Ticker;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookupException;
import io.github.spillgate.internal.Checks;
import io.github.spillgate.internal.LookupTimeout;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Fuseable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * A bounded cache of looked-up limits.
 *
 * <pre>{@code
 * CachedLimits plans = CachedLimits.of(database::limitsOf, 10_000, Duration.ofMinutes(1));
 * builder.lookup(LimitLookup.of(plans));
 * }</pre>
 *
 * <p><b>Lookups.</b> Concurrent callers with the same key share one lookup, which sees the Reactor Context of the first
 * caller. A lookup continues when all of its callers have cancelled, for example at their timeout, so its result is
 * there for the next caller. It is cancelled at its own {@linkplain Builder#lookupTimeout(Duration) timeout}.
 *
 * <p><b>Results.</b> A result is {@linkplain Builder#freshFor(Duration) fresh} for a time. After that the next caller
 * starts another lookup, and all callers get the {@linkplain Builder#staleFor(Duration) stale} result until that lookup
 * succeeds. An empty result is cached like any other.
 *
 * <p><b>Failures.</b> After a failure, a key is not looked up again for a second. Callers get the stale result if there
 * is one, or else the error.
 *
 * <p>There is nothing to close: no lookup takes longer than its timeout. A lookup must not ask the cache for its own
 * key: it would wait for itself.
 */
public final class CachedLimits implements Function<String, Mono<Collection<Limit>>> {
    // Design notes.
    //
    // The timeout of callers may be shorter than a lookup. If they cancelled it, the cache would never fill. So lookups
    // are bounded here, in time and in number.
    //
    // The entry of a key is immutable. A caller that finds it due replaces it, and only if that succeeds starts a
    // lookup; so there is one at a time. The lookup replaces this entry in turn, unless the key was forgotten in
    // between. An entry with an error ends when the key may be looked up again.

    private static final int ORDINARY_LENGTH = 256;
    private static final Duration RETRY_PAUSE = Duration.ofSeconds(1);
    private static final long NEVER = Long.MAX_VALUE / 2; // half of it can be added to any time

    private final Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf;
    private final long freshNanos;
    private final long staleNanos;
    private final Duration lookupTimeout;
    private final int maxInFlight;
    private final Semaphore places;
    private final Ticker ticker;
    private final Cache<String, CachedAnswer> entries;

    private CachedLimits(Builder builder) {
        this.limitsOf = builder.limitsOf;
        this.freshNanos = nanos(builder.freshFor);
        this.staleNanos = nanos(builder.staleFor);
        this.lookupTimeout = builder.lookupTimeout;
        this.maxInFlight = builder.maxInFlight;
        this.places = new Semaphore(maxInFlight);
        this.ticker = builder.ticker;
        this.entries = Caffeine.newBuilder()
                .maximumWeight(builder.maximumKeys)
                // The number of lookups in flight has a bound of its own, and their callers must find them.
                .weigher((String key, CachedAnswer entry) -> entry.isInFlight ? 0 : 1 + key.length() / ORDINARY_LENGTH)
                .expireAfter(Expiry.writing((String key, CachedAnswer entry) -> entry.rest(builder.ticker.read())))
                .ticker(builder.ticker)
                .executor(Runnable::run)
                .build();
    }

    private static long nanos(Duration duration) {
        return duration.compareTo(Duration.ofNanos(NEVER / 2)) < 0 ? duration.toNanos() : NEVER / 2;
    }

    /**
     * Returns a cache of the results of a function, with defaults for all other settings.
     *
     * @param limitsOf the function that looks up the limits of a key; it must not block
     * @param maximumKeys the highest number of cached keys; a key counts once more for each 256 characters that it has
     * @param freshFor the time for which a result is fresh
     * @return the cache
     * @throws IllegalArgumentException if the number or the time is not above zero
     */
    public static CachedLimits of(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration freshFor) {
        return builder(limitsOf).maximumKeys(maximumKeys).freshFor(freshFor).build();
    }

    /**
     * Returns a builder of a cache of the results of a function.
     *
     * @param limitsOf the function that looks up the limits of a key; it must not block
     * @return the builder
     */
    public static Builder builder(Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf) {
        return new Builder(Checks.present(limitsOf, "limitsOf", "key -> plans.of(key).map(Plan::limits)"));
    }

    /**
     * Returns the limits of the key: the cached ones, or else those that are found on subscription.
     *
     * @param key the key
     * @return the limits; an empty collection if the lookup found nothing; an error if the lookup failed, or if too
     *     many others are in flight
     */
    @Override
    public Mono<Collection<Limit>> apply(String key) {
        CachedAnswer known = entries.getIfPresent(key);
        // The cached Mono itself: a caller that sees a scalar Mono needs no timer.
        return known != null && known.answer instanceof Fuseable.ScalarCallable && !known.isDue(ticker.read())
                ? known.answer
                : Mono.deferContextual(context -> answer(key, context));
    }

    /**
     * Removes a key from the cache because its limits have changed; the next caller looks it up. Callers that are
     * waiting for a lookup of the key still get its result.
     *
     * @param key the key
     */
    public void forget(String key) {
        entries.invalidate(key);
    }

    /** Returns how many keys are cached, for tests. */
    long size() {
        entries.cleanUp();
        return entries.estimatedSize();
    }

    private Mono<Collection<Limit>> answer(String key, ContextView context) {
        while (true) {
            CachedAnswer known = entries.getIfPresent(key);
            if (known != null && !known.isDue(ticker.read())) {
                return known.answer;
            }
            if (!places.tryAcquire()) {
                return known == null ? Mono.error(this::tooMany) : known.answer;
            }
            Lookup lookup = new Lookup(key, known);
            if (lookup.enter()) {
                lookup.start(context);
                CachedAnswer latest = entries.getIfPresent(key);
                return latest == null ? lookup.entry.answer : latest.answer;
            }
            places.release();
        }
    }

    private LimitLookupException tooMany() {
        return new LimitLookupException(
                maxInFlight
                        + " lookups of limits are in flight: expected faster lookups, or a higher bound, for example"
                        + " .maxInFlight(" + 2L * maxInFlight + ")",
                null);
    }

    private LimitLookupException late() {
        return new LimitLookupException(
                "a lookup of limits took more than " + lookupTimeout + ": expected a result, or a longer timeout, for"
                        + " example .lookupTimeout(Duration.ofSeconds(30))",
                null);
    }

    /**
     * What is known of a key.
     *
     * @param answer the limits or the error, which is a scalar; or what a first lookup will emit
     * @param due when the next caller starts a lookup
     * @param end when the answer may no longer be used
     * @param isInFlight whether a lookup is in flight
     */
    private record CachedAnswer(Mono<Collection<Limit>> answer, long due, long end, boolean isInFlight) {

        boolean isDue(long now) {
            return now - due >= 0;
        }

        Duration rest(long now) {
            return Duration.ofNanos(Math.max(0, end - now));
        }
    }

    /** A lookup in flight, which ends once. */
    private final class Lookup {

        private final String key;
        private final @Nullable CachedAnswer stale;
        private final Sinks.One<Collection<Limit>> result = Sinks.one();
        private final CachedAnswer entry;
        private final AtomicBoolean hasEnded = new AtomicBoolean();

        Lookup(String key, @Nullable CachedAnswer stale) {
            this.key = key;
            this.stale = stale;
            long never = ticker.read() + NEVER;
            this.entry = stale == null
                    ? new CachedAnswer(result.asMono(), never, never, true)
                    : new CachedAnswer(stale.answer, never, stale.end, true);
        }

        /** Returns whether this is the lookup of the key; if not, another caller was faster. */
        boolean enter() {
            return stale == null
                    ? entries.asMap().putIfAbsent(key, entry) == null
                    : entries.asMap().replace(key, stale, entry);
        }

        void start(ContextView context) {
            try {
                Mono<List<Limit>> found = Mono.defer(() -> limitsOf.apply(key).map(List::<Limit>copyOf))
                        .defaultIfEmpty(List.of());
                LookupTimeout.apply(found, lookupTimeout, Mono.error(CachedLimits.this::late))
                        .subscribe(this::succeed, this::fail, null, Context.of(context));
            } catch (Throwable e) {
                fail(e);
                throw e;
            }
        }

        private void succeed(List<Limit> limits) {
            if (end()) {
                long due = ticker.read() + freshNanos;
                entries.asMap().replace(key, entry, new CachedAnswer(Mono.just(limits), due, due + staleNanos, false));
                result.tryEmitValue(limits);
            }
        }

        private void fail(Throwable error) {
            if (end()) {
                long retry = ticker.read() + RETRY_PAUSE.toNanos();
                CachedAnswer next = stale == null
                        ? new CachedAnswer(Mono.error(error), retry, retry, false)
                        : new CachedAnswer(stale.answer, retry, stale.end, false);
                entries.asMap().replace(key, entry, next);
                result.tryEmitError(error);
            }
        }

        private boolean end() {
            boolean isFirst = hasEnded.compareAndSet(false, true);
            if (isFirst) {
                places.release();
            }
            return isFirst;
        }
    }

    /** Builder of a {@link CachedLimits}. Not thread-safe. */
    public static final class Builder {

        private final Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf;
        private int maximumKeys = 10_000;
        private Duration freshFor = Duration.ofMinutes(1);
        private Duration staleFor = Duration.ofMinutes(10);
        private Duration lookupTimeout = Duration.ofSeconds(5);
        private int maxInFlight = 1_000;
        private Ticker ticker = Ticker.systemTicker();

        private Builder(Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf) {
            this.limitsOf = limitsOf;
        }

        /**
         * Bounds the number of cached keys, 10,000 by default. A key counts once more for each 256 characters that it
         * has.
         *
         * @param maximumKeys above zero
         * @return this builder
         * @throws IllegalArgumentException if it is not above zero
         */
        public Builder maximumKeys(int maximumKeys) {
            if (maximumKeys < 1) {
                throw new IllegalArgumentException(
                        "maximumKeys " + maximumKeys + " caches nothing: expected 1 or more, for example 10_000");
            }
            this.maximumKeys = maximumKeys;
            return this;
        }

        /**
         * Sets the time for which a result is fresh, 1 minute by default. After that the next caller starts another
         * lookup.
         *
         * @param freshFor more than zero
         * @return this builder
         * @throws IllegalArgumentException if it is zero or less
         */
        public Builder freshFor(Duration freshFor) {
            Checks.present(freshFor, "freshFor", "Duration.ofMinutes(1)");
            if (freshFor.isNegative() || freshFor.isZero()) {
                throw new IllegalArgumentException("freshFor " + freshFor
                        + " caches nothing: expected more than zero, for example Duration.ofMinutes(1)");
            }
            this.freshFor = freshFor;
            return this;
        }

        /**
         * Sets for how long a result that is no longer fresh is still used, 10 minutes by default: while another lookup
         * is in flight, and if it fails. With zero, callers wait for that lookup.
         *
         * @param staleFor zero or more
         * @return this builder
         * @throws IllegalArgumentException if it is negative
         */
        public Builder staleFor(Duration staleFor) {
            if (Checks.present(staleFor, "staleFor", "Duration.ofMinutes(10)").isNegative()) {
                throw new IllegalArgumentException("staleFor " + staleFor
                        + " is negative: expected zero or more, for example Duration.ofMinutes(10)");
            }
            this.staleFor = staleFor;
            return this;
        }

        /**
         * Sets the timeout of a lookup, 5 seconds by default. After that it is cancelled, and has failed. The timeout
         * of callers, for example of a {@link io.github.spillgate.LimitLookup} or a rule, may be much shorter.
         *
         * @param lookupTimeout more than zero
         * @return this builder
         * @throws IllegalArgumentException if it is zero or less
         */
        public Builder lookupTimeout(Duration lookupTimeout) {
            Checks.present(lookupTimeout, "lookupTimeout", "Duration.ofSeconds(5)");
            if (lookupTimeout.isNegative() || lookupTimeout.isZero()) {
                throw new IllegalArgumentException("lookupTimeout " + lookupTimeout
                        + " leaves no time: expected more than zero, for example Duration.ofSeconds(5)");
            }
            this.lookupTimeout = lookupTimeout;
            return this;
        }

        /**
         * Bounds the number of lookups in flight, 1,000 by default. Above that, a key is not looked up: callers get its
         * stale result, or a {@link LimitLookupException}.
         *
         * @param maxInFlight above zero
         * @return this builder
         * @throws IllegalArgumentException if it is not above zero
         */
        public Builder maxInFlight(int maxInFlight) {
            if (maxInFlight < 1) {
                throw new IllegalArgumentException(
                        "maxInFlight " + maxInFlight + " allows no lookup: expected 1 or more, for example 1_000");
            }
            this.maxInFlight = maxInFlight;
            return this;
        }

        /**
         * Sets the clock of {@link #freshFor} and {@link #staleFor}, by default that of the system.
         *
         * @param clock the clock, read in milliseconds
         * @return this builder
         */
        public Builder clock(InstantSource clock) {
            Checks.present(clock, "clock", "InstantSource.system()");
            this.ticker = () -> TimeUnit.MILLISECONDS.toNanos(clock.millis());
            return this;
        }

        /**
         * Returns the cache.
         *
         * @return an empty cache
         */
        public CachedLimits build() {
            return new CachedLimits(this);
        }
    }
}
