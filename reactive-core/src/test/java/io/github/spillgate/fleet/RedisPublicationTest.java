package io.github.spillgate.fleet;

import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** What is published in Redis. */
class RedisPublicationTest extends PublicationContract {

    private static RedisStore store;

    @BeforeAll
    static void connect() {
        store = RedisStore.builder(RedisForTests.first().uri())
                .namespace("published-" + System.nanoTime())
                .build();
    }

    @AfterAll
    static void disconnect() {
        store.close();
    }

    @Override
    LimitStore store() {
        return store;
    }
}
