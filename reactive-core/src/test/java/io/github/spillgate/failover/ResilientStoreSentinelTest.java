package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Another Redis takes the place of the primary, while 200 callers do not pause: none of them notices, and Redis decides
 * again without anybody being told.
 *
 * <p>A replica learns what its primary has granted a moment later, and Redis does not wait for that. So what is granted
 * just before a failover, or by an old primary that does not know yet that it is none, may be lost; nobody can do
 * anything about it. What can be promised, and is shown here: what had been replicated counts, together with all that
 * the new primary grants; each of the two keeps to every limit by itself, so that no window holds more than twice its
 * permits, whatever is lost; and the new one holds all that was replicated, all that it has granted, and all that was
 * granted in its place after the old one was out of reach.
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

    /** For what takes long. */
    static List<RedisBinary> first() {
        return List.of(RedisBinary.first());
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
        chaos.end().assertNobodyNoticed().assertRedisHoldsExactlyWhatWasGranted();
        assertAllKeysExpire(primary);
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void thePrimaryIsKilled(RedisBinary binary) {
        RedisNode old = begin(binary);
        sentinel.holdFailover();
        failoverBegins(old);
        old.kill();
        chaos.awaitOutage(Duration.ofMillis(500));
        chaos.ledger().nobodyIsPrimary();
        sentinel.allowFailover();
        RedisNode now = failoverIsOver(old);
        endOn(now);
    }

    @ParameterizedTest
    @MethodSource("first")
    void thePrimaryAndASentinelAreGoneTogether(RedisBinary binary) {
        RedisNode old = begin(binary);
        // The one that the client asks first.
        sentinel.sentinels().get(0).pause();
        failoverBegins(old);
        old.kill();
        RedisNode now = failoverIsOver(old);
        endOn(now);
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void thePrimaryHangsAndComesBackAsReplica(RedisBinary binary) {
        RedisNode old = begin(binary);
        sentinel.holdFailover();
        failoverBegins(old);
        old.pause();
        // Until it has been silent for so long that nobody asks it any more.
        chaos.awaitOutage(Duration.ofSeconds(3));
        chaos.ledger().nobodyIsPrimary();
        sentinel.allowFailover();
        RedisNode now = failoverIsOver(old);

        old.resume();
        sentinel.awaitAllFollow(now);
        assertNobodyAsks(old, now);
        endOn(now);
    }

    @ParameterizedTest
    @MethodSource("first")
    void thePrimaryIsReplacedAsPlanned(RedisBinary binary) {
        RedisNode old = begin(binary);
        failoverBegins(old);
        sentinel.failover();
        RedisNode now = failoverIsOver(old);
        assertNobodyAsks(old, now);
        endOn(now);
    }

    @ParameterizedTest
    @MethodSource("first")
    void thePrimaryIsReplacedAsPlannedWhereItGrantsNothingWithoutReplicas(RedisBinary binary) {
        RedisNode old = begin(binary);
        sentinel.servers().forEach(server -> server.commands().configSet("min-replicas-to-write", "1"));
        failoverBegins(old);
        sentinel.failover();
        endOn(failoverIsOver(old));
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void thePrimaryIsMadeAReplicaByHandAndKeepsItsConnections(RedisBinary binary) {
        RedisNode old = begin(binary);
        sentinel.holdFailover();
        failoverBegins(old);
        RedisNode now = sentinel.servers().get(1);
        now.commands().replicaofNoOne();
        old.commands().replicaof("127.0.0.1", now.port());
        await().atMost(Chaos.PATIENCE)
                // As it says of a write, and a moment later of a new connection.
                .until(() -> chaos.state()
                        .problem()
                        .filter(problem -> problem.contains("READONLY") || problem.contains("is a replica of"))
                        .isPresent());
        sentinel.monitor(now);
        assertThat(failoverIsOver(old)).isEqualTo(now);
        assertNobodyAsks(old, now);
        endOn(now);
    }

    /** Lets the callers come, and returns the primary. */
    private RedisNode begin(RedisBinary binary) {
        sentinel = SentinelForTests.start(binary, REPLICAS);
        chaos = new Chaos(sentinel.uri()).begin();
        return sentinel.primary();
    }

    /** Makes sure that all replicas know of all that has been granted so far, and none of our scripts. */
    private void failoverBegins(RedisNode primary) {
        for (RedisNode server : sentinel.servers()) {
            if (server != primary) {
                server.commands().scriptFlush();
                server.commands().configResetstat();
            }
        }
        chaos.ledger().failoverBegins();
        RedisCommands<String, String> commands = primary.commands();
        commands.set("behind all", "of that", SetArgs.Builder.px(Duration.ofMinutes(10)));
        assertThat(commands.waitForReplication(REPLICAS, Chaos.PATIENCE.toMillis()))
                .isEqualTo(REPLICAS);
    }

    /** Waits until another primary decides, without anybody having been told. */
    private RedisNode failoverIsOver(RedisNode old) {
        chaos.repaired();
        RedisNode now = sentinel.awaitNewPrimary(old);
        chaos.ledger().failoverIsOver();
        awaitDecisionsOf(now);
        chaos.awaitRedisDecides();
        assertThat(stats(now)).containsPattern("cmdstat_script(\\|load)?:");
        return now;
    }

    private static void awaitDecisionsOf(RedisNode primary) {
        long before = calls(primary, "evalsha");
        await().atMost(Chaos.PATIENCE).until(() -> calls(primary, "evalsha") > before + 200);
    }

    private static void assertNobodyAsks(RedisNode old, RedisNode now) {
        long before = calls(old, "evalsha");
        awaitDecisionsOf(now);
        assertThat(calls(old, "evalsha")).isEqualTo(before);
    }

    private void endOn(RedisNode primary) {
        await().atMost(Chaos.PATIENCE).untilAsserted(() -> {
            List<Long> numbers = chaos.ledger().shortOnesAndThoseThatRedisGrantsAgain();
            assertThat(numbers.get(1)).isEqualTo(numbers.get(0)).isPositive();
        });
        chaos.end().assertNobodyNoticed().assertRedisHoldsAtLeastWhatWasGranted();
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
        // Sentinel hangs up on all clients of a server that it makes a replica, on the test as well.
        return await().atMost(Chaos.PATIENCE)
                .ignoreExceptionsInstanceOf(RedisException.class)
                .until(() -> node.commands().info("commandstats"), stats -> true);
    }

    /** How often a server has been asked so. */
    private static long calls(RedisNode node, String command) {
        Matcher calls = Pattern.compile("cmdstat_" + command + ":calls=(\\d+)").matcher(stats(node));
        return calls.find() ? Long.parseLong(calls.group(1)) : 0;
    }
}
