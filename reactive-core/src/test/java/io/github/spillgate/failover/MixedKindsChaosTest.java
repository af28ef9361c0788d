package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.HolderTraffic.Event;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.async.RedisAsyncCommands;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.util.retry.Retry;

/**
 * All kinds of limits in common verdicts of two limiters on one Redis, with refunds and settled costs, while Redis
 * stalls, pauses, and closes its connections. Only Redis grants, so no limit is ever exceeded.
 */
class MixedKindsChaosTest {

    private static final int WINDOW = 1_000;
    private static final Limit LOG = Limit.of(20, Duration.ofMillis(WINDOW)).named("log");
    private static final Limit COUNTER =
            Limit.of(20, Duration.ofMillis(WINDOW)).counter().named("counter");
    private static final Limit BUCKET =
            Limit.of(12, Duration.ofMillis(WINDOW)).burst(15).named("bucket");
    private static final Limit HOLDS =
            Limit.concurrent(3).hold(Duration.ofSeconds(1)).named("holds");
    private static final List<Limit> ALL = List.of(LOG, COUNTER, BUCKET, HOLDS);
    private static final List<String> KEYS = List.of("a", "b");
    private static final int CALLERS = 6;

    /** How much later a refund or a settlement may take effect, in milliseconds. */
    private static final int DELAY = 3_000;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<RedisStore> stores = List.of(RedisStore.create(redis.uri()), RedisStore.create(redis.uri()));
    private final List<RateLimiter> limiters = stores.stream()
            .map(store -> RateLimiter.builder("mixed")
                    .store(store)
                    .deadline(Duration.ofMillis(300))
                    .fallback(Fallback.error())
                    .build())
            .toList();
    private final AtomicLong ids = new AtomicLong();
    private final Queue<Grant> grants = new ConcurrentLinkedQueue<>();
    private final Queue<Reduction> reductions = new ConcurrentLinkedQueue<>();
    private final Map<String, Queue<Event>> works = new ConcurrentHashMap<>();

    /** Permits of one limit that were granted. */
    private record Grant(long id, String key, Limit limit, long at, long cost) {}

    /** Permits of a grant that are refunded at this time or later. */
    private record Reduction(long grant, String key, Limit limit, long since, long permits) {}

    @AfterEach
    void close() {
        redis.resume();
        limiters.forEach(RateLimiter::close);
        stores.forEach(RedisStore::close);
        redis.close();
    }

    @Test
    void noLimitIsExceeded() {
        attack(Duration.ofSeconds(6), 1);
    }

    @Test
    @Proof
    void noLimitIsExceededForLong() {
        attack(Duration.ofMinutes(3), 2);
    }

    private void attack(Duration time, long seed) {
        Flux.fromIterable(limiters)
                .flatMap(limiter -> limiter.ready().retryWhen(Retry.fixedDelay(100, Duration.ofMillis(10))))
                .blockLast();
        RedisClient client = RedisClient.create(redis.uri());
        Disposable faults = faults(client.connect().async(), new Random(seed));
        try {
            List<Mono<Void>> callers = IntStream.range(0, CALLERS * limiters.size())
                    .mapToObj(i -> {
                        Random random = new Random(seed + i);
                        RateLimiter limiter = limiters.get(i % limiters.size());
                        return Mono.defer(() -> one(limiter, random))
                                .repeat()
                                .take(time)
                                .then();
                    })
                    .toList();
            Mono.when(callers).block(time.plusSeconds(60));
        } finally {
            faults.dispose();
            redis.resume();
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
        for (String key : KEYS) {
            List<Grant> log = grantsOf(key, LOG);
            List<Grant> bucket = grantsOf(key, BUCKET);
            assertThat(log).hasSizeGreaterThan(10);
            assertThat(bucket).hasSizeGreaterThan(10);
            assertThat(mostInWindow(log)).isLessThanOrEqualTo(LOG.permits());
            assertThat(mostInWindow(grantsOf(key, COUNTER))).isLessThan(2 * COUNTER.permits());
            assertThat(mostAboveRate(key, bucket)).isLessThanOrEqualTo((double) BUCKET.capacity());
            assertThat(HolderTraffic.mostAtOnce(works.get(key))).isBetween(1L, HOLDS.permits());
        }
    }

    private Disposable faults(RedisAsyncCommands<String, String> commands, Random random) {
        return Flux.defer(() -> Mono.delay(Duration.ofMillis(50 + random.nextInt(600)))
                        .flatMap(tick -> switch (random.nextInt(5)) {
                            case 0 -> {
                                Future<?> unused = commands.clientKill(
                                        KillArgs.Builder.typeNormal().skipme());
                                yield Mono.empty();
                            }
                            case 1, 2 -> {
                                Future<?> unused = commands.clientPause(random.nextInt(250));
                                yield Mono.empty();
                            }
                            default -> {
                                redis.pause();
                                yield Mono.delay(Duration.ofMillis(random.nextInt(400)))
                                        .doOnNext(end -> redis.resume());
                            }
                        }))
                .repeat()
                .doOnCancel(redis::resume)
                .subscribe();
    }

    private Mono<Void> one(RateLimiter limiter, Random random) {
        String key = KEYS.get(random.nextInt(KEYS.size()));
        long cost = random.nextInt(30) == 0 ? 16 : 1 + random.nextInt(4);
        List<Limit> limits =
                ALL.stream().filter(limit -> random.nextInt(2) == 0).toList();
        if (limits.isEmpty()) {
            return Mono.empty();
        }
        IntSupplier nextPause = () -> random.nextInt(20);
        Charge charge = Charge.of(key, limits).permits(cost);
        Mono<Decision> decision = random.nextInt(4) == 0
                ? limiter.acquire(List.of(charge), Duration.ofMillis(random.nextInt(300)))
                : limiter.tryAcquire(charge);
        return decision.flatMap(made -> {
                    if (!made.isAllowed()) {
                        return Mono.delay(Duration.ofMillis(nextPause.getAsInt()))
                                .then();
                    }
                    long id = ids.incrementAndGet();
                    for (Decision.Usage usage : made.limits()) {
                        grants.add(new Grant(id, key, usage.limit(), made.at().toEpochMilli(), cost));
                    }
                    return limits.contains(HOLDS)
                            ? hold(limiter, made, id, key, cost, random)
                            : change(limiter, made, id, key, random);
                })
                .onErrorResume(
                        LimitStoreException.class,
                        error -> Mono.delay(Duration.ofMillis(10)).then());
    }

    private Mono<Void> hold(RateLimiter limiter, Decision made, long id, String key, long cost, Random random) {
        Queue<Event> held = works.computeIfAbsent(key, any -> new ConcurrentLinkedQueue<>());
        Sinks.Empty<Void> lost = Sinks.empty();
        Duration time = Duration.ofMillis(random.nextInt(20) == 0 ? 2_500 : random.nextInt(40));
        Mono<Void> work = Mono.defer(() -> {
            held.add(new Event(id, cost, System.nanoTime()));
            // The end is noted before the permits are released.
            Runnable end = () -> held.add(new Event(id, -cost, System.nanoTime()));
            return Mono.delay(time).then().doOnTerminate(end).doOnCancel(end);
        });
        return Mono.using(
                () -> limiter.keepHolding(made, expired -> lost.tryEmitEmpty()),
                kept -> Mono.firstWithSignal(lost.asMono(), work),
                Disposable::dispose);
    }

    private Mono<Void> change(RateLimiter limiter, Decision made, long id, String key, Random random) {
        long now = System.currentTimeMillis();
        return switch (random.nextInt(40)) {
            case 0 -> {
                made.limits()
                        .forEach(usage -> reductions.add(new Reduction(id, key, usage.limit(), now, usage.cost())));
                yield limiter.refund(made);
            }
            case 1 -> {
                made.limits()
                        .forEach(usage -> reductions.add(new Reduction(id, key, usage.limit(), now, usage.cost() - 1)));
                yield limiter.settle(made, 1);
            }
            case 2 -> limiter.settle(made, 6);
            default -> Mono.empty();
        };
    }

    private List<Grant> grantsOf(String key, Limit limit) {
        return grants.stream()
                .filter(grant -> grant.key.equals(key) && grant.limit.equals(limit))
                .sorted(Comparator.comparingLong(Grant::at))
                .toList();
    }

    /** Returns the most permits in a window, without those that may have been refunded before its last grant. */
    private long mostInWindow(List<Grant> sorted) {
        long most = 0;
        for (int last = 0; last < sorted.size(); last++) {
            long at = sorted.get(last).at;
            long sum = 0;
            for (Grant grant : sorted) {
                if (grant.at > at - WINDOW && grant.at <= at) {
                    sum += grant.cost - refunded(grant, at);
                }
            }
            most = Math.max(most, sum);
        }
        return most;
    }

    private long refunded(Grant grant, long until) {
        return reductions.stream()
                .filter(one -> one.grant == grant.id && one.limit.equals(grant.limit) && one.since <= until)
                .mapToLong(Reduction::permits)
                .sum();
    }

    /** Returns by how much the permits of any time exceeded those that returned, or may have been refunded, in it. */
    private double mostAboveRate(String key, List<Grant> sorted) {
        double most = 0;
        for (int first = 0; first < sorted.size(); first++) {
            long sum = 0;
            for (int last = first; last < sorted.size(); last++) {
                long from = sorted.get(first).at;
                long to = sorted.get(last).at;
                sum += sorted.get(last).cost;
                long refunded = reductions.stream()
                        .filter(one -> one.key.equals(key)
                                && one.limit.equals(BUCKET)
                                && one.since <= to
                                && one.since >= from - DELAY)
                        .mapToLong(Reduction::permits)
                        .sum();
                most = Math.max(most, sum - refunded - (double) (to - from) * BUCKET.permits() / WINDOW);
            }
        }
        return most;
    }
}
