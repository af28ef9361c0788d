package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisURI;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** A service on other stores, in a process of its own, without the libraries for PostgreSQL. */
class OptionalPostgresTest {

    @Test
    void otherStoresNeedNoLibraryOfPostgres() throws IOException {
        String classPath = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(jar -> !Path.of(jar).getFileName().toString().matches("(r2dbc|reactor-netty|scram|saslprep).*"))
                .collect(Collectors.joining(File.pathSeparator));
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx128m",
                        "-cp",
                        classPath,
                        Service.class.getName(),
                        RedisForTests.first().uri().toURI().toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try {
            String written = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(written.lines()).containsExactly("no R2DBC", "REDIS", "LOCAL");
        } finally {
            process.destroyForcibly();
        }
    }

    static final class Service {

        private Service() {}

        public static void main(String[] args) {
            try {
                Class.forName("io.r2dbc.spi.ConnectionFactory");
            } catch (ClassNotFoundException e) {
                System.out.println("no R2DBC");
            }
            decide(RedisStore.create(RedisURI.create(args[0])));
            decide(LocalStore.bounded(100));
            System.exit(0);
        }

        private static void decide(LimitStore store) {
            RateLimiter limiter = Unprotected.limiter(store, Limit.perDay(1_000_000));
            System.out.println(
                    Objects.requireNonNull(limiter.tryAcquire("a").block()).source());
        }
    }
}
