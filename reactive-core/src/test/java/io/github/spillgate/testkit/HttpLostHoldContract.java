package io.github.spillgate.testkit;

import static io.github.spillgate.testkit.LimiterForTests.ADDRESS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.RateLimiterBuilder;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.http.Rule;
import io.github.spillgate.http.Rules;
import io.github.spillgate.metrics.RuleMetrics;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A request loses the permits of a concurrency limit, or Redis loses them, before its response has ended. */
public abstract class HttpLostHoldContract extends HttpContract {

    private static final int PART = HttpAdapter.PART.length();

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisStore store = RedisStore.create(redis.uri());
    private final SimpleMeterRegistry meters = new SimpleMeterRegistry();
    private final RateLimiterBuilder settings = RateLimiter.builder(
                    "test-" + UUID.randomUUID().toString().substring(0, 8))
            .store(store);
    private RateLimiter limiter;

    protected HttpLostHoldContract(HttpAdapter adapter) {
        super(adapter);
    }

    @Override
    @AfterEach
    void close() {
        super.close();
        limiter.close();
        store.close();
        redis.close();
    }

    private Rules serve(Duration hold) {
        limiter = settings.build();
        limiter.ready().retry(3).block(PATIENCE);
        Rule.Builder running =
                Rule.named("running").key(ADDRESS).limit(Limit.concurrent(1).hold(hold));
        return serve(limiter, RuleMetrics.of(meters), running);
    }

    @Test
    void aResponseGoesOnAfterTheLongestHoldAndTheLossIsCounted() {
        settings.longestHold(Duration.ofMillis(1)).deadline(Duration.ofMillis(900));
        Rules rules = serve(Limit.SHORTEST_HOLD);
        int status = client.read("/hold/stream", body -> {
            readUntilExpired(body);
            assertThat(expired()).isEqualTo(1);
            // Its permit is free again, while the first response is still running.
            await().atMost(PATIENCE).until(() -> client.get("/hold/0").statusCode() == 200);
            assertThat(work.most()).isEqualTo(2);
            assertGoesOn(body);
        });
        assertThat(status).isEqualTo(200);
        awaitUsed(rules, "running", 0);
        // On a slow machine, the second request too may last longer than its hold.
        assertThat(expired()).isBetween(1.0, 2.0);
    }

    @Test
    void aResponseGoesOnIfRedisIsDownForTheHoldTimeAndTheLossIsCounted() {
        settings.fallback(Fallback.error()).deadline(Duration.ofMillis(200));
        serve(Limit.SHORTEST_HOLD);
        int status = client.read("/hold/stream", body -> {
            body.readNBytes(PART);
            redis.kill();
            readUntilExpired(body);
            assertGoesOn(body);
        });
        assertThat(status).isEqualTo(200);
        assertThat(expired()).isEqualTo(1);
    }

    @Test
    void aPermitIsTakenAgainIfRedisLosesItsData() {
        settings.deadline(Duration.ofSeconds(5));
        Rules rules = serve(Duration.ofSeconds(6));
        int status = client.read("/hold/stream", body -> {
            body.readNBytes(PART);
            flush();
            await().atMost(PATIENCE).until(() -> usage(rules, "running").used() == 1);
            assertThat(client.get("/hold/0").statusCode()).isEqualTo(429);
            assertGoesOn(body);
        });
        assertThat(status).isEqualTo(200);
        awaitUsed(rules, "running", 0);
        assertThat(expired()).isZero();
    }

    private void readUntilExpired(InputStream body) throws IOException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (expired() == 0 && System.nanoTime() < end) {
            assertGoesOn(body);
        }
        assertThat(expired()).isEqualTo(1);
    }

    private static void assertGoesOn(InputStream body) throws IOException {
        assertThat(body.readNBytes(10 * PART)).hasSize(10 * PART);
    }

    private double expired() {
        Counter counter =
                meters.find("spillgate.expired").tag("rule", "running").counter();
        return counter == null ? 0 : counter.count();
    }

    private void flush() {
        RedisClient admin = RedisClient.create(redis.uri());
        try {
            admin.connect().sync().flushall();
        } finally {
            admin.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }
}
