package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStore;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Function;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;

/**
 * Ours, as users hold it: with the deadline, the circuit breaker and the local fallback that a limiter on Redis has by
 * itself.
 *
 * <p>The fallback would make us look good exactly when Redis is too slow; so what it decides is told apart, and does
 * not count as a decision.
 */
final class Spillgate implements Contender {

    private static final Duration PATIENCE = Duration.ofSeconds(10);

    /** So many keep three primaries busy, and few enough that many decisions are about the same one. */
    private static final int GROUPS = 12;

    private final RateLimiter limiter;
    private final BiFunction<RateLimiter, String, Mono<Decision>> ask;
    private final Source place;
    private final Runnable close;
    private final BiConsumer<Decision, Answer> how = this::tell;

    private Spillgate(
            Setting setting,
            Function<Rate, Limit> algorithm,
            BiFunction<RateLimiter, String, Mono<Decision>> ask,
            LimitStore store,
            Source place,
            Runnable close) {
        RateLimiter.Builder builder = RateLimiter.builder("benchmark").store(store);
        setting.rates().forEach(rate -> builder.limit(algorithm.apply(rate)));
        this.limiter = builder.build();
        this.ask = ask;
        this.place = place;
        this.close = close;
    }

    static Spillgate inRedis(Setting setting, Function<Rate, Limit> algorithm) {
        RedisClient client = RedisClient.create(setting.uri());
        return inRedis(setting, algorithm, RateLimiter::tryAcquire, client, RedisStore.create(client));
    }

    static Spillgate inCluster(Setting setting, Function<Rate, Limit> algorithm) {
        return inCluster(setting, algorithm, RateLimiter::tryAcquire);
    }

    /** With keys in a few slots, each of them in that of its group. */
    static Spillgate groupedInCluster(Setting setting, Function<Rate, Limit> algorithm) {
        return inCluster(
                setting,
                algorithm,
                (limiter, key) ->
                        limiter.tryAcquire(Charge.of(key).group("group-" + Math.floorMod(key.hashCode(), GROUPS))));
    }

    private static Spillgate inCluster(
            Setting setting, Function<Rate, Limit> algorithm, BiFunction<RateLimiter, String, Mono<Decision>> ask) {
        RedisClusterClient client = RedisClusterClient.create(setting.uri());
        return inRedis(setting, algorithm, ask, client, RedisStore.create(client));
    }

    static Spillgate inRedis(Setting setting, Function<Rate, Limit> algorithm, Scheduler deliverOn) {
        RedisClient client = RedisClient.create(setting.uri());
        return inRedis(
                setting,
                algorithm,
                RateLimiter::tryAcquire,
                client,
                RedisStore.builder(client).deliverOn(deliverOn).build());
    }

    private static Spillgate inRedis(
            Setting setting,
            Function<Rate, Limit> algorithm,
            BiFunction<RateLimiter, String, Mono<Decision>> ask,
            AbstractRedisClient client,
            RedisStore store) {
        // So that no first decision is made by the fallback because the connection was not there yet.
        store.prepare().block(PATIENCE);
        // The client's end is that of the store's connection too.
        return new Spillgate(setting, algorithm, ask, store, Source.REDIS, client::shutdown);
    }

    static Spillgate local(Setting setting, Function<Rate, Limit> algorithm) {
        return new Spillgate(
                setting, algorithm, RateLimiter::tryAcquire, LocalStore.bounded(100_000), Source.LOCAL, () -> {});
    }

    /**
     * If the fallback has decided in an earlier turn, waits until it does no more, and until what it has granted is
     * settled: that is told of the turn in which it happened, and is not to be found in the next one.
     */
    @Override
    public void prepare(List<String> keys) {
        long giveUp = System.nanoTime() + PATIENCE.toNanos();
        while (!isItself(limiter.state()) && System.nanoTime() < giveUp) {
            // Somebody has to ask, or the breaker tries nothing.
            limiter.tryAcquire("anybody").delayElement(Duration.ofMillis(10)).block(PATIENCE);
        }
    }

    private boolean isItself(StoreState state) {
        return state.source() == place && state.toReconcile() == 0;
    }

    @Override
    public void decide(String key, Answer answer) {
        OneAnswer.of(ask.apply(limiter, key), answer, how);
    }

    private void tell(Decision decision, Answer told) {
        Source source = decision.source();
        if (source != place && (source == Source.LOCAL || source == Source.FALLBACK)) {
            told.fellBack();
        } else {
            told.decided(decision.isAllowed());
        }
    }

    @Override
    public void close() {
        limiter.closeLater().block(PATIENCE);
        close.run();
    }
}
