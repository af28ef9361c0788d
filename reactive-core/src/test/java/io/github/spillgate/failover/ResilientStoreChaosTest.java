package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Source;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Failures of Redis under the load of 200 callers, on threads that share a lane and on event loops with lanes. No
 * caller gets an error or waits past the deadline, and afterwards Redis has been charged with all that was granted. The
 * page on failures has a row for each test, with its display name.
 */
@ParameterizedClass
@EnumSource(CallerThreads.Kind.class)
class ResilientStoreChaosTest {

    /** Many times the deadline, and longer than the breaker waits, so that it tries a Redis that still fails. */
    private static final Duration OUTAGE = Duration.ofMillis(Chaos.FULL ? 1_500 : 400);

    private final CallerThreads.Kind threads;
    private Chaos chaos;

    ResilientStoreChaosTest(CallerThreads.Kind threads) {
        this.threads = threads;
    }

    @BeforeEach
    void tell(TestInfo test) {
        Chaos.report("---", test.getDisplayName() + ", " + threads);
    }

    @AfterEach
    void close() {
        chaos.close();
    }

    private BadNetwork beginBehindANetwork() {
        RedisForTests redis = RedisForTests.startOwn();
        BadNetwork network = new BadNetwork(redis.uri().getPort());
        chaos = new Chaos(threads, redis, network).begin();
        return network;
    }

    @Test
    @DisplayName("crashes and restarts without its data")
    void crashAndEmptyRestart() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        chaos.kill();
        chaos.restart();
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertTheNewRedisHoldsWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("is down for a while")
    void downForAWhile() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        chaos.kill();
        chaos.awaitOutage(OUTAGE);
        chaos.restart();
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertTheNewRedisHoldsWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("crashes after reconciliation and restarts without its data")
    void crashAfterReconciliation() {
        RedisForTests redis = RedisForTests.startOwn();
        redis.kill();
        chaos = new Chaos(threads, redis).beginWithoutRedis();
        chaos.awaitOutage(OUTAGE);
        redis.restart();
        chaos.awaitRecovery();
        chaos.awaitNothingToReconcile();
        chaos.kill();
        chaos.awaitOutage(Duration.ZERO);
        chaos.restart();
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertTheNewRedisHoldsWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("hangs for less than the deadline")
    void hangShorterThanTheDeadline() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        for (int i = 0; i < 20; i++) {
            chaos.redis().pause();
            chaos.redis().resume();
            chaos.awaitMoreFrom(Source.REDIS, 500);
        }
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @DisplayName("hangs for longer than the deadline")
    void hangLongerThanTheDeadline() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        chaos.redis().pause();
        chaos.awaitOutage(OUTAGE);
        chaos.redis().resume();
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @DisplayName("is slower than the deadline")
    void slowerThanTheDeadline() {
        BadNetwork network = beginBehindANetwork();
        network.delayReplies(() -> 150);
        chaos.awaitOutage(OUTAGE);
        network.delayReplies(() -> 0);
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("is sometimes slower than the deadline")
    void sometimesSlowerThanTheDeadline() {
        BadNetwork network = beginBehindANetwork();
        // The delay must rise slowly: replies stay in order, so each is at least as late as those before it. It starts
        // low, because a busy machine adds its own.
        network.delayReplies(() -> 10 + TimeUnit.NANOSECONDS.toMillis(System.nanoTime()) / 8 % 110);
        chaos.awaitMoreFrom(Source.LOCAL, 1_000);
        chaos.awaitMoreFrom(Source.REDIS, 200);
        chaos.awaitMoreFrom(Source.LOCAL, 1_000);
        network.delayReplies(() -> 0);
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("is unreachable because the network drops packets")
    void networkDropsPackets() {
        BadNetwork network = beginBehindANetwork();
        network.dropPackets();
        chaos.awaitOutage(OUTAGE);
        network.restore();
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("is reachable only on new connections")
    void reachableOnlyOnNewConnections() {
        BadNetwork network = beginBehindANetwork();
        network.dropPackets();
        network.restoreNewConnections();
        chaos.awaitOutage(Duration.ZERO);
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsAtLeastWhatWasGranted();
    }

    @Test
    @DisplayName("is down when the application starts")
    void downWhenTheApplicationStarts() {
        RedisForTests redis = RedisForTests.startOwn();
        redis.kill();
        chaos = new Chaos(threads, redis).beginWithoutRedis();
        chaos.awaitOutage(OUTAGE);
        assertThat(chaos.state().source()).isEqualTo(Source.LOCAL);
        // The last trial may have been too late for its deadline instead, on a busy machine.
        await().until(() -> chaos.state().problem().orElse("none").contains("no connection"));
        redis.restart();
        chaos.awaitRecovery();
        assertThat(chaos.state().problem()).isEmpty();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @DisplayName("becomes read-only")
    void readOnly() {
        try (RedisForTests primary = RedisForTests.startOwn()) {
            // A replica of one that never answers keeps what it has.
            primary.pause();
            chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
            RedisURI uri = primary.uri();
            chaos.command(redis -> redis.replicaof(uri.getHost(), uri.getPort()));
            chaos.awaitOutage(OUTAGE);
            // As it says of a write, and a moment later of a new connection.
            await().until(() -> chaos.state()
                    .problem()
                    .filter(problem -> problem.contains("READONLY") || problem.contains("is a replica of"))
                    .isPresent());
            chaos.command(RedisCommands::replicaofNoOne);
            chaos.awaitRecovery();
            chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
        }
    }

    @Test
    @Thorough
    @DisplayName("is out of memory")
    void outOfMemory() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        chaos.command(redis -> redis.configSet("maxmemory", "1"));
        chaos.awaitMoreFrom(Source.LOCAL, 5_000);
        await().until(() -> chaos.state().problem().orElse("none").contains("OOM"));
        chaos.command(redis -> redis.configSet("maxmemory", "0"));
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("is paused with CLIENT PAUSE")
    void paused() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        chaos.command(redis -> redis.clientPause(Chaos.FULL ? 2_000 : 600));
        chaos.awaitOutage(OUTAGE);
        chaos.awaitRecovery();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @DisplayName("loses its scripts to SCRIPT FLUSH")
    void scriptsFlushed() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        for (int i = 0; i < 100; i++) {
            chaos.command(RedisCommands::scriptFlush);
            chaos.awaitMoreFrom(Source.REDIS, 100);
        }
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @DisplayName("closes its connections")
    void connectionsKilled() {
        chaos = new Chaos(threads, RedisForTests.startOwn()).begin();
        for (int i = 0; i < 2; i++) {
            // Once may not be enough: a connection that is soon replaced may have no request in flight.
            chaos.repeatUntilMoreFrom(
                    Source.LOCAL,
                    1_000,
                    () -> chaos.command(redis ->
                            redis.clientKill(KillArgs.Builder.typeNormal().skipme())));
            chaos.awaitRecovery();
        }
        chaos.end().assertCallersUnaffected().assertRedisHoldsAtLeastWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("closes a connection before it replies")
    void repliesLost() {
        BadNetwork network = beginBehindANetwork();
        for (int i = 0; i < 2; i++) {
            // Once may not be enough: the lane that loses its connection may have few decisions in flight.
            chaos.repeatUntilMoreFrom(Source.LOCAL, 1_000, network::loseNextReply);
            await().until(network::hasLostReply);
            chaos.awaitRecovery();
        }
        chaos.end().assertCallersUnaffected().assertRedisHoldsAtLeastWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("rejects the password")
    void wrongPassword() {
        RedisForTests redis = RedisForTests.startOwn();
        RedisURI uri = redis.uri();
        uri.setCredentialsProvider(new StaticCredentialsProvider(null, "wrong".toCharArray()));
        // Before the limiter is made, which connects at once.
        RedisClient administrator = RedisClient.create(redis.uri());
        RedisCommands<String, String> commands = administrator.connect().sync();
        commands.configSet("requirepass", "right");
        chaos = new Chaos(threads, redis, uri);
        chaos.beginWithoutRedis().awaitOutage(OUTAGE);
        await().untilAsserted(() -> assertThat(chaos.state().problem())
                .get()
                .asString()
                .contains("WRONGPASS")
                .contains("valid user and password"));
        commands.configSet("requirepass", "wrong");
        chaos.awaitRecovery();
        commands.configSet("requirepass", "");
        administrator.shutdown();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }

    @Test
    @Thorough
    @DisplayName("is down and four instances have a quarter each")
    void downWithFourInstances() {
        RedisForTests redis = RedisForTests.startOwn();
        redis.kill();
        chaos = new Chaos(threads, redis, 0.25).beginWithoutRedis();
        chaos.awaitOutage(OUTAGE);
        chaos.markRepaired();
        redis.restart();
        chaos.awaitRedisDecides();
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
    }
}
