package io.github.spillgate.redis;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** The contract on every Redis at hand, each on its own clock. */
class RedisStoreContractTest extends LimitStoreContract {

    RedisForTests redis = RedisForTests.first();

    private RedisClient client;
    private RedisStore store;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
        store = RedisStore.create(client);
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    @Override
    protected LimitStore store() {
        return store;
    }
}
