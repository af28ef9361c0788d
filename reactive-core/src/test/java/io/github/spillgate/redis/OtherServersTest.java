package io.github.spillgate.redis;

import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import java.util.List;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The tests of the Redis store on every server at hand after the first, such as older versions and Valkey. The fast tests run on
 * the first alone.
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

        ClusterContract(RedisBinary binary) {}

        @BeforeParameterizedClassInvocation
        static void start(RedisBinary binary) {
            own = RedisClusterForTests.start(binary, 3, 0);
        }

        @AfterParameterizedClassInvocation
        static void stop() {
            own.close();
            own = null;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(BINARIES)
    class ServerKind extends ServerKindTest {

        ServerKind(RedisBinary binary) {}

        @BeforeParameterizedClassInvocation
        static void choose(RedisBinary binary) {
            other = binary;
        }

        @AfterParameterizedClassInvocation
        static void unchoose() {
            other = null;
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
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class Settlements extends SettleTest {
        Settlements(RedisForTests redis) {
            this.redis = redis;
        }
    }

    @Nested
    @ParameterizedClass(allowZeroInvocations = true)
    @MethodSource(ALL)
    class SettlementOracle extends SettleOracleTest {
        SettlementOracle(RedisForTests redis) {
            this.redis = redis;
        }
    }

    @Nested
    class SettlementOracleInManyRuns extends SettleOracleTest {
        SettlementOracleInManyRuns() {
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
