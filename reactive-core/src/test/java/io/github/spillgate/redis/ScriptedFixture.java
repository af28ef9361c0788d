package io.github.spillgate.redis;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.store.LastingMapStore;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** A store on a {@link ScriptedClock}, in a namespace of its own. */
abstract class ScriptedFixture {

    RedisForTests redis = RedisForTests.first();

    final ManualClock clock = new ManualClock();
    RedisClient client;
    ScriptedClock scripted;
    Keyspace keyspace;
    RedisStore store;
    RateLimiter limiter;
    private @Nullable LimitStore stored;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        scripted = new ScriptedClock(client);
        scripted.show(clock);
        keyspace = new Keyspace(client);
        store = scripted.store(client, keyspace.namespace(), false);
        limiter = Unprotected.limiter(store);
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    /** Returns a store on the clock of this fixture, the same one in a test: local, lua for Redis, or values. */
    LimitStore stored(String kind) {
        if (stored == null) {
            stored = switch (kind) {
                case "local" -> LocalStore.bounded(10_000, clock);
                case "values" -> new LastingMapStore(scripted::micros);
                default -> store;
            };
        }
        return stored;
    }

    void pass(long millis) {
        clock.advanceMillis(millis);
        scripted.show(clock);
    }

    Claim claim(String key, Limit limit) {
        return DecidedClaims.of(limiter.peek(Charge.of(key, limit)).block()).get(0);
    }

    String keyOf(Claim claim) {
        return keyOf(claim, keyspace.namespace());
    }

    static String keyOf(Claim claim, String namespace) {
        return new String(new CountKeys(namespace).counts(List.of(claim))[0], StandardCharsets.US_ASCII);
    }

    long used(String key, Limit limit) {
        return limiter.peek(Charge.of(key, limit)).block().limits().get(0).used();
    }

    static List<Long> used(@Nullable List<Corrected> results) {
        return CorrectedForTests.usages(results).stream().map(Usage::used).toList();
    }

    static List<Long> used(Decision decision) {
        return decision.limits().stream().map(Usage::used).toList();
    }
}
