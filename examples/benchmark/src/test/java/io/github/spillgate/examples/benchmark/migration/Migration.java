package io.github.spillgate.examples.benchmark.migration;

import es.moki.ratelimitj.core.limiter.request.ReactiveRequestRateLimiter;
import es.moki.ratelimitj.core.limiter.request.RequestLimitRule;
import es.moki.ratelimitj.redis.request.RedisRateLimiterFactory;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.AsyncProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.github.resilience4j.ratelimiter.RateLimiterConfig;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import reactor.core.publisher.Mono;

/** The code that docs/migration.md shows, and code with the other limiters that it names. */
final class Migration {

    private Migration() {}

    static Function<String, CompletableFuture<Boolean>> withBucket4j(RedisClient client) {
        AsyncProxyManager<String> buckets = Bucket4jLettuce.casBasedBuilder(
                        client.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE)))
                .expirationAfterWrite(
                        ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10)))
                .build()
                .asAsync();
        BucketConfiguration tenAnHour = BucketConfiguration.builder()
                .addLimit(limit -> limit.capacity(10).refillGreedy(10, Duration.ofHours(1)))
                .build();
        return key -> buckets.getProxy(key, () -> CompletableFuture.completedFuture(tenAnHour))
                .tryConsume(1);
    }

    static Function<String, Mono<Boolean>> withRateLimitJ(RedisClient client) {
        ReactiveRequestRateLimiter limiter = new RedisRateLimiterFactory(client)
                .getInstanceReactive(
                        Set.of(RequestLimitRule.of(Duration.ofHours(1), 10).withPrecision(Duration.ofMinutes(1))));
        return key -> limiter.overLimitWhenIncrementedReactive(key).map(over -> !over);
    }

    static BooleanSupplier withResilience4j() {
        var tenAnHour = io.github.resilience4j.ratelimiter.RateLimiter.of(
                "api",
                RateLimiterConfig.custom()
                        .limitForPeriod(10)
                        .limitRefreshPeriod(Duration.ofHours(1))
                        .timeoutDuration(Duration.ZERO)
                        .build());
        return tenAnHour::acquirePermission;
    }

    static RateLimiter withSpillgate(RedisClient client) {
        return RateLimiter.builder("api")
                .store(RedisStore.create(client))
                .limit(Limit.of(10, Duration.ofHours(1)))
                .build();
    }

    static Function<String, Mono<Boolean>> asked(RateLimiter limiter) {
        return key -> limiter.tryAcquire(key).map(Decision::isAllowed);
    }

    /** The old limiter decides. The new one decides too, and the results are compared. */
    static Mono<Boolean> both(
            Mono<Boolean> old, RateLimiter limiter, String key, BiConsumer<Boolean, Decision> compare) {
        return old.flatMap(allowed -> limiter.tryAcquire(key)
                .doOnNext(decision -> compare.accept(allowed, decision))
                .thenReturn(allowed)
                .onErrorReturn(allowed));
    }
}
