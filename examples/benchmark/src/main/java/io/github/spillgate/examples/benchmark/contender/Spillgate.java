package io.github.spillgate.examples.benchmark.contender;

import io.github.spillgate.AsyncCloseable;
import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/**
 * Our limiter as users configure it: with the default deadline, circuit breaker and local fallback of a limiter on
 * Redis; on PostgreSQL with a longer deadline.
 *
 * <p>The fallback would improve our results exactly when the server is too slow. So its decisions are counted
 * separately, and not as decisions.
 */
final class Spillgate implements Contender {

    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    /** Enough groups to keep three primaries busy, and few enough that many decisions share a group. */
    private static final int GROUPS = 12;

    private final RateLimiter limiter;
    private final BiFunction<RateLimiter, String, Mono<Decision>> ask;
    private final Source place;
    private final Runnable close;
    private final BiConsumer<Decision, Answer> how = this::deliver;

    private Spillgate(
            Setting setting,
            Function<Rate, Limit> algorithm,
            BiFunction<RateLimiter, String, Mono<Decision>> ask,
            LimitStore store,
            Source place,
            Runnable close) {
        RateLimiterBuilder builder = RateLimiter.builder("benchmark").store(store);
        setting.rates().forEach(rate -> builder.limit(algorithm.apply(rate)));
        if (place == Source.POSTGRES) {
            // Peers wait as long: with 256 in flight, most of their decisions take more than the default of 100 ms.
            builder.deadline(TIMEOUT);
        }
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

    /** Groups keys into a few hash slots, one for each group. */
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

    private static Spillgate inRedis(
            Setting setting,
            Function<Rate, Limit> algorithm,
            BiFunction<RateLimiter, String, Mono<Decision>> ask,
            AbstractRedisClient client,
            RedisStore store) {
        // Connect first, so that the fallback does not make the first decisions.
        store.prepare("").block(TIMEOUT);
        // Closing the client also closes the connection of the store.
        return new Spillgate(setting, algorithm, ask, store, Source.REDIS, client::shutdown);
    }

    /** With the address of Redis, so that event loops of callers have connections. */
    static Spillgate atAddress(Setting setting, Function<Rate, Limit> algorithm) {
        return prepared(setting, algorithm, RedisStore.create(RedisStore.uri(setting.uri())), Source.REDIS);
    }

    static Spillgate inPostgres(Setting setting, Function<Rate, Limit> algorithm) {
        PostgresStore store = PostgresStore.builder(setting.r2dbcUri()).build();
        return prepared(setting, algorithm, store, Source.POSTGRES);
    }

    private static <S extends LimitStore & AsyncCloseable> Spillgate prepared(
            Setting setting, Function<Rate, Limit> algorithm, S store, Source place) {
        store.prepare("").block(TIMEOUT);
        return new Spillgate(
                setting,
                algorithm,
                RateLimiter::tryAcquire,
                store,
                place,
                () -> store.closeLater().block(TIMEOUT));
    }

    static Spillgate local(Setting setting, Function<Rate, Limit> algorithm) {
        return new Spillgate(
                setting, algorithm, RateLimiter::tryAcquire, LocalStore.bounded(100_000), Source.LOCAL, () -> {});
    }

    /**
     * If the fallback has decided in an earlier turn, waits until the server decides again and all permits are
     * reconciled, so that one turn does not affect the next.
     */
    @Override
    public void prepare(List<String> keys) {
        long giveUp = System.nanoTime() + TIMEOUT.toNanos();
        while (!isItself(limiter.state()) && System.nanoTime() < giveUp) {
            // Send a decision, because the breaker probes the server only with one.
            limiter.tryAcquire("ready").delayElement(Duration.ofMillis(10)).block(TIMEOUT);
        }
    }

    private boolean isItself(StoreState state) {
        return state.source() == place && state.toReconcile() == 0;
    }

    @Override
    public void decide(String key, Answer answer) {
        AnswerSubscriber.of(ask.apply(limiter, key), answer, how);
    }

    private void deliver(Decision decision, Answer receiver) {
        Source source = decision.source();
        if (source != place && (source == Source.LOCAL || source == Source.FALLBACK)) {
            receiver.fellBack();
        } else {
            receiver.decided(decision.isAllowed());
        }
    }

    @Override
    public void close() {
        limiter.closeLater().block(TIMEOUT);
        close.run();
    }
}
