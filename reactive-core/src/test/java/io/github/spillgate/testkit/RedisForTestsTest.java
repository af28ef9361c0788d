package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.util.Throwables.getStackTrace;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

class RedisForTestsTest {

    private static final String ALL = "io.github.spillgate.testkit.RedisForTests#all";

    @ParameterizedTest
    @MethodSource(ALL)
    void everyAvailableRedisRepliesAndHasItsVersionInItsName(RedisForTests redis) {
        assertThat(ping(redis)).isEqualTo("PONG");
        assertThat(redis.version()).matches("\\d+\\.\\d+\\.\\d+.*");
        assertThat(redis.name()).contains(redis.version()).isEqualTo(redis.toString());
    }

    @ParameterizedTest
    @MethodSource(ALL)
    void aSharedRedisCannotBeStopped(RedisForTests shared) {
        assertThatIllegalStateException().isThrownBy(shared::kill).withMessageContaining("startOwn()");
        assertThatIllegalStateException().isThrownBy(shared::pause);
        assertThatIllegalStateException().isThrownBy(shared::restart);
        shared.close();
        assertThat(ping(shared)).isEqualTo("PONG");
    }

    @Test
    @DisabledOnOs(OS.WINDOWS)
    void aPausedRedisCanStillBeClosed() {
        RedisForTests redis = RedisForTests.startOwn();
        redis.pause();
        redis.close();
        assertThat(isAlive(redis.own().pid())).isFalse();
    }

    @Test
    void anotherPortIsTriedIfTheFirstIsTaken() {
        try (RedisForTests other = RedisForTests.startOwn()) {
            int taken = other.uri().getPort();
            int free;
            try (RedisForTests closedAgain = RedisForTests.startOwn()) {
                free = closedAgain.uri().getPort();
            }
            Iterator<Integer> ports = List.of(taken, taken, free).iterator();

            // The other one answers PING on that port all the while.
            RedisProcess redis =
                    RedisProcess.start(other.own().binary(), RedisProcess.Listening.PLAINLY, ports::next, List.of());

            assertThat(redis.port()).isEqualTo(free);
            assertThat(redis.pid()).isNotEqualTo(other.own().pid());
            redis.close();
        }
    }

    @Test
    void theUriOfTheEnvironmentIsFirstAndHidesItsPassword() {
        try (RedisForTests redis = RedisForTests.startOwn();
                RedisClient client = RedisClient.create(redis.uri());
                StatefulRedisConnection<String, String> connection = client.connect()) {
            connection.sync().configSet("requirepass", "s3cret");
            String uri = "redis://:s3cret@127.0.0.1:" + redis.uri().getPort();

            RedisForTests named = RedisCandidate.all(Map.of("SPILLGATE_REDIS_URI", uri))
                    .get(0)
                    .starter()
                    .get();

            assertThat(ping(named)).isEqualTo("PONG");
            assertThat(named.name())
                    .isEqualTo(
                            "SPILLGATE_REDIS_URI redis://127.0.0.1:%d (redis-server %s)",
                            redis.uri().getPort(), redis.version());
        }
    }

    @ParameterizedTest
    @CsvSource({"redis://:s3cret@127.0.0.1:1", "no uri with s3cret", "redis://:s3cret@not a host"})
    void anUnreachableUriOfTheEnvironmentFailsAndHidesItsPassword(String uri) {
        List<RedisCandidate> candidates = RedisCandidate.all(Map.of("SPILLGATE_REDIS_URI", uri));

        assertThatIllegalStateException()
                .isThrownBy(() -> attempts(candidates).all())
                .withMessageContaining("SPILLGATE_REDIS_URI: ")
                .satisfies(e -> assertThat(getStackTrace(e)).doesNotContain("s3cret"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "redis-server: error while loading shared libraries: libssl.so.3 | apt-get install libssl3",
                "FATAL CONFIG FILE ERROR: 'tls-port' Bad directive | It was built without TLS",
                "redis-server: No such file or directory | apk add redis"
            })
    @DisabledOnOs(OS.WINDOWS)
    void theErrorListsAllFailedAttemptsAndRemedies(String said, String remedy, @TempDir Path bin) throws IOException {
        program(bin, "echo \"" + said + "\"; exit 127");
        List<RedisCandidate> candidates = List.of(onlyOnThe(bin.resolve("none")), onlyOnThe(bin));

        assertThatIllegalStateException()
                .isThrownBy(() -> attempts(candidates).first())
                .withMessageContaining("redis-server on the PATH: there is none; the PATH is " + bin.resolve("none"))
                .withMessageContaining("redis-server on the PATH: " + bin.resolve("redis-server"))
                .withMessageContaining("exit code 127")
                .withMessageContaining("| " + said)
                .withMessageContaining(remedy)
                .withMessageContaining("apt-get install redis-server")
                .withMessageContaining("set SPILLGATE_REDIS_URI");
    }

    @Test
    @DisabledOnOs(OS.WINDOWS)
    void aFailingOptionalServerIsReportedAndSkipped(@TempDir Path bin) throws IOException {
        program(bin, "exit 1");
        RedisCandidate working = new RedisCandidate("a working one", false, RedisForTests::startOwn);
        List<String> said = new ArrayList<>();
        RedisForTests.Attempts attempts =
                new RedisForTests.Attempts(List.of(onlyOnThe(bin), working), UnaryOperator.identity(), said::add);

        try (RedisForTests redis = attempts.first()) {
            assertThat(ping(redis)).isEqualTo("PONG");
            assertThat(attempts.all()).containsExactly(redis);
            assertThat(said).hasSize(2);
            assertThat(said.get(0)).startsWith("[spillgate] tests go without redis-server on the PATH: ");
            assertThat(said.get(1))
                    .isEqualTo(
                            "[spillgate] tests use %s, 127.0.0.1:%d",
                            redis, redis.uri().getPort());
        }
    }

    @Test
    void theEnvironmentDisablesOrRequiresDocker() {
        String unused = "tcp://127.0.0.1:1";
        assertThat(docker(Map.of("DOCKER_HOST", unused, "SPILLGATE_TEST_DOCKER", "false")))
                .isEmpty();
        assertThat(docker(Map.of("DOCKER_HOST", unused))).isNotEmpty().noneMatch(RedisCandidate::required);
        assertThat(docker(Map.of("SPILLGATE_TEST_DOCKER", "true")))
                .allMatch(RedisCandidate::required)
                .extracting(RedisCandidate::what)
                .containsExactly(
                        "redis:6.2-alpine in Docker",
                        "redis:7.4-alpine in Docker",
                        "redis:8-alpine in Docker",
                        "valkey/valkey:9-alpine in Docker");
    }

    @Test
    @DisabledOnOs(OS.WINDOWS)
    void aValkeyOnThePathIsAnOptionalCandidate(@TempDir Path bin) throws IOException {
        assertThat(binaries(bin)).containsExactly("redis-server on the PATH", "redis-server of embedded-redis");

        program(bin, "valkey-server", "");
        assertThat(binaries(bin))
                .containsExactly(
                        "redis-server on the PATH", "valkey-server on the PATH", "redis-server of embedded-redis");
    }

    @Test
    @DisabledOnOs(OS.WINDOWS)
    void theBinariesOfTheEnvironmentAreRequired(@TempDir Path bin) {
        try (RedisForTests own = RedisForTests.startOwn()) {
            Path binary = own.own().binary();
            Path missing = bin.resolve("no-such-server");
            List<RedisCandidate> named = RedisCandidate.binaries(
                            Map.of("SPILLGATE_REDIS_BINARIES", binary + ":" + missing))
                    .subList(1, 3);

            try (RedisForTests redis = named.get(0).starter().get()) {
                assertThat(ping(redis)).isEqualTo("PONG");
                assertThat(redis.name()).endsWith("-server " + redis.version() + " at " + binary);
            }
            RedisCandidate working = new RedisCandidate("a working one", false, RedisForTests::first);
            assertThatIllegalStateException()
                    .isThrownBy(() -> attempts(List.of(working, named.get(1))).all())
                    .withMessageContaining("SPILLGATE_REDIS_BINARIES " + missing + ": expected a program")
                    .withMessageContaining("or unset the variable");
        }
    }

    private static List<String> binaries(Path path) {
        return RedisCandidate.binaries(Map.of("PATH", path.toString())).stream()
                .map(RedisCandidate::what)
                .toList();
    }

    private static List<RedisCandidate> docker(Map<String, String> environment) {
        return RedisCandidate.all(environment).stream()
                .filter(candidate -> candidate.what().contains("Docker"))
                .toList();
    }

    private static RedisForTests.Attempts attempts(List<RedisCandidate> candidates) {
        return new RedisForTests.Attempts(candidates, UnaryOperator.identity(), line -> {});
    }

    private static RedisCandidate onlyOnThe(Path directory) {
        return RedisCandidate.binaries(Map.of("PATH", directory.toString())).get(0);
    }

    private static void program(Path directory, String script) throws IOException {
        program(directory, "redis-server", script);
    }

    private static void program(Path directory, String name, String script) throws IOException {
        Path program = Files.writeString(directory.resolve(name), "#!/bin/sh\n" + script + "\n");
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"));
    }

    private static String ping(RedisForTests redis) {
        try (RedisClient client = RedisClient.create(redis.uri());
                StatefulRedisConnection<String, String> connection = client.connect()) {
            return connection.sync().ping();
        }
    }

    private static boolean isAlive(long pid) {
        return ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
    }
}
