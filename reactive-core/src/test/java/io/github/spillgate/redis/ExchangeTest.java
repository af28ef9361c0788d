package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.PublishOutcome;
import io.github.spillgate.spi.FleetExchange.Value;
import io.github.spillgate.store.ClockForTests;
import io.github.spillgate.store.MapStore;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.Exchanges;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Processes register in Redis, are counted there, and publish. */
class ExchangeTest {

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
        Exchanges.register(store, "api", UUID.randomUUID(), Duration.ofMillis(10));
        assertThat(admin.pttl(key)).isBetween(20_000L, 30_000L);
    }

    @Test
    void noMoreThanAThousandInstancesAreStored() {
        for (int i = 0; i < 1_010; i++) {
            assertThat(register("api", new UUID(1, i))).isEqualTo(i < 1_000 ? i + 1 : 10_000);
        }
        assertThat(admin.strlen(admin.keys(namespace + ":*").get(0))).isLessThan(23_000);
    }

    /** Forty instances of a service have the same limiters. */
    @Test
    void equalListsOfLimitersAreStoredOnce() {
        List<String> names = names(1_000);
        List<Integer> numbers = List.of();
        for (int i = 0; i < 40; i++) {
            numbers = instances(new UUID(1, i), names);
        }
        assertThat(numbers).hasSize(1_000).containsOnly(40);
        assertThat(admin.strlen(namespace + ":3:instances:{fleet}")).isLessThan(5_000);
        assertThat(instances(new UUID(2, 1), List.of("limiter-7", "other"))).containsExactly(41, 1);
        assertThat(instances(new UUID(1, 0), names).subList(5, 9)).containsExactly(40, 40, 41, 40);
    }

    /** A number that is too high makes the share of an instance too small, and one that is too low too large. */
    @Test
    void atEachBoundTheNumberIsTooHighAndNeverTooLow() {
        assertThat(instances(new UUID(1, 1), List.of("api"))).containsExactly(1);
        assertThat(instances(new UUID(1, 2), names(1_001))).hasSize(1_001).containsOnly(1);
        assertThat(instances(new UUID(1, 1), List.of("api"))).containsExactly(2);
        for (int i = 0; i < 6; i++) {
            int list = i;
            List<String> names =
                    names(990).stream().map(one -> one + "-" + list).toList();
            assertThat(instances(new UUID(2, i), names)).hasSize(990);
        }
        // The last ones had no room for their names.
        assertThat(instances(new UUID(1, 1), List.of("api"))).containsExactly(4);
        assertThat(admin.strlen(namespace + ":3:instances:{fleet}")).isLessThan(17_000);
    }

    private static List<String> names(int number) {
        return IntStream.range(0, number).mapToObj(i -> "limiter-" + i).toList();
    }

    private List<Integer> instances(UUID instance, List<String> limiters) {
        return Objects.requireNonNull(store.exchange(new FleetExchange(instance, LONG, limiters, 0, List.of(), null))
                        .block())
                .instances();
    }

    /** 64 KB in all. */
    @Test
    void aValueForWhichThereIsNoRoomIsRefusedAndTheOthersRemain() {
        String content = "x".repeat(6_500);
        for (int i = 0; i < 12; i++) {
            FleetExchange.FleetReply reply = Objects.requireNonNull(store.exchange(new FleetExchange(
                            UUID.randomUUID(),
                            Duration.ZERO,
                            List.of(),
                            0,
                            List.of(),
                            new Value("v" + i, 0, later(), content)))
                    .block());
            assertThat(reply.outcome()).isEqualTo(i < 10 ? PublishOutcome.PUBLISHED : PublishOutcome.REFUSED);
            assertThat(reply.values()).hasSize(Math.min(10, i + 1));
        }
        assertThat(admin.strlen(namespace + ":3:published:{fleet}")).isBetween(65_000L, 65_536L);
        assertThat(admin.pttl(namespace + ":3:published:{fleet}")).isBetween(50_000L, 60_000L);
    }

    private long later() {
        return Long.parseLong(admin.time().get(0)) * 1_000 + 60_000;
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
        String prefix = keyspace.namespace() + ":3:";
        Set<PublishOutcome> outcomes = EnumSet.noneOf(PublishOutcome.class);
        FleetExchange.FleetReply last = new FleetExchange.FleetReply(0, List.of(), 0, PublishOutcome.NONE, List.of());
        for (int i = 0; i < 1_000; i++) {
            clock.advanceMillis(random.nextInt(20) == 0 ? -90_000 : random.nextInt(8_000));
            scripted.show(clock, 0);
            FleetExchange request = request(random, last);
            last = Objects.requireNonNull(java.exchange(request).block());
            assertThat(lua.exchange(request).block()).isEqualTo(last);
            most = Math.max(
                    most,
                    last.instances().stream().mapToInt(number -> number).max().orElse(0));
            outcomes.add(last.outcome());
            assertThat(keyspace.bytes(prefix + "instances:{fleet}")).isEqualTo(bytes(rows.get("instances")));
            assertThat(keyspace.bytes(prefix + "published:{fleet}")).isEqualTo(bytes(rows.get("published")));
        }
        assertThat(outcomes).containsExactlyInAnyOrder(PublishOutcome.values());
        assertThat(most).isGreaterThan(6);
        lua.closeLater().block();
        scripted.close();
    }

    private static byte @Nullable [] bytes(@Nullable Stored row) {
        return row == null || row.value().length == 0 ? null : row.value();
    }

    private static FleetExchange request(Random random, FleetExchange.FleetReply last) {
        List<String> limiters = IntStream.range(0, random.nextInt(4) == 0 ? 2_500 : 3)
                .filter(i -> random.nextBoolean())
                .mapToObj(i -> "limiter-" + i)
                .toList();
        List<Value> known = last.values() == null ? List.of() : last.values();
        List<Value> restored = random.nextInt(4) == 0
                ? Stream.concat(known.stream(), Stream.of(value(random, last.version())))
                        .toList()
                : List.of();
        Value published = value(random, 0);
        long present = known.stream()
                .filter(value -> value.name().equals(published.name()))
                .mapToLong(Value::version)
                .findFirst()
                .orElse(0);
        return new FleetExchange(
                new UUID(random.nextInt(4), random.nextInt(4)),
                Duration.ofMillis(random.nextInt(4) == 0 ? 0 : 1 + random.nextInt(60_000)),
                limiters.subList(0, Math.min(limiters.size(), 1_001)),
                random.nextInt(4) == 0 ? 0 : last.version(),
                restored,
                random.nextBoolean()
                        ? null
                        : new Value(
                                published.name(),
                                random.nextInt(4) == 0 ? 1 : present,
                                published.until(),
                                published.content()));
    }

    private static Value value(Random random, long version) {
        return new Value(
                "api/rule-" + random.nextInt(8),
                Math.max(1, version - random.nextInt(3)),
                1_790_000_000_000L + random.nextInt(10_000_000),
                "ü".repeat(random.nextInt(4) == 0 ? random.nextInt(15_000) : random.nextInt(10)));
    }

    @Test
    void instancesRegisterInAClusterToo() {
        RedisClusterClient clusterClient =
                RedisClusterClient.create(RedisClusterForTests.shared().uris());
        RedisStore cluster =
                RedisStore.builder(clusterClient).namespace(namespace).build();
        for (String limiter : new String[] {"api", "login", "orders"}) {
            for (int i = 1; i <= 3; i++) {
                assertThat(Exchanges.register(cluster, limiter, UUID.randomUUID(), LONG))
                        .isEqualTo(i);
            }
        }
        cluster.closeLater().block();
        clusterClient.shutdown();
    }

    private @Nullable Integer register(String limiter, UUID instance) {
        return Exchanges.register(store, limiter, instance, LONG);
    }
}
