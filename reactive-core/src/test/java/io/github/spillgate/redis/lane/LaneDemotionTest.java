package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.RedisCommandExecutionException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import reactor.core.scheduler.Schedulers;

/**
 * A connection to a server that refuses writes is replaced, because the next one may lead to the primary.
 */
class LaneDemotionTest extends LaneFixture {

    /** A closed port. */
    private static final int UNUSED_PORT = 1;

    @Test
    void theNextCommandAfterARefusedWriteUsesANewConnection() {
        assertReplaced("READONLY", () -> admin.replicaof("127.0.0.1", UNUSED_PORT), this::write);
    }

    @Test
    void aReplicaWithoutItsPrimaryIsARefusalToo() {
        admin.configSet("replica-serve-stale-data", "no");
        assertReplaced(
                "MASTERDOWN",
                () -> admin.replicaof("127.0.0.1", UNUSED_PORT),
                () -> lane.send(commands -> commands.get(bytes("key"))).block(LONG));
    }

    @Test
    void aNoReplicasErrorReplacesTheConnection() {
        assertReplaced("NOREPLICAS", () -> admin.configSet("min-replicas-to-write", "1"), this::write);
    }

    private void assertReplaced(String code, Runnable change, ThrowingCallable command) {
        long first = id();
        pass(Duration.ofSeconds(1).plusNanos(1));
        change.run();
        assertThatExceptionOfType(RedisCommandExecutionException.class)
                .isThrownBy(command)
                .withMessageStartingWith(code);
        assertThat(id()).isGreaterThan(first);
    }

    @Test
    void aNewConnectionIsKeptForAtLeastASecond() {
        admin.replicaof("127.0.0.1", UNUSED_PORT);
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
        admin.configSet("maxmemory", "1");
        assertRefused("OOM");
        assertThat(id()).isEqualTo(first);
    }

    @Test
    void aDecisionRejectedByAReplicaReplacesTheConnection() {
        try (VirtualTime time = new VirtualTime();
                RedisStore store = RedisStore.builder(client)
                        .deliverOn(Schedulers.immediate())
                        .build()) {
            store.prepare("").retry(3).block(LONG);
            RateLimiter limiter =
                    RateLimiter.builder("demoted").store(new Unprotected(store)).build();
            Charge charge = Charge.of("somebody", Limit.perHour(1_000_000));
            limiter.tryAcquire(charge).block(LONG);
            admin.replicaof("127.0.0.1", UNUSED_PORT);
            assertThatExceptionOfType(LimitStoreException.class)
                    .isThrownBy(() -> limiter.tryAcquire(charge).block(LONG))
                    .is(kind(Kind.UNAVAILABLE))
                    .withMessageContaining("READONLY");
            // The next connection finds out before it is used.
            time.pass(Duration.ofSeconds(1).plusNanos(1));
            await().atMost(LONG)
                    .untilAsserted(() -> assertThatExceptionOfType(LimitStoreException.class)
                            .isThrownBy(() -> limiter.tryAcquire(charge).block(LONG))
                            .is(kind(Kind.UNREACHABLE))
                            .withMessageContaining("is a replica of 127.0.0.1:" + UNUSED_PORT));
            admin.replicaofNoOne();
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

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
