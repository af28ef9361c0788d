package io.github.spillgate.redis;

import io.github.spillgate.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** The contract on every Redis at hand, each on its own clock. */
@ParameterizedClass
@MethodSource("everyRedis")
class RedisStoreContractTest extends LimitStoreContract {

    @Parameter
    RedisForTests redis;

    private RedisClient client;
    private RedisStore store;

    static List<RedisForTests> everyRedis() {
        return RedisForTests.all();
    }

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
