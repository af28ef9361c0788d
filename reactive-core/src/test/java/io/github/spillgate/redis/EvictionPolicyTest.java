package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The warning about a Redis that may evict counts. */
class EvictionPolicyTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final String WARNING = "may lose counts";

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient administrator = RedisClient.create(redis.uri());
    private final RedisCommands<String, String> admin = administrator.connect().sync();
    private final CommandProxy proxy = new CommandProxy(redis.uri().getPort());
    private final RedisStore store = RedisStore.create(RedisURI.create("127.0.0.1", proxy.port()));
    private final LogForTests log = LogForTests.listen();

    @AfterEach
    void close() {
        log.close();
        store.closeLater().block(LONG);
        proxy.close();
        administrator.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    @Test
    void eachPolicyThatEvictsCountsIsLoggedOnce() {
        configure(admin, "100mb", "allkeys-lru");
        decide();
        assertThat(log.lines(WARNING))
                .singleElement()
                .asString()
                .contains("RedisStore[spillgate:3:*] may lose counts", "allkeys-lru", "expected noeviction");
        reconnect();
        assertThat(log.lines(WARNING)).hasSize(1);
        admin.configSet("maxmemory-policy", "volatile-ttl");
        reconnect();
        assertThat(log.lines(WARNING)).hasSize(2).last().asString().contains("volatile-ttl");
    }

    @ParameterizedTest
    @CsvSource({"100mb, noeviction", "0, allkeys-lru"})
    void aRedisThatEvictsNothingIsNotLogged(String memory, String policy) {
        configure(admin, memory, policy);
        decide();
        assertThat(proxy.calls("INFO")).isPositive();
        assertThat(log.lines(WARNING)).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"ERR unknown command 'INFO'", CommandProxy.CLOSE})
    void aServerThatDoesNotTellIsNotAskedAgain(String answer) {
        configure(admin, "100mb", "allkeys-lru");
        proxy.answer(command -> command.equals("INFO") ? answer : CommandProxy.PASS);
        decide();
        reconnect();
        assertThat(proxy.calls("INFO")).isEqualTo(1);
        assertThat(log.lines("WARN", "io.github.spillgate.redis.")).isEmpty();
    }

    /** A proxy that does not know ROLE may answer other commands even less. */
    @Test
    void aServerThatRefusesRoleIsNotAsked() {
        proxy.answer(command -> command.equals("ROLE") ? "ERR unknown command 'ROLE'" : CommandProxy.PASS);
        decide();
        assertThat(proxy.calls("INFO")).isZero();
    }

    @Test
    void aClusterNodeIsNamed() {
        RedisClusterForTests cluster = RedisClusterForTests.shared();
        RedisNode node = cluster.nodes().get(1);
        RedisClusterClient client = RedisClusterClient.create(cluster.uris());
        RedisStore inCluster = RedisStore.create(client);
        configure(node.commands(), "100mb", "allkeys-lru");
        try {
            inCluster.prepare("").block(LONG);
            assertThat(log.lines(WARNING))
                    .singleElement()
                    .asString()
                    .contains("127.0.0.1:" + node.uri().getPort() + " evicts them");
        } finally {
            configure(node.commands(), "0", "noeviction");
            inCluster.closeLater().block(LONG);
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    private void reconnect() {
        long connections = proxy.calls("HELLO");
        admin.clientKill(KillArgs.Builder.typeNormal().skipme());
        await().atMost(LONG).until(() -> {
            decide();
            return proxy.calls("HELLO") > connections;
        });
    }

    /** The reply to INFO has arrived by then, because it was sent before on the same connection. */
    private void decide() {
        RateLimiter limiter = Unprotected.limiter(store, Limit.perMinute(1_000));
        await().atMost(LONG)
                .ignoreExceptionsInstanceOf(LimitStoreException.class)
                .until(() -> limiter.tryAcquire("a").block(LONG).isAllowed());
    }

    /** One after the other: Redis 6 sets one parameter in a command. */
    private static void configure(RedisCommands<String, String> server, String memory, String policy) {
        server.configSet("maxmemory", memory);
        server.configSet("maxmemory-policy", policy);
    }
}
