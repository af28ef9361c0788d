package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.scheduler.Schedulers;

/**
 * A connection to a server that refuses writes is replaced, because the next one may lead to the primary. The test sets
 * the time.
 */
class LaneDemotionTest {

    private static final String NAME = "demoted";
    private static final Duration LONG = Duration.ofSeconds(30);

    /** A closed port. */
    private static final int UNUSED_PORT = 1;

    private final AtomicLong nanos = new AtomicLong(-5);
    private RedisForTests redis;
    private RedisClient client;
    private RedisClient ofTheTest;
    private StatefulRedisConnection<String, String> administrator;
    private Lane lane;

    @BeforeEach
    void start() {
        redis = RedisForTests.startOwn();
        RedisURI named = redis.uri();
        named.setClientName(NAME);
        client = RedisClient.create(named);
        ofTheTest = RedisClient.create(redis.uri());
        administrator = ofTheTest.connect();
        lane = BatchQueueFixture.lane(() -> client.connect(ByteArrayCodec.INSTANCE), nanos::get);
    }

    @AfterEach
    void end() {
        client.shutdown();
        ofTheTest.shutdown();
        redis.close();
    }

    @Test
    void theNextCommandAfterARefusedWriteUsesANewConnection() {
        long first = id();
        pass(Duration.ofSeconds(1).plusNanos(1));
        redis().replicaof("127.0.0.1", UNUSED_PORT);
        assertRefused("READONLY");
        assertThat(id()).isGreaterThan(first);
    }

    @Test
    void aReplicaWithoutItsPrimaryIsARefusalToo() {
        long first = id();
        pass(Duration.ofSeconds(1).plusNanos(1));
        redis().configSet("replica-serve-stale-data", "no");
        redis().replicaof("127.0.0.1", UNUSED_PORT);
        assertThatExceptionOfType(RedisCommandExecutionException.class)
                .isThrownBy(
                        () -> lane.send(commands -> commands.get(bytes("key"))).block(LONG))
                .withMessageStartingWith("MASTERDOWN");
        assertThat(id()).isGreaterThan(first);
    }

    @Test
    void aNoReplicasErrorReplacesTheConnection() {
        long first = id();
        pass(Duration.ofSeconds(1).plusNanos(1));
        redis().configSet("min-replicas-to-write", "1");
        assertRefused("NOREPLICAS");
        assertThat(id()).isGreaterThan(first);
    }

    @Test
    void aNewConnectionIsKeptForAtLeastASecond() {
        redis().replicaof("127.0.0.1", UNUSED_PORT);
        assertRefused("READONLY");
        long first = id();
        pass(Duration.ofSeconds(1));
        assertRefused("READONLY");
        assertThat(id()).isEqualTo(first);
        pass(Duration.ofNanos(1));
        assertThat(id()).isGreaterThan(first);
    }

    @Test
    void anOutOfMemoryErrorKeepsTheConnection() {
        long first = id();
        pass(Duration.ofMinutes(1));
        redis().configSet("maxmemory", "1");
        assertRefused("OOM");
        assertThat(id()).isEqualTo(first);
    }

    @Test
    void aDecisionRejectedByAReplicaReplacesTheConnection() {
        try (VirtualTime time = new VirtualTime();
                RedisStore store = RedisStore.builder(client)
                        .deliverOn(Schedulers.immediate())
                        .build()) {
            store.prepare().retry(3).block(LONG);
            RateLimiter limiter =
                    RateLimiter.builder("demoted").store(new Unprotected(store)).build();
            Charge charge = Charge.of("somebody", Limit.perHour(1_000_000));
            limiter.tryAcquire(charge).block(LONG);
            redis().replicaof("127.0.0.1", UNUSED_PORT);
            assertThatExceptionOfType(LimitStoreUnavailableException.class)
                    .isThrownBy(() -> limiter.tryAcquire(charge).block(LONG))
                    .withMessageContaining("READONLY");
            // The next connection finds out before it is used.
            time.pass(Duration.ofSeconds(1).plusNanos(1));
            await().atMost(LONG)
                    .untilAsserted(() -> assertThatExceptionOfType(LimitStoreUnreachableException.class)
                            .isThrownBy(() -> limiter.tryAcquire(charge).block(LONG))
                            .withMessageContaining("is a replica of 127.0.0.1:" + UNUSED_PORT));
            redis().replicaofNoOne();
            assertThat(limiter.tryAcquire(charge).block(LONG).isAllowed()).isTrue();
        }
    }

    private void assertRefused(String code) {
        assertThatExceptionOfType(RedisCommandExecutionException.class)
                .isThrownBy(this::write)
                .withMessageStartingWith(code);
    }

    private void write() {
        lane.send(commands -> commands.set(bytes("key"), bytes("value"))).block(LONG);
    }

    /** Asks something that a Redis answers in any state: the id of the connection. */
    private long id() {
        long id = lane.<Long>send(commands -> commands.clientId()).block(LONG);
        // Waiting callers get the connection a moment before later callers do.
        await().atMost(LONG).until(() -> lane.ifOpen() != null);
        return id;
    }

    private void pass(Duration time) {
        nanos.addAndGet(time.toNanos());
    }

    private RedisCommands<String, String> redis() {
        return administrator.sync();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
