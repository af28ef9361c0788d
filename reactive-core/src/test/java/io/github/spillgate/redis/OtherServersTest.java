package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import java.util.List;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The tests of the Redis store on every server at hand after the first, such as older versions and Valkey. The fast
 * tests run on the first alone.
 */
@Thorough
class OtherServersTest {

    private static final String ALL = "io.github.spillgate.redis.OtherServersTest#all";
    private static final String PROGRAMS = "io.github.spillgate.redis.OtherServersTest#programs";
    private static final String PROGRAMS_WITH_TLS = "io.github.spillgate.redis.OtherServersTest#programsWithTls";
    private static final String BINARIES = "io.github.spillgate.redis.OtherServersTest#binaries";

    static List<RedisForTests> all() {
        return afterTheFirst(RedisForTests.all());
    }

    static List<RedisForTests> programs() {
        return afterTheFirst(RedisForTests.programs());
    }

    static List<RedisForTests> programsWithTls() {
        return afterTheFirst(RedisForTests.programsWithTls());
    }

    static List<RedisBinary> binaries() {
        return afterTheFirst(RedisBinary.all());
    }

    private static <T> List<T> afterTheFirst(List<T> servers) {
        return servers.subList(1, servers.size());
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class Contract extends RedisStoreContractTest {
        Contract(RedisForTests redis) {
            this.redis = redis;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(BINARIES)
    class ClusterContract extends ClusterStoreContractTest {

        private static RedisClusterForTests cluster;

        private final RedisBinary binary;

        ClusterContract(RedisBinary binary) {
            this.binary = binary;
        }

        @BeforeParameterizedClassInvocation
        static void start(RedisBinary binary) {
            cluster = RedisClusterForTests.start(binary, 3, 0);
            connect(cluster);
        }

        @AfterParameterizedClassInvocation
        static void stop() {
            disconnect();
            cluster.close();
        }

        @Test
        void theNodesDecideAndAreOfThisProgram() {
            RateLimiter limiter = Unprotected.limiter(store(), Limit.perHour(5));
            limiter.tryAcquire("a").block();
            assertThat(cluster.nodes())
                    .allSatisfy(
                            node -> assertThat(node.commands().info("server")).contains("executable:" + binary.path()));
            assertThat(cluster.nodes())
                    .anySatisfy(node -> assertThat(node.commands().dbsize()).isPositive());
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(BINARIES)
    class ServerKind extends ServerKindTest {

        private static RedisClusterForTests cluster;

        ServerKind(RedisBinary binary) {}

        @BeforeParameterizedClassInvocation
        static void start(RedisBinary binary) {
            cluster = RedisClusterForTests.start(binary, 3, 0);
            start(cluster, binary);
        }

        @AfterParameterizedClassInvocation
        static void stopOthers() {
            stop();
            cluster.close();
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class Store extends RedisStoreTest {
        Store(RedisForTests redis) {
            this.redis = redis;
            sweptMillis = 800;
        }
    }

    @Nested
    class StoreSweptForLonger extends RedisStoreTest {
        StoreSweptForLonger() {
            sweptMillis = 800;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class Reconciliations extends ReconcileTest {
        Reconciliations(RedisForTests redis) {
            this.redis = redis;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class ReconciliationOracle extends ReconcileOracleTest {
        ReconciliationOracle(RedisForTests redis) {
            this.redis = redis;
            histories = 50;
        }
    }

    @Nested
    class ReconciliationOracleInManyRuns extends ReconcileOracleTest {
        ReconciliationOracleInManyRuns() {
            histories = 50;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class Memory extends RedisMemoryTest {
        Memory(RedisForTests redis) {
            this.redis = redis;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(PROGRAMS)
    class Acl extends AclTest {
        Acl(RedisForTests program) {
            servers = program::another;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(PROGRAMS)
    class Database extends DatabaseTest {
        Database(RedisForTests program) {
            servers = program::another;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(PROGRAMS)
    class Replica extends ReplicaTest {
        Replica(RedisForTests program) {
            servers = program::another;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(PROGRAMS_WITH_TLS)
    class Tls extends TlsTest {
        Tls(RedisForTests program) {
            this.program = program;
        }
    }
}
