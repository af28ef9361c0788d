package io.github.spillgate.redis;

import io.github.spillgate.LimitStore;
import io.github.spillgate.testkit.LimitStoreContract;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** The contract in a cluster, where the counts of one decision lie on several nodes: whoever asks sees no difference. */
@ParameterizedClass
@MethodSource("everyBinary")
class ClusterStoreContractTest extends LimitStoreContract {

    @Parameter
    RedisBinary binary;

    private static RedisClusterForTests cluster;
    private static RedisClusterClient client;
    private static RedisStore store;

    static List<RedisBinary> everyBinary() {
        return RedisBinary.all();
    }

    @BeforeParameterizedClassInvocation
    static void start(RedisBinary binary) {
        cluster = RedisClusterForTests.start(binary, 3, 0);
        client = RedisClusterClient.create(cluster.uris());
        store = RedisStore.builder(client).longestPeek(Duration.ofMinutes(1)).build();
    }

    @AfterParameterizedClassInvocation
    static void stop() {
        store.close();
        client.shutdown();
        cluster.close();
    }

    @Override
    protected LimitStore store() {
        return store;
    }
}
