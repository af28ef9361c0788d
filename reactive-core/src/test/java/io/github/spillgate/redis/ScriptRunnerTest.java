package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** Scripts are loaded again whenever Redis has lost them, whatever becomes of earlier loads. */
class ScriptRunnerTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    /** As if something flushed the scripts all the time. */
    @Test
    void aScriptThatIsAlwaysLostIsTriedFourTimes() throws IOException {
        try (RedisForTests redis = RedisForTests.startOwn();
                RedisClient client = RedisClient.create(redis.uri());
                StatefulRedisConnection<String, String> admin = client.connect()) {
            RedisStore store = RedisStore.builder(client)
                    .scripts(text -> "return redis.error_reply('NOSCRIPT lost')")
                    .build();
            RateLimiter limiter = RateLimiter.builder("scripts")
                    .store(new Unprotected(store))
                    .limit(Limit.perMinute(1_000))
                    .build();
            assertThatExceptionOfType(LimitStoreException.class)
                    .isThrownBy(() -> limiter.tryAcquire("a").block(LONG));
            assertThat(admin.sync().info("commandstats")).contains("cmdstat_evalsha:calls=4,");
            store.closeLater().block(LONG);
        }
    }

    @Test
    void aLoadThatCompletesAfterItsSuccessorKeepsNoScriptFromBeingLoadedLater() throws IOException {
        try (RedisForTests redis = RedisForTests.startOwn();
                RedisClient direct = RedisClient.create(redis.uri());
                StatefulRedisConnection<String, String> admin = direct.connect();
                LosingProxy proxy = new LosingProxy(redis.uri().getPort());
                RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", proxy.port()))) {
            RedisStore store = RedisStore.create(client);
            RateLimiter limiter = RateLimiter.builder("scripts")
                    .store(new Unprotected(store))
                    .limit(Limit.perMinute(1_000))
                    .build();
            limiter.tryAcquire("a").block(LONG);
            store.prepare().block(LONG);
            proxy.holdWhatIsOpen();
            CompletableFuture<Void> old = store.prepare().toFuture();
            await().atMost(LONG).until(() -> {
                limiter.tryAcquire("b").subscribe(decision -> {}, error -> {});
                return proxy.hasAnotherConnection();
            });
            admin.sync().scriptFlush();
            limiter.tryAcquire("c").block(LONG);
            proxy.release();
            await().atMost(LONG).until(old::isDone);
            for (int i = 0; i < 3; i++) {
                admin.sync().scriptFlush();
                assertThat(limiter.tryAcquire("c").block(LONG).isAllowed()).isTrue();
            }
            store.closeLater().block(LONG);
        }
    }
}
