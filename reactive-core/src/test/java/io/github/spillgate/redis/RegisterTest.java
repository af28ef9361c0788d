package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.store.ClockForTests;
import io.github.spillgate.store.MapStore;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Instances of a limiter register in Redis, and are counted there. */
class RegisterTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final String namespace = "register-" + System.nanoTime();
    private final RedisStore store =
            RedisStore.builder(client).namespace(namespace).build();
    private RedisCommands<String, String> admin;

    @BeforeEach
    void connect() {
        admin = client.connect().sync();
    }

    @AfterEach
    void close() {
        store.closeLater().block();
        client.shutdown();
    }

    @Test
    void theKeyExpiresWithTheLastRegistration() {
        register("api", UUID.randomUUID());
        String key = admin.keys(namespace + ":*").get(0);
        assertThat(admin.pttl(key)).isBetween(20_000L, 30_000L);
        store.register("api", UUID.randomUUID(), Duration.ofMillis(10)).block();
        assertThat(admin.pttl(key)).isBetween(20_000L, 30_000L);
    }

    @Test
    void noMoreThanAThousandInstancesAreStored() {
        for (int i = 0; i < 1_010; i++) {
            assertThat(register("api", new UUID(1, i))).isEqualTo(Math.min(1_000, i + 1));
        }
        assertThat(admin.strlen(admin.keys(namespace + ":*").get(0))).isLessThan(23_000);
    }

    @Test
    void aValueOfAnotherProgramIsLeftAlone() {
        register("api", UUID.randomUUID());
        String key = admin.keys(namespace + ":*").get(0);
        admin.set(key, "something else");
        assertThat(register("api", UUID.randomUUID())).isNull();
        assertThat(admin.get(key)).isEqualTo("something else");
        admin.del(key);
        admin.lpush(key, "a list");
        assertThat(register("api", UUID.randomUUID())).isNull();
        assertThat(admin.llen(key)).isEqualTo(1);
    }

    @Test
    void javaAndLuaWriteTheSameBytes() {
        ManualClock clock = new ManualClock();
        ScriptedClock scripted = new ScriptedClock(client);
        Keyspace keyspace = new Keyspace(client);
        RedisStore lua = scripted.store(client, keyspace.namespace(), false);
        Map<String, Stored> rows = new ConcurrentHashMap<>();
        MapStore java = new MapStore(rows, clock);
        ClockForTests.set(java, () -> clock.instant().toEpochMilli() * 1_000);
        Random random = new Random(7);
        int most = 0;
        for (int i = 0; i < 300; i++) {
            clock.advanceMillis(random.nextInt(20) == 0 ? -90_000 : random.nextInt(8_000));
            scripted.show(clock);
            UUID instance = new UUID(random.nextInt(4), random.nextInt(4));
            Duration life = Duration.ofMillis(random.nextInt(4) == 0 ? 0 : 1 + random.nextInt(60_000));
            Integer number = java.register("api", instance, life).block();
            assertThat(lua.register("api", instance, life).block()).isEqualTo(number);
            most = Math.max(most, number == null ? 0 : number);
            if (number == null) {
                assertThat(keyspace.keys()).isEmpty();
            } else {
                assertThat(keyspace.bytes(keyspace.onlyKey()))
                        .isEqualTo(rows.get("instances:api").value());
            }
        }
        assertThat(most).isGreaterThan(6);
        lua.closeLater().block();
        scripted.close();
    }

    @Test
    void instancesRegisterInAClusterToo() {
        RedisClusterClient clusterClient =
                RedisClusterClient.create(RedisClusterForTests.shared().uris());
        RedisStore cluster =
                RedisStore.builder(clusterClient).namespace(namespace).build();
        for (String limiter : new String[] {"api", "login", "orders"}) {
            for (int i = 1; i <= 3; i++) {
                assertThat(cluster.register(limiter, UUID.randomUUID(), LONG).block())
                        .isEqualTo(i);
            }
        }
        cluster.closeLater().block();
        clusterClient.shutdown();
    }

    private @Nullable Integer register(String limiter, UUID instance) {
        return store.register(limiter, instance, LONG).block();
    }
}
