package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.AclSetuserArgs;
import io.lettuce.core.ClientListArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.CommandType;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** Nothing is decided on a replica, and nothing is told of what it knows. */
class ReplicaTest {

    Supplier<RedisForTests> servers = RedisForTests::startOwn;

    private RedisForTests primary;
    private RedisForTests replica;
    private RedisClient client;
    private RedisCommands<String, String> admin;

    @BeforeEach
    void start() {
        primary = servers.get();
        replica = servers.get();
        client = RedisClient.create(replica.uri());
        admin = client.connect().sync();
        try (RedisClient ofPrimary = RedisClient.create(primary.uri())) {
            // The default lets each replica wait 5 s for others.
            ofPrimary.connect().sync().configSet("repl-diskless-sync-delay", "0");
        }
        admin.replicaof("127.0.0.1", primary.uri().getPort());
        await().until(() -> admin.info("replication").contains("master_link_status:up"));
    }

    @AfterEach
    void end() {
        client.shutdown();
        replica.close();
        primary.close();
    }

    @Test
    void aReplicaIsRejectedForEveryOperation() {
        RateLimiter limiter = limiter(new Unprotected(RedisStore.create(client)));
        String place = "127.0.0.1:" + primary.uri().getPort();
        for (Mono<?> operation : List.of(limiter.tryAcquire("a"), limiter.peek("a"), limiter.reset("a"))) {
            assertThat(StoreFailure.of(operation))
                    .is(kind(Kind.UNREACHABLE))
                    .hasMessage("Redis is unavailable: the configured server is a replica of " + place
                            + ", and a replica rejects writes: expected the URI of the primary, for example"
                            + " redis://" + place + ", or of Sentinels, for example"
                            + " redis-sentinel://host:26379/0#name");
        }
    }

    @Test
    void noConnectionToAReplicaIsKept() {
        RateLimiter limiter = limiter(new Unprotected(RedisStore.create(client)));
        for (int i = 0; i < 3; i++) {
            assertThatExceptionOfType(LimitStoreException.class)
                    .isThrownBy(() -> limiter.tryAcquire("a").block())
                    .is(kind(Kind.UNREACHABLE));
        }
        await().until(() ->
                admin.clientList(ClientListArgs.Builder.typeNormal()).lines().count() == 1);
    }

    @Test
    void aReplicaThatIsMadeAPrimaryDecidesWithoutARestart() {
        RateLimiter limiter = limiter(RedisStore.create(client));
        assertThat(limiter.tryAcquire("a").block().source()).isEqualTo(Source.LOCAL);
        await().untilAsserted(() -> assertThat(limiter.state().problem())
                .hasValueSatisfying(problem -> assertThat(problem).contains("is a replica of")));

        admin.replicaofNoOne();
        await().until(() -> limiter.tryAcquire("a").block().source() == Source.REDIS);
        limiter.close();
    }

    @Test
    void aUserWithoutTheRoleCommandFailsAtTheFirstCharge() {
        admin.aclSetuser(
                "app",
                AclSetuserArgs.Builder.on()
                        .addPassword("password")
                        .allKeys()
                        .allCommands()
                        .removeCommand(CommandType.ROLE));
        RedisClient asUser = RedisClient.create(RedisURI.create(
                "redis://app:password@127.0.0.1:" + replica.uri().getPort()));
        try {
            assertThat(StoreFailure.of(RedisStore.create(asUser)))
                    .is(kind(Kind.UNAVAILABLE))
                    .hasMessageContaining("READONLY");
        } finally {
            asUser.shutdown();
        }
    }

    private static RateLimiter limiter(LimitStore store) {
        return RateLimiter.builder("api").store(store).limit(Limit.perHour(100)).build();
    }
}
