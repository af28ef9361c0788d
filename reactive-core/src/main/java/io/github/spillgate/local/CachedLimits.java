package io.github.spillgate.local;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Ticker;
import io.github.spillgate.Limit;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
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
 * Remembers the limits of keys that have been looked up, for a while and in memory that is bounded.
 *
 * <pre>{@code
 * CachedLimits plans = CachedLimits.of(database::limitsOf, 10_000, Duration.ofMinutes(1));
 * builder.lookup(LimitLookup.of(plans));
 * }</pre>
 *
 * Also that nothing was found is remembered; a failure is not. Who asks for a key that is just being looked up waits for that
 * answer instead of asking again; the lookup sees the Reactor Context of whoever asked first. When somebody gives up waiting, the
 * next to ask starts another lookup, in case that one hangs; when all who wait for it have gone, it is cancelled.
 */
public final class CachedLimits implements Function<String, Mono<Collection<Limit>>> {

    private static final int ORDINARY_LENGTH = 256;

    private final Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf;
    private final Cache<String, Entry> entries;

    private CachedLimits(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration expiry,
            Ticker ticker) {
        Objects.requireNonNull(
                limitsOf, "limitsOf is null: expected one, for example key -> plans.of(key).map(Plan::limits)");
        Objects.requireNonNull(expiry, "expiry is null: expected one, for example Duration.ofMinutes(1)");
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
                .weigher((String key, Entry entry) -> 1 + key.length() / ORDINARY_LENGTH)
                .expireAfterWrite(expiry)
                .ticker(ticker)
                .executor(Runnable::run)
                .build();
    }

    /**
     * Remembers what the function returns, by the system's time.
     *
     * @param limitsOf returns the limits of a key; must not block
     * @param maximumKeys how many keys are remembered; one of more than 256 characters counts for as many as it is longer
     * @param expiry for how long, from when the lookup begins
     * @return a lookup that remembers
     * @throws IllegalArgumentException if the number or the expiry is not above zero
     */
    public static CachedLimits of(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration expiry) {
        return new CachedLimits(limitsOf, maximumKeys, expiry, Ticker.systemTicker());
    }

    /**
     * Remembers what the function returns, by a clock of the caller's.
     *
     * @param limitsOf returns the limits of a key; must not block
     * @param maximumKeys how many keys are remembered; one of more than 256 characters counts for as many as it is longer
     * @param expiry for how long, from when the lookup begins
     * @param clock what tells the time, to the millisecond
     * @return a lookup that remembers
     * @throws IllegalArgumentException if the number or the expiry is not above zero
     */
    public static CachedLimits of(
            Function<? super String, ? extends Mono<? extends Collection<Limit>>> limitsOf,
            int maximumKeys,
            Duration expiry,
            InstantSource clock) {
        Objects.requireNonNull(clock, "clock is null: expected one, for example InstantSource.system()");
        return new CachedLimits(limitsOf, maximumKeys, expiry, () -> TimeUnit.MILLISECONDS.toNanos(clock.millis()));
    }

    /**
     * Returns the limits of the key, as they are remembered now, or else as they are found when somebody subscribes.
     *
     * @param key whose limits
     * @return the limits; none if nothing was found
     */
    @Override
    public Mono<Collection<Limit>> apply(String key) {
        // What is remembered is handed out as it is: who sees that it is at hand needs no timer for it.
        Entry known = entries.getIfPresent(key);
        Mono<Collection<Limit>> found = known == null ? null : known.found;
        return found == null ? Mono.defer(() -> entries.get(key, Entry::new).answer()) : found;
    }

    /**
     * Forgets the key, whose limits have changed; the next who asks looks it up. Who is waiting for an answer still gets it.
     *
     * @param key whose limits are to be looked up anew
     */
    public void forget(String key) {
        entries.invalidate(key);
    }

    /** How many keys are remembered, for tests to look at. */
    long size() {
        entries.cleanUp();
        return entries.estimatedSize();
    }

    /**
     * One lookup of a key and those who wait for it. Their list is guarded by the entry's monitor, under which nothing is called
     * that is not ours.
     */
    private final class Entry {

        private final String key;
        private final Disposable.Swap lookup = Disposables.swap();
        private volatile @Nullable Mono<Collection<Limit>> found;

        private Set<MonoSink<Collection<Limit>>> waiting = new HashSet<>();
        private boolean started;
        private boolean ended;

        Entry(String key) {
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
                // Ended while he came: it is known now, or it is forgotten and the next entry knows.
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

        /** Who has had enough of waiting takes the entry with him, for it may hang; those who stay get its answer. */
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
