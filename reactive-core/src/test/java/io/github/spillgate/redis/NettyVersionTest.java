package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Services with another Netty on the class path, each in a process of its own, beside a real Redis. */
class NettyVersionTest {

    private static final Path OLD = Path.of("target/netty-4.1");

    /** Lettuce creates a client and fails when it connects; a limiter would take that for an outage. */
    @Test
    void aStoreIsNotMadeOnNetty41() throws IOException {
        List<String> jars = classPath();
        jars.removeIf(NettyVersionTest::isNetty);
        jars.addAll(oldJars());
        assertThat(service("client", jars))
                .startsWith("LimitStoreException: Lettuce 7")
                .contains("does not run on the Netty that is on the class path, which is netty-buffer 4.1.")
                .containsPattern(
                        "netty-common 4\\.1\\.\\S+ \\(file:\\S+/netty-common-4\\.1\\.\\S+\\.jar\\), netty-transport "
                                + "4\\.1\\.")
                .contains("expected Netty 4.2 in all modules, for example by importing io.netty:netty-bom:4.2.")
                .contains("or by Vert.x 5, because Vert.x 4 brings Netty 4.1")
                .endsWith("(java.lang.NoClassDefFoundError: io/netty/channel/MultiThreadIoEventLoopGroup)");
    }

    /** Both adapters read the URI before they create a client, and that can fail by itself. */
    @Thorough
    @ParameterizedTest
    @ValueSource(strings = {"netty-buffer", "netty-common", "netty-transport"})
    void oneOldModuleIsRejected(String module) throws IOException {
        List<String> jars = classPath();
        jars.replaceAll(jar -> isModule(jar, module) ? oldJar(module) : jar);
        assertThat(service("uri", jars))
                .startsWith("LimitStoreException: Lettuce 7")
                .contains(module + " 4.1.")
                .contains(" 4.2.");
    }

    @Test
    void twoVersionsOnTheClassPathAreRejected() throws IOException {
        List<String> jars = classPath();
        jars.addAll(0, oldJars());
        assertThat(service("uri", jars))
                .startsWith("LimitStoreException: Lettuce 7")
                .contains("netty-transport 4.1.")
                .containsPattern(
                        "\\(netty-transport is there twice, also \\(file:\\S+/netty-transport-4\\.2\\.\\S+\\)\\)$");
    }

    /** What works is not refused: Lettuce runs with these modules of 4.1. */
    @Thorough
    @Test
    void compatibleOldModulesAreAccepted() throws IOException {
        List<String> jars = classPath();
        for (String module : Set.of("netty-handler", "netty-resolver", "netty-resolver-dns", "netty-codec-dns")) {
            jars.replaceAll(jar -> isModule(jar, module) ? oldJar(module) : jar);
        }
        assertThat(service("client", jars)).isEqualTo("decided by REDIS");
        assertThat(service("uri", jars)).isEqualTo("decided by REDIS");
    }

    private static List<String> classPath() {
        return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .collect(Collectors.toList());
    }

    private static boolean isNetty(String jar) {
        return Path.of(jar).getFileName().toString().matches("netty-.*-4\\.2\\..*\\.jar");
    }

    private static boolean isModule(String jar, String module) {
        return Path.of(jar).getFileName().toString().matches(module + "-4\\.2\\..*\\.jar");
    }

    private static List<String> oldJars() throws IOException {
        try (Stream<Path> jars = Files.list(OLD)) {
            return jars.map(Path::toString).toList();
        }
    }

    private static String oldJar(String module) {
        try {
            return oldJars().stream()
                    .filter(jar -> Path.of(jar).getFileName().toString().matches(module + "-4\\.1\\..*\\.jar"))
                    .findFirst()
                    .orElseThrow();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /** Returns the last line that the service writes. */
    private static String service(String start, List<String> jars) throws IOException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx128m",
                        "-cp",
                        String.join(File.pathSeparator, jars),
                        Service.class.getName(),
                        start,
                        RedisForTests.first().uri().toURI().toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try {
            String written = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return written.lines().reduce("", (before, line) -> line);
        } finally {
            process.destroyForcibly();
        }
    }

    static final class Service {

        private Service() {}

        public static void main(String[] args) {
            try {
                RedisURI uri = args[0].equals("uri") ? RedisStore.uri(args[1]) : RedisURI.create(args[1]);
                RateLimiter limiter =
                        Unprotected.limiter(RedisStore.create(RedisClient.create(uri)), Limit.perMinute(1_000));
                System.out.println("decided by "
                        + Objects.requireNonNull(limiter.tryAcquire("a").block(Duration.ofMinutes(1)))
                                .source());
            } catch (LimitStoreException e) {
                System.out.println("LimitStoreException: " + e.getMessage());
            } catch (Throwable e) {
                System.out.println(e);
            }
            System.exit(0);
        }
    }
}
