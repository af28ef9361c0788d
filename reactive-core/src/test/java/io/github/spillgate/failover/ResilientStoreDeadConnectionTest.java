package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A connection dies silently while new ones work: Redis must decide on every key again, and everything must be
 * reconciled.
 */
@Thorough
class ResilientStoreDeadConnectionTest {

    private static final Limit LIMIT = Limit.parse("10000/1m");
    private static final int KEYS = 5;

    /** Well below the minute after which Lettuce gives up a command. */
    private static final Duration PATIENCE = Duration.ofSeconds(45);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final BadNetwork network = new BadNetwork(redis.uri().getPort());
    private final RedisClient client = RedisClient.create(network.uri());
    private final RedisClient directClient = RedisClient.create(redis.uri());
    private final RedisStore store = RedisStore.create(client);
    private final RateLimiter limiter =
            RateLimiter.builder("silent").store(store).limit(LIMIT).build();

    private final Map<String, Source> newest = new HashMap<>();
    private final Map<String, Long> granted = new HashMap<>();

    @BeforeEach
    void decideInRedis() {
        await().until(() -> {
            acquireEachKey();
            return allAreDecidedIn(Source.REDIS);
        });
    }

    @AfterEach
    void close() {
        limiter.close();
        store.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        directClient.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        network.close();
        redis.close();
    }

    @Test
    void everyKeyReturnsToRedisAndEverythingIsReconciled() {
        killTheConnectionSilently();
        assertThatAllReturnsToRedis();
    }

    @Test
    void everyKeyReturnsToRedisIfTheScriptsAreLostToo() {
        try (StatefulRedisConnection<String, String> direct = directClient.connect()) {
            killTheConnectionSilently();
            direct.sync().scriptFlush();
        }
        assertThatAllReturnsToRedis();
    }

    /** A script load in flight when the connection dies must not delay script loads on the next connection. */
    @Test
    void aScriptLoadOnTheDeadConnectionDoesNotBlockTheNextConnection() {
        try (StatefulRedisConnection<String, String> direct = directClient.connect()) {
            direct.sync().scriptFlush();
            killTheConnectionSilently();
            for (int i = 0; i < 5; i++) {
                limiter.tryAcquire("fresh-" + i).block();
            }
            direct.sync().scriptFlush();
        }
        assertThatAllReturnsToRedis();
    }

    private void killTheConnectionSilently() {
        network.dropPackets();
        network.restoreNewConnections();
    }

    private void assertThatAllReturnsToRedis() {
        await().pollInterval(Duration.ofMillis(20)).atMost(PATIENCE).until(() -> {
            acquireEachKey();
            return newest.containsValue(Source.LOCAL);
        });
        await().pollInterval(Duration.ofMillis(20)).atMost(PATIENCE).untilAsserted(() -> {
            acquireEachKey();
            assertThat(newest.values()).as("source of each key").containsOnly(Source.REDIS);
            assertThat(limiter.state().toReconcile()).isZero();
        });
        assertThat(limiter.state().source()).isEqualTo(Source.REDIS);
        // What was in flight when the connection died may be charged twice; nothing may be missing.
        granted.forEach((key, permits) -> assertThat(
                        limiter.peek(key).block().limits().get(0).used())
                .as(key)
                .isBetween(permits, permits + KEYS));
    }

    /** Acquires one key after the other, at the rate of a quiet service. */
    private void acquireEachKey() {
        for (int i = 0; i < KEYS; i++) {
            String key = "key-" + i;
            Decision decision = limiter.tryAcquire(key).block();
            newest.put(key, decision.source());
            granted.merge(key, decision.isAllowed() ? 1L : 0, Long::sum);
        }
    }

    private boolean allAreDecidedIn(Source source) {
        return newest.values().stream().allMatch(source::equals);
    }
}
