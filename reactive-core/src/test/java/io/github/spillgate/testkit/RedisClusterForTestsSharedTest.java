package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import io.lettuce.core.cluster.SlotHash;
import java.util.List;
import org.junit.jupiter.api.Test;

class RedisClusterForTestsSharedTest {

    private static final String KEY = "key";
    private static final int SLOT = SlotHash.getSlot(KEY);

    private final RedisClusterForTests cluster = RedisClusterForTests.shared();
    private final RedisNode owner = cluster.primaryOf(SLOT);
    private final RedisNode other =
            cluster.nodes().stream().filter(node -> node != owner).findFirst().orElseThrow();

    @Test
    void itIsRestoredWhateverATestHasLeft() {
        assertRestoredAfter(() -> cluster.migrateSlot(SLOT, other, () -> {}));
        assertRestoredAfter(() -> cluster.beginMigration(SLOT, other));
        assertRestoredAfter(() -> {
            cluster.beginMigration(SLOT, other);
            cluster.moveKeys(SLOT, other);
        });
        assertRestoredAfter(() -> {
            owner.commands().del(KEY);
            owner.commands().clusterSetSlotNode(SLOT, other.id());
        });
        assertRestoredAfter(() -> {
            List<RedisNode> nodes = cluster.nodes();
            nodes.forEach(node -> node.commands().configSet("cluster-require-full-coverage", "no"));
            nodes.forEach(node -> node.commands().clusterDelSlots(SLOT));
            RedisClusterForTests.shared();
            nodes.forEach(node -> node.commands().configSet("cluster-require-full-coverage", "yes"));
        });
    }

    private void assertRestoredAfter(Runnable test) {
        owner.commands().set(KEY, "value");
        test.run();
        assertThat(RedisClusterForTests.shared()).isSameAs(cluster);
        assertThat(cluster.primaryOf(SLOT)).isEqualTo(owner);
        assertThat(cluster.nodes()).allSatisfy(node -> {
            assertThat(node.commands().dbsize()).isZero();
            assertThat(node.commands().clusterNodes()).doesNotContain("[");
            assertThat(node.commands().clusterInfo()).contains("cluster_state:ok", "cluster_slots_ok:16384");
        });
        // The node takes it: the slot is not about to be migrated.
        owner.commands().set(KEY, "value");
        owner.commands().del(KEY);
    }
}
