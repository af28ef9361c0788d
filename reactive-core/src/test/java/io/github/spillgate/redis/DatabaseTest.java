package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Counts are in the database that the client names, and in no other. */
class DatabaseTest {

    Supplier<RedisForTests> servers = RedisForTests::startOwn;

    private final List<RedisClient> clients = new ArrayList<>();
    private RedisForTests redis;

    @BeforeEach
    void start() {
        redis = servers.get();
    }

    @AfterEach
    void end() {
        clients.forEach(RedisClient::shutdown);
        redis.close();
    }

    @Test
    void countsAreStoredInTheConfiguredDatabaseOnly() {
        RedisCommands<String, String> admin = client(redis.uri()).connect().sync();
        RedisURI byNumber = redis.uri();
        byNumber.setDatabase(3);
        RedisURI byText = RedisStore.uri(redis.uri().toURI() + "/3");
        for (RedisURI uri : List.of(byNumber, byText)) {
            RedisStore store = RedisStore.create(client(uri));
            RateLimiter limiter = limiter(store);
            limiter.tryAcquire(
                            Charge.of("a", Limit.perHour(2)),
                            Charge.of("b", Limit.perHour(2).counter()))
                    .block();
            store.close();
        }
        assertThat(admin.info("keyspace")).contains("db3:keys=2,").doesNotContain("db0:");
        assertThat(limiter(RedisStore.create(client(byText)))
                        .tryAcquire("a")
                        .block()
                        .isAllowed())
                .isFalse();
        assertThat(limiter(RedisStore.create(client(redis.uri())))
                        .tryAcquire("a")
                        .block()
                        .isAllowed())
                .isTrue();
    }

    @Test
    void aReconnectUsesTheSameDatabase() {
        RedisCommands<String, String> admin = client(redis.uri()).connect().sync();
        RedisURI uri = redis.uri();
        uri.setDatabase(3);
        RateLimiter limiter = limiter(RedisStore.create(client(uri)));
        limiter.tryAcquire("a").block();
        redis.restart();
        await().ignoreExceptions().until(() -> limiter.tryAcquire("a").block().isAllowed());
        await().ignoreExceptions()
                .untilAsserted(() -> assertThat(admin.info("keyspace"))
                        .contains("db3:keys=1,")
                        .doesNotContain("db0:"));
    }

    @Test
    void aDatabaseOutOfRangeIsReportedWithTheValidRange() {
        RedisURI uri = redis.uri();
        uri.setDatabase(16);
        RateLimiter limiter = limiter(RedisStore.create(client(uri)));
        // Lettuce closes the connection when it reads the error, and may report only that.
        await().untilAsserted(() -> assertThat(StoreFailure.of(limiter.tryAcquire("a")))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith("Redis is unavailable: no connection to 127.0.0.1:" + uri.getPort())
                .hasMessageContaining("DB index is out of range")
                .hasMessageContaining("0 to 15")
                .hasMessageEndingWith("for example redis://host:6379/0"));
    }

    private RedisClient client(RedisURI uri) {
        RedisClient client = RedisClient.create(uri);
        clients.add(client);
        return client;
    }

    private static RateLimiter limiter(RedisStore store) {
        return Unprotected.limiter(store, Limit.perHour(2));
    }
}
