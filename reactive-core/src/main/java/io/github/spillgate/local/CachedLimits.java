package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Ticker;
import io.github.spillgate.Limit;
import io.github.spillgate.internal.Checks;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Mono;
import reactor.core.publisher.MonoSink;
import reactor.util.context.Context;

/**
 * A cache of looked-up limits, with an expiry and a bound on its memory.
 *
 * <pre>{@code
 * CachedLimits plans = CachedLimits.of(database::limitsOf, 10_000, Duration.ofMinutes(1));
 * builder.lookup(LimitLookup.of(plans));
 * }</pre>
 *
 * An empty result is cached too; a failure is not. Concurrent callers with the same key share one lookup, which sees
 * the Reactor Context of the first caller. If one of them cancels, the next caller starts a new lookup, in case the
 * first one hangs. If all of them cancel, the lookup is cancelled.
 */
public final class CachedLimits implements Function<String, Mono<Collection<Limit>>> {

    private static final int ORDINARY_LENGTH = 256;

    private final Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf;
    private final Cache<String, CachedLookup> entries;

    private CachedLimits(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration expiry,
            Ticker ticker) {
        Checks.present(limitsOf, "limitsOf", "key -> plans.of(key).map(Plan::limits)");
        Checks.present(expiry, "expiry", "Duration.ofMinutes(1)");
        if (maximumKeys < 1) {
            throw new IllegalArgumentException(
                    "maximumKeys " + maximumKeys + " remembers nothing: expected 1 or more, for example 10_000");
        }
        if (expiry.isNegative() || expiry.isZero()) {
            throw new IllegalArgumentException("expiry " + expiry
                    + " remembers nothing: expected more than zero, for example Duration.ofMinutes(1)");
        }
        this.limitsOf = limitsOf;
        this.entries = Caffeine.newBuilder()
                .maximumWeight(maximumKeys)
                .weigher((String key, CachedLookup entry) -> 1 + key.length() / ORDINARY_LENGTH)
                .expireAfterWrite(expiry)
                .ticker(ticker)
                .executor(Runnable::run)
                .build();
    }

    /**
     * Returns a cache of the results of a function, on the system clock.
     *
     * @param limitsOf the function that looks up the limits of a key; it must not block
     * @param maximumKeys the highest number of cached keys; a key counts once more for each 256 characters that it has
     * @param expiry the time for which a result is cached, from the start of the lookup
     * @return the cache
     * @throws IllegalArgumentException if the number or the expiry is not above zero
     */
    public static CachedLimits of(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration expiry) {
        return new CachedLimits(limitsOf, maximumKeys, expiry, Ticker.systemTicker());
    }

    /**
     * Returns a cache of the results of a function, on the caller's clock.
     *
     * @param limitsOf the function that looks up the limits of a key; it must not block
     * @param maximumKeys the highest number of cached keys; a key counts once more for each 256 characters that it has
     * @param expiry the time for which a result is cached, from the start of the lookup
     * @param clock the clock, read in milliseconds
     * @return the cache
     * @throws IllegalArgumentException if the number or the expiry is not above zero
     */
    public static CachedLimits of(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration expiry,
            InstantSource clock) {
        Checks.present(clock, "clock", "InstantSource.system()");
        return new CachedLimits(limitsOf, maximumKeys, expiry, () -> TimeUnit.MILLISECONDS.toNanos(clock.millis()));
    }

    /**
     * Returns the limits of the key: the cached ones, or else those that are found on subscription.
     *
     * @param key the key
     * @return the limits; an empty collection if the lookup found nothing
     */
    @Override
    public Mono<Collection<Limit>> apply(String key) {
        // The cached Mono itself: a caller that sees a scalar Mono needs no timer.
        CachedLookup known = entries.getIfPresent(key);
        Mono<Collection<Limit>> found = known == null ? null : known.found;
        return found == null
                ? Mono.defer(() -> entries.get(key, CachedLookup::new).answer())
                : found;
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

    /**
     * One lookup of a key, and its subscribers. Their set is guarded by the entry's monitor, and no foreign code is
     * called while it is held.
     */
    private final class CachedLookup {

        private final String key;
        private final Disposable.Swap lookup = Disposables.swap();
        private volatile @Nullable Mono<Collection<Limit>> found;

        private Set<MonoSink<Collection<Limit>>> waiting = new HashSet<>();
        private boolean started;
        private boolean ended;

        CachedLookup(String key) {
            this.key = key;
        }

        Mono<Collection<Limit>> answer() {
            Mono<Collection<Limit>> known = found;
            return known == null ? Mono.create(this::join) : known;
        }

        private void join(MonoSink<Collection<Limit>> sink) {
            boolean tooLate;
            boolean first;
            synchronized (this) {
                tooLate = ended;
                first = !tooLate && !started;
                started = true;
                if (!tooLate) {
                    waiting.add(sink);
                }
            }
            Context context = Context.of(sink.contextView());
            if (tooLate) {
                // The lookup ended in between: its result is cached now, or removed and the next entry has it.
                sink.onDispose(apply(key).subscribe(sink::success, sink::error, sink::success, context));
                return;
            }
            sink.onCancel(() -> leave(sink));
            if (first) {
                start(context);
            }
        }

        private void start(Context context) {
            try {
                lookup.update(Mono.defer(() -> limitsOf.apply(key).map(List::<Limit>copyOf))
                        .defaultIfEmpty(List.of())
                        .subscribe(this::succeed, this::fail, null, context));
            } catch (Throwable e) {
                fail(e);
                throw e;
            }
        }

        private void succeed(Collection<Limit> limits) {
            found = Mono.just(limits);
            end().forEach(sink -> sink.success(limits));
        }

        private void fail(Throwable error) {
            forget();
            end().forEach(sink -> sink.error(error));
        }

        /**
         * Removes a subscriber that has cancelled, and the entry, because its lookup may hang. The other subscribers
         * still get the result.
         */
        private void leave(MonoSink<Collection<Limit>> sink) {
            forget();
            boolean last;
            synchronized (this) {
                waiting.remove(sink);
                last = !ended && waiting.isEmpty();
                ended |= last;
            }
            if (last) {
                lookup.dispose();
            }
        }

        private synchronized Set<MonoSink<Collection<Limit>>> end() {
            ended = true;
            Set<MonoSink<Collection<Limit>>> all = waiting;
            waiting = new HashSet<>();
            return all;
        }

        private void forget() {
            entries.asMap().remove(key, this);
        }
    }
}
