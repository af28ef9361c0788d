package io.github.spillgate.redis;

import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** The contract in a cluster, where the counts of one decision are on several nodes: callers see no difference. */
class ClusterStoreContractTest extends LimitStoreContract {

    private static @Nullable RedisClusterClient client;
    private static @Nullable RedisStore store;

    @BeforeAll
    static void connectToTheSharedCluster() {
        connect(RedisClusterForTests.shared());
    }

    /** From now on the contract is tested on this cluster. */
    static void connect(RedisClusterForTests cluster) {
        disconnect();
        client = RedisClusterClient.create(cluster.uris());
        store = RedisStore.builder(client).longestPeek(Duration.ofMinutes(1)).build();
    }

    @AfterAll
    static void disconnect() {
        if (store != null) {
            store.close();
            client.shutdown(0, 1, TimeUnit.SECONDS);
            store = null;
        }
    }

    @Override
    protected LimitStore store() {
        return store;
    }
}
