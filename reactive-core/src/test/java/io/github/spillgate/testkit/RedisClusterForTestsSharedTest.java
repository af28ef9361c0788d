package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import io.lettuce.core.cluster.SlotHash;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class RedisClusterForTestsSharedTest {

    private static final String KEY = "key";
    private static final int SLOT = SlotHash.getSlot(KEY);

    private final RedisClusterForTests cluster = RedisClusterForTests.shared();
    private final RedisNode owner = cluster.primaryOf(SLOT);
    private final RedisNode other =
            cluster.nodes().stream().filter(node -> node != owner).findFirst().orElseThrow();

    @BeforeEach
    void write() {
        owner.commands().set(KEY, "value");
    }

    @AfterEach
    void assertRestored() {
        assertThat(RedisClusterForTests.shared()).isSameAs(cluster);
        assertThat(cluster.primaryOf(SLOT)).isEqualTo(owner);
        assertThat(cluster.nodes()).allSatisfy(node -> {
            assertThat(node.commands().dbsize()).isZero();
            assertThat(node.commands().clusterNodes()).doesNotContain("[");
            assertThat(node.commands().clusterInfo()).contains("cluster_state:ok", "cluster_slots_ok:16384");
        });
        // Each node takes it: no slot is about to leave.
        owner.commands().set(KEY, "value");
        owner.commands().del(KEY);
    }

    @Test
    void aMigratedSlotIsReturnedToItsOwner() {
        cluster.migrateSlot(SLOT, other, () -> {});
        assertThat(cluster.primaryOf(SLOT)).isEqualTo(other);
    }

    @Test
    void anUnfinishedMigrationIsEnded() {
        cluster.beginMigration(SLOT, other);
    }

    @Test
    void anUnfinishedMigrationWithMovedKeysIsEnded() {
        cluster.beginMigration(SLOT, other);
        cluster.moveKeys(SLOT, other);
    }

    @Test
    void aSlotWithDisputedOwnershipIsReturned() {
        owner.commands().del(KEY);
        owner.commands().clusterSetSlotNode(SLOT, other.id());
    }

    @Test
    void anUnassignedSlotIsReturnedToItsOwner() {
        List<RedisNode> nodes = cluster.nodes();
        nodes.forEach(node -> node.commands().configSet("cluster-require-full-coverage", "no"));
        nodes.forEach(node -> node.commands().clusterDelSlots(SLOT));
        RedisClusterForTests.shared();
        nodes.forEach(node -> node.commands().configSet("cluster-require-full-coverage", "yes"));
    }
}
