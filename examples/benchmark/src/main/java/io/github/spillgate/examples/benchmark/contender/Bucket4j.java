package io.github.spillgate.examples.benchmark.contender;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConfigurationBuilder;
import io.github.bucket4j.distributed.AsyncBucketProxy;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.AsyncProxyManager;
import io.github.bucket4j.distributed.proxy.optimization.Optimizations;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Bucket4j on Lettuce, asynchronous, on one connection, with the expiration from its documentation.
 *
 * <p>By default, each decision creates a proxy: the documentation calls them cheap, and advises against keeping them.
 * With batching, which merges waiting decisions for the same bucket, proxies must be kept; then there is one for each
 * key.
 */
final class Bucket4j implements Contender {

    private final RedisClient client;
    private final AsyncProxyManager<String> manager;
    private final Supplier<CompletableFuture<BucketConfiguration>> configuration;
    private final Function<String, AsyncBucketProxy> proxies;

    private Bucket4j(Setting setting, Function<Bucket4j, Function<String, AsyncBucketProxy>> proxies) {
        client = RedisClient.create(setting.uri());
        manager = Bucket4jLettuce.casBasedBuilder(
                        client.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE)))
                .expirationAfterWrite(
                        ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10)))
                .build()
                .asAsync();
        CompletableFuture<BucketConfiguration> known = CompletableFuture.completedFuture(configuration(setting));
        configuration = () -> known;
        this.proxies = proxies.apply(this);
    }

    static Bucket4j unbatched(Setting setting) {
        return new Bucket4j(setting, self -> key -> self.manager.getProxy(key, self.configuration));
    }

    static Bucket4j batching(Setting setting) {
        return new Bucket4j(setting, self -> {
            ConcurrentHashMap<String, AsyncBucketProxy> kept = new ConcurrentHashMap<>();
            return key -> {
                AsyncBucketProxy proxy = kept.get(key);
                return proxy != null ? proxy : kept.computeIfAbsent(key, self::batchingProxy);
            };
        });
    }

    private AsyncBucketProxy batchingProxy(String key) {
        return manager.builder().withOptimization(Optimizations.batching()).build(key, configuration);
    }

    static BucketConfiguration configuration(Setting setting) {
        ConfigurationBuilder builder = BucketConfiguration.builder();
        for (Rate rate : setting.rates()) {
            builder.addLimit(limit -> limit.capacity(rate.permits()).refillGreedy(rate.permits(), rate.window()));
        }
        return builder.build();
    }

    @Override
    public void decide(String key, Answer answer) {
        Futures.deliver(ask(key), answer);
    }

    CompletableFuture<Boolean> ask(String key) {
        return proxies.apply(key).tryConsume(1);
    }

    /**
     * Bucket4j sends a GET and then a script by EVAL: one that creates a bucket, with a SET, or one that exchanges its
     * state, with another GET. So the GETs that it sends itself are all GETs except one for each script without a SET.
     */
    @Override
    public CommandCalls.Sum sent(CommandCalls calls) {
        CommandCalls.Sum scripts = calls.scripts();
        return scripts.plus(
                calls.of("get").without(scripts.calls() - calls.of("set").calls()));
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
