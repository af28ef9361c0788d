package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Source;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.SentinelForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisException;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A Sentinel failover under the load of 200 callers: no caller gets an error or waits past the deadline, and the new
 * primary decides without any configuration.
 *
 * <p>Replication is asynchronous: grants shortly before a failover, or of a demoted primary, may be lost. These tests
 * show what holds all the same. Each primary keeps every limit by itself, so that no window holds more than twice its
 * permits. The new primary holds all replicated grants, its own grants, and the local grants of the outage.
 */
@Thorough
class ResilientStoreSentinelTest {

    private static final String ALL = "io.github.spillgate.testkit.RedisBinary#all";
    private static final int REPLICAS = 2;

    private SentinelForTests sentinel;
    private Chaos chaos;

    @AfterEach
    void close() {
        if (chaos != null) {
            chaos.close();
        }
        if (sentinel != null) {
            sentinel.close();
        }
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void thePrimaryThatSentinelNamesDecides(RedisBinary binary) {
        begin(binary);
        RedisNode primary = sentinel.primary();
        sentinel.servers()
                .forEach(server -> assertThat(calls(server, "evalsha") > 0)
                        .as("%s decides", server)
                        .isEqualTo(server == primary));
        chaos.end().assertCallersUnaffected().assertRedisHoldsExactlyWhatWasGranted();
        assertAllKeysExpire(primary);
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void theNewPrimaryDecidesAfterThePrimaryIsKilled(RedisBinary binary) {
        RedisNode old = begin(binary);
        beginFailover(old);
        old.kill();
        chaos.awaitOutage(Duration.ofMillis(500));
        chaos.ledger().recordPrimaryUnreachable();
        sentinel.allowFailover();
        RedisNode now = awaitFailover(old);
        endOn(now);
    }

    @Test
    void theNewPrimaryDecidesAfterThePrimaryAndASentinelFail() {
        RedisNode old = begin(RedisBinary.first());
        // The client connects to this Sentinel first.
        sentinel.sentinels().get(0).pause();
        beginFailover(old);
        sentinel.allowFailover();
        old.kill();
        RedisNode now = awaitFailover(old);
        endOn(now);
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void theNewPrimaryDecidesAfterThePrimaryHangs(RedisBinary binary) {
        RedisNode old = begin(binary);
        beginFailover(old);
        old.pause();
        // Longer than the client keeps a silent connection.
        chaos.awaitOutage(Duration.ofSeconds(3));
        chaos.ledger().recordPrimaryUnreachable();
        sentinel.allowFailover();
        RedisNode now = awaitFailover(old);

        old.resume();
        sentinel.awaitAllFollow(now);
        assertNotCalled(old, now);
        endOn(now);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void theNewPrimaryDecidesAfterAPlannedFailover(int minReplicas) {
        RedisNode old = begin(RedisBinary.first());
        sentinel.servers()
                .forEach(server -> server.commands().configSet("min-replicas-to-write", Integer.toString(minReplicas)));
        beginFailover(old);
        sentinel.failover();
        RedisNode now = awaitFailover(old);
        assertNotCalled(old, now);
        endOn(now);
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void theNewPrimaryDecidesAfterAManualDemotion(RedisBinary binary) {
        RedisNode old = begin(binary);
        beginFailover(old);
        RedisNode now = sentinel.servers().get(1);
        sentinel.holdRoles();
        now.commands().replicaofNoOne();
        old.commands().replicaof("127.0.0.1", now.port());
        await().atMost(Chaos.PATIENCE)
                // As it says of a write, and a moment later of a new connection.
                .until(() -> chaos.state()
                        .problem()
                        .filter(problem -> problem.contains("READONLY") || problem.contains("is a replica of"))
                        .isPresent());
        sentinel.monitor(now);
        assertThat(awaitFailover(old)).isEqualTo(now);
        assertNotCalled(old, now);
        endOn(now);
    }

    /** It charges local grants after the promotion of another, and loses them. They may be granted again, once. */
    @Test
    void theNewPrimaryDecidesAfterALateDemotion() {
        RedisNode old = begin(RedisBinary.first());
        beginFailover(old);
        RedisNode now = sentinel.servers().get(1);
        sentinel.holdRoles();
        now.commands().replicaofNoOne();
        stall(old);
        old.commands().replicaof("127.0.0.1", now.port());
        sentinel.monitor(now);
        assertThat(awaitFailover(old)).isEqualTo(now);
        stall(now);
        endOn(now);
    }

    /** Lets the local store decide, and Redis charge that. */
    private void stall(RedisNode primary) {
        primary.pause();
        chaos.awaitMoreFrom(Source.LOCAL, 50_000);
        primary.resume();
        chaos.awaitRedisDecides();
    }

    /** Starts the callers and returns the primary. */
    private RedisNode begin(RedisBinary binary) {
        sentinel = SentinelForTests.start(binary, REPLICAS);
        chaos = new Chaos(CallerThreads.Kind.PARALLEL, sentinel.uri()).begin();
        return sentinel.primary();
    }

    /** Waits until the replicas have all grants so far, and removes our scripts from them. */
    private void beginFailover(RedisNode primary) {
        assertThat(sentinel.primary()).isEqualTo(primary);
        for (RedisNode server : sentinel.servers()) {
            if (server != primary) {
                server.commands().scriptFlush();
                server.commands().configResetstat();
            }
        }
        chaos.ledger().recordFailoverStart();
        RedisCommands<String, String> commands = primary.commands();
        commands.set("behind all", "of that", SetArgs.Builder.px(Duration.ofMinutes(10)));
        assertThat(commands.waitForReplication(REPLICAS, Chaos.PATIENCE.toMillis()))
                .isEqualTo(REPLICAS);
    }

    /** Waits until another primary decides. */
    private RedisNode awaitFailover(RedisNode old) {
        chaos.markRepaired();
        RedisNode now = sentinel.awaitNewPrimary(old);
        // A second failover, because a process did not run for a second, would lose grants that the ledger expects.
        sentinel.holdFailover();
        chaos.ledger().recordFailoverEnd();
        awaitDecisionsOf(now);
        chaos.awaitRedisDecides();
        assertThat(calls(now, "eval")).as("scripts sent to the new primary").isPositive();
        return now;
    }

    private static void awaitDecisionsOf(RedisNode primary) {
        long before = calls(primary, "evalsha");
        await().atMost(Chaos.PATIENCE).until(() -> calls(primary, "evalsha") > before + 200);
    }

    private static void assertNotCalled(RedisNode old, RedisNode now) {
        long before = calls(old, "evalsha");
        awaitDecisionsOf(now);
        assertThat(calls(old, "evalsha")).isEqualTo(before);
    }

    private void endOn(RedisNode primary) {
        await().atMost(Chaos.PATIENCE).untilAsserted(() -> {
            List<Long> numbers = chaos.ledger().shortCountsAndThoseGrantedAgain();
            assertThat(numbers.get(1)).isEqualTo(numbers.get(0)).isPositive();
        });
        chaos.end().assertCallersUnaffected().assertRedisHoldsAtLeastWhatWasGranted();
        assertAllKeysExpire(primary);
    }

    private static void assertAllKeysExpire(RedisNode primary) {
        RedisCommands<String, String> commands = primary.commands();
        List<String> keys = commands.keys("*");
        assertThat(keys).isNotEmpty();
        assertThat(keys)
                .allSatisfy(key -> assertThat(commands.pttl(key)).as(key).isNotEqualTo(-1));
    }

    private static String stats(RedisNode node) {
        // Sentinel closes all client connections of a server that it demotes, including that of the test.
        return await().atMost(Chaos.PATIENCE)
                .ignoreExceptionsInstanceOf(RedisException.class)
                .until(() -> node.commands().info("commandstats"), stats -> true);
    }

    /** Returns how often a server has executed this command. */
    private static long calls(RedisNode node, String command) {
        Matcher calls = Pattern.compile("cmdstat_" + command + ":calls=(\\d+)").matcher(stats(node));
        return calls.find() ? Long.parseLong(calls.group(1)) : 0;
    }
}
