package io.github.spillgate.redis;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** The contract on a clock that is set, so that every instant is met exactly. */
class ScriptedRedisStoreContractTest extends LimitStoreContract {

    private final ManualClock clock = new ManualClock();
    private RedisClient client;
    private ScriptedClock scripted;
    private RedisStore store;

    @BeforeEach
    void connect() {
        client = RedisClient.create(RedisForTests.first().uri());
        scripted = new ScriptedClock(client);
        scripted.show(clock);
        store = scripted.store(client, false);
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    @Override
    protected LimitStore store() {
        return store;
    }

    @Override
    protected void tick() {
        clock.advanceMillis(1);
        scripted.show(clock);
    }
}
