package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

@Thorough
@ParameterizedClass
@MethodSource("io.github.spillgate.testkit.RedisBinary#all")
class RedisClusterForTestsTest {

    private static final String KEY = "key";
    private static final int SLOT = SlotHash.getSlot(KEY);

    /** For the tests that leave it in agreement, though not as they have found it. */
    private static RedisClusterForTests cluster;

    @Parameter
    RedisBinary binary;

    @BeforeParameterizedClassInvocation
    static void start(RedisBinary binary) {
        cluster = RedisClusterForTests.start(binary, 3, 1);
    }

    @AfterParameterizedClassInvocation
    static void stop() {
        cluster.close();
    }

    @Test
    void aNewClusterServesAllSlotsAndEachPrimaryHasItsReplica() {
        try (RedisClusterForTests fresh = RedisClusterForTests.start(binary, 3, 1);
                RedisClusterClient client = RedisClusterClient.create(fresh.uris());
                StatefulRedisClusterConnection<String, String> connection = client.connect()) {
            for (int i = 0; i < 1_000; i++) {
                connection.sync().set("key-" + i, "value-" + i);
            }

            List<RedisNode> primaries = fresh.nodes().subList(0, 3);
            assertThat(primaries).allMatch(RedisNode::isPrimary);
            assertThat(primaries)
                    .allSatisfy(
                            primary -> assertThat(primary.commands().dbsize()).isBetween(200L, 500L));
            for (int i = 0; i < 3; i++) {
                RedisNode replica = fresh.nodes().get(3 + i);
                assertThat(replica.isPrimary()).isFalse();
                assertThat(fresh.replicasOf(primaries.get(i))).containsExactly(replica);
            }
            assertThat(fresh.primaryOf(0)).isEqualTo(primaries.get(0));
            assertThat(fresh.primaryOf(RedisClusterForTests.SLOTS - 1)).isEqualTo(primaries.get(2));
        }
    }

    @Test
    void aKilledPrimaryIsReplacedAndReturnsAsReplica() {
        RedisNode old = cluster.primaryOf(KEY);
        RedisNode replica = cluster.replicasOf(old).get(0);
        old.commands().set(KEY, "value");
        assertThat(old.commands().waitForReplication(1, 20_000)).isEqualTo(1);

        old.kill();

        assertThat(cluster.awaitNewPrimaryOf(SLOT, old)).isEqualTo(replica);
        assertThat(replica.commands().get(KEY)).isEqualTo("value");

        old.restart();
        cluster.awaitAgreement();
        assertThat(cluster.replicasOf(replica)).containsExactly(old);
    }

    @Test
    @DisabledOnOs(OS.WINDOWS)
    void aPausedPrimaryIsReplacedAndReturnsAsReplica() {
        RedisNode old = cluster.primaryOf(KEY);

        old.pause();
        RedisNode now = cluster.awaitNewPrimaryOf(SLOT, old);

        old.resume();
        cluster.awaitAgreement();
        assertThat(cluster.primaryOf(SLOT)).isEqualTo(now);
        assertThat(cluster.replicasOf(now)).containsExactly(old);
    }

    @Test
    void aManualFailoverPromotesTheReplica() {
        RedisNode old = cluster.primaryOf(KEY);
        RedisNode replica = cluster.replicasOf(old).get(0);

        cluster.failover(replica);

        assertThat(cluster.primaryOf(KEY)).isEqualTo(replica);
        assertThat(cluster.replicasOf(replica)).containsExactly(old);
    }

    @Test
    void theSourceRedirectsDuringTheMigrationOfASlot() {
        RedisNode source = cluster.primaryOf(KEY);
        RedisNode target = cluster.nodes().stream()
                .filter(node -> node != source)
                .findFirst()
                .orElseThrow();
        source.commands().set(KEY, "value");
        AtomicBoolean wasMidway = new AtomicBoolean();

        cluster.migrateSlot(SLOT, target, () -> {
            assertThatExceptionOfType(RedisCommandExecutionException.class)
                    .isThrownBy(() -> source.commands().get(KEY))
                    .withMessage("ASK " + SLOT + " 127.0.0.1:" + target.port());
            wasMidway.set(true);
        });

        assertThat(wasMidway).isTrue();
        assertThat(cluster.primaryOf(KEY)).isEqualTo(target);
        assertThat(target.commands().get(KEY)).isEqualTo("value");
        assertThatExceptionOfType(RedisCommandExecutionException.class)
                .isThrownBy(() -> source.commands().get(KEY))
                .withMessage("MOVED " + SLOT + " 127.0.0.1:" + target.port());
    }

    @Test
    void aClosedClusterLeavesNoProcessesAndNoDirectories() {
        RedisClusterForTests fresh = RedisClusterForTests.start(binary, 2, 1);
        List<Long> pids = fresh.nodes().stream().map(RedisNode::pid).toList();
        List<Path> directories =
                fresh.nodes().stream().map(node -> node.process().directory()).toList();
        assertThat(pids).allMatch(RedisClusterForTestsTest::isAlive);
        assertThat(directories).allSatisfy(directory -> assertThat(directory).exists());

        fresh.close();

        assertThat(pids).noneMatch(RedisClusterForTestsTest::isAlive);
        assertThat(directories).allSatisfy(directory -> assertThat(directory).doesNotExist());
    }

    private static boolean isAlive(long pid) {
        return ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
    }
}
