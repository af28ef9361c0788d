package io.github.spillgate.examples.benchmark.contender;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The RRateLimiter of Redisson through its asynchronous API, on a single server with default settings: a pool of up to
 * 64 connections, and scripts by EVALSHA. The rate of a key is set once before, not with each decision.
 */
final class RedissonLimiter implements Contender {

    private static final long PATIENCE_SECONDS = 30;
    private static final int AT_ONCE = 1_000;

    private final RedissonClient redisson;
    private final Rate rate;

    RedissonLimiter(Setting setting) {
        rate = setting.onlyRate();
        Config config = new Config();
        config.useSingleServer().setAddress(setting.uri());
        redisson = Redisson.create(config);
    }

    @Override
    public void prepare(List<String> keys) {
        // In parts, because Redisson gives up commands that wait for a connection.
        for (int from = 0; from < keys.size(); from += AT_ONCE) {
            setRate(keys.subList(from, Math.min(keys.size(), from + AT_ONCE)));
        }
    }

    private void setRate(List<String> keys) {
        CompletableFuture.allOf(keys.stream()
                        .map(key -> redisson.getRateLimiter(key)
                                .trySetRateAsync(RateType.OVERALL, rate.permits(), rate.window())
                                .toCompletableFuture())
                        .toArray(CompletableFuture<?>[]::new))
                .orTimeout(PATIENCE_SECONDS, TimeUnit.SECONDS)
                .join();
    }

    @Override
    public void decide(String key, Answer answer) {
        Futures.deliver(redisson.getRateLimiter(key).tryAcquireAsync(), answer);
    }

    @Override
    public void close() {
        redisson.shutdown(0, 2, TimeUnit.SECONDS);
    }
}
