package io.github.spillgate.failover;

import io.github.spillgate.Charge;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimitedException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Supplier;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.retry.Retry;

/**
 * Callers with work that holds permits of one concurrency limit, each for a random time: it completes, fails, times
 * out, waits for its permit, or is cancelled before or after it has it. Each caller repeats that, until all runs are
 * made.
 */
final class HolderTraffic implements AutoCloseable {

    static final String LIMITER = "holders";

    static final String KEY = "a";

    private static final Duration SOON = Duration.ofMillis(10);

    private final List<RedisStore> stores = new ArrayList<>();
    private final List<RateLimiter> limiters = new ArrayList<>();
    private final Consumer<Event> events;
    private final AtomicLong ids = new AtomicLong();
    private final AtomicInteger runs = new AtomicInteger();

    /**
     * Work that begins or ends.
     *
     * @param work the number of the work
     * @param permits how many permits it holds; negative if it ends
     * @param nanos the time on the monotonic clock of this machine
     */
    record Event(long work, long permits, long nanos) {

        static Event parse(String line) {
            String[] parts = line.split(" ", -1);
            return new Event(Long.parseLong(parts[0]), Long.parseLong(parts[1]), Long.parseLong(parts[2]));
        }

        @Override
        public String toString() {
            return work + " " + permits + " " + nanos;
        }
    }

    HolderTraffic(RedisURI uri, int instances, Limit limit, Supplier<LimitStore> fallback, Consumer<Event> events) {
        this.events = events;
        for (int i = 0; i < instances; i++) {
            RedisStore store = RedisStore.create(uri);
            stores.add(store);
            limiters.add(RateLimiter.builder(LIMITER)
                    .store(store)
                    .limit(limit)
                    .fallback(fallback.get())
                    .build());
        }
        // Redis may stall now.
        Flux.fromIterable(limiters)
                .flatMap(limiter -> limiter.ready().retryWhen(Retry.fixedDelay(100, SOON)))
                .then()
                .block();
    }

    List<RateLimiter> limiters() {
        return limiters;
    }

    int runs() {
        return runs.get();
    }

    /** Makes these runs by so many callers on each limiter. */
    Mono<Void> run(int callers, int runs, long seed) {
        AtomicInteger left = new AtomicInteger(runs);
        List<Mono<Void>> all = new ArrayList<>();
        for (RateLimiter limiter : limiters) {
            for (int i = 0; i < callers; i++) {
                Random random = new Random(seed + all.size());
                all.add(Mono.defer(() -> one(limiter, random))
                        .repeat(() -> left.decrementAndGet() >= 0)
                        .then());
            }
        }
        return Mono.when(all);
    }

    private Mono<Void> one(RateLimiter limiter, Random random) {
        runs.incrementAndGet();
        long permits = random.nextInt(8) == 0 ? 2 : 1;
        Mono<Void> work = work(permits, random).transform(limiter.limited(Charge.of(KEY, permits)));
        Mono<Void> run = switch (random.nextInt(7)) {
            // Cancelled while the decision is made.
            case 0 -> work.takeUntilOther(Mono.delay(Duration.ofNanos(random.nextInt(3_000_000))));
            case 1 -> work.timeout(Duration.ofMillis(1 + random.nextInt(10)));
            case 2 -> {
                work.subscribe(nothing -> {}, error -> {}).dispose();
                yield Mono.empty();
            }
            case 3 -> waiting(limiter, permits, random);
            default -> work;
        };
        return run.onErrorResume(error -> error instanceof RateLimitedException || error instanceof LimitStoreException
                ? Mono.delay(Duration.ofMillis(1 + random.nextInt(10))).then()
                : isExpected(error) ? Mono.empty() : Mono.error(error));
    }

    /** Waits for its permits, and is not cancelled: nothing releases what a cancelled pipeline drops. */
    private Mono<Void> waiting(RateLimiter limiter, long permits, Random random) {
        Duration longest = Duration.ofMillis(1 + random.nextInt(50));
        return limiter.acquire(List.of(Charge.of(KEY, permits)), longest).flatMap(decision -> {
            if (!decision.isAllowed()) {
                return Mono.error(new RateLimitedException(decision));
            }
            Sinks.Empty<Void> lost = Sinks.empty();
            return Mono.using(
                    () -> limiter.keepHolding(decision, lost::tryEmitError),
                    kept -> Mono.firstWithSignal(lost.asMono(), work(permits, random)),
                    Disposable::dispose);
        });
    }

    private static boolean isExpected(Throwable error) {
        return error instanceof TimeoutException
                || error instanceof HoldExpiredException
                || error instanceof UnsupportedOperationException;
    }

    private Mono<Void> work(long permits, Random random) {
        int millis = random.nextInt(50) == 0 ? 4_000 : random.nextInt(10);
        boolean fails = random.nextInt(5) == 0;
        return Mono.defer(() -> {
            long id = ids.incrementAndGet();
            events.accept(new Event(id, permits, System.nanoTime()));
            Mono<Void> done = Mono.delay(Duration.ofMillis(millis)).then();
            // The end is noted before the permits are released.
            return (fails ? done.then(Mono.<Void>error(new UnsupportedOperationException())) : done)
                    .doOnTerminate(() -> ended(id, permits))
                    .doOnCancel(() -> ended(id, permits));
        });
    }

    private void ended(long id, long permits) {
        events.accept(new Event(id, -permits, System.nanoTime()));
    }

    /** Returns the most permits that were held at once; ends count before beginnings of the same time. */
    static long mostAtOnce(Collection<Event> events) {
        List<Event> sorted = new ArrayList<>(events);
        sorted.sort(Comparator.comparingLong(Event::nanos).thenComparingLong(Event::permits));
        long most = 0;
        long now = 0;
        for (Event event : sorted) {
            now += event.permits();
            most = Math.max(most, now);
        }
        return most;
    }

    /** Waits shortly for what is in flight, and closes all. */
    @Override
    public void close() {
        Flux.fromIterable(limiters)
                .flatMap(RateLimiter::closeLater)
                .then(Mono.delay(SOON))
                .block();
        stores.forEach(RedisStore::close);
    }
}
