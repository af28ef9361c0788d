package io.github.spillgate.vertx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.testkit.PostgresForTests;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Counts in the PostgreSQL of the settings. */
class PostgresSettingsTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final PostgresForTests postgres = PostgresForTests.shared();
    private final Vertx vertx = Vertx.vertx();

    @AfterEach
    void close() throws Exception {
        vertx.close().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
    }

    @Test
    void thePostgresOfTheSettingsIsUsedAndDisconnectedAtTheEnd() throws Exception {
        JsonObject json = new JsonObject()
                .put("name", "shop")
                .put("deadline", "5s")
                .put(
                        "postgres",
                        new JsonObject()
                                .put("uri", postgres.uri() + "?applicationName=vertx-test")
                                .put("table", "of_vertx")
                                .put("connections", 1));
        RateLimiting limiting =
                RateLimiting.of(vertx, new RateLimitOptions(json)).start();
        limiting.ready().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
        // A first connection may take longer than the store waits, on a busy machine.
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(limiting.limiter()
                                .tryAcquire(Charge.of("ann", Limit.perHour(1_000)))
                                .map(Decision::source)
                                .block(LONG))
                        .isEqualTo(Source.POSTGRES));
        assertThat(connections()).isPositive();
        limiting.close().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
        // The server notices a moment later.
        await().atMost(LONG).untilAsserted(() -> assertThat(connections()).isZero());
        assertThat(postgres.execute("SELECT key FROM of_vertx")).anyMatch(key -> key.contains("{ann}"));
    }

    private long connections() {
        return Long.parseLong(
                postgres.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'vertx-test'")
                        .get(0));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "setPostgresUri | postgres.uri | is not the URI of a PostgreSQL",
                "setPostgresTable | postgres.table | expected lower-case letters",
                "setPostgresNamespace | postgres.namespace | expected 1 to 64 of the characters"
            })
    void aWrongSettingIsNamed(String setter, String setting, String why) throws Exception {
        RateLimitOptions options = new RateLimitOptions().setName("shop").setPostgresUri(postgres.uri());
        RateLimitOptions.class.getMethod(setter, String.class).invoke(options, "r2dbc:x://ann:s3cret@a b");
        assertThatThrownBy(RateLimiting.of(vertx, options)::start)
                .isInstanceOf(WrongSettingException.class)
                .hasMessageContainingAll(setting, why);
    }

    @Test
    void numbersOfConnectionsAreChecked() {
        RateLimitOptions options = new RateLimitOptions()
                .setName("shop")
                .setPostgresUri(postgres.uri())
                .setPostgresConnections(9);
        assertThatThrownBy(RateLimiting.of(vertx, options)::start)
                .hasMessageContainingAll("postgres.connections", "expected 1 to 8");
    }

    /** In a process of its own. The driver needs Reactor Netty. */
    @ParameterizedTest
    @CsvSource({"r2dbc-.*, io/r2dbc/", "reactor-netty.*, reactor/netty/"})
    void aMissingLibraryIsNamed(String missing, String type) throws Exception {
        String classPath = Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(jar -> !Path.of(jar).getFileName().toString().matches(missing))
                .collect(Collectors.joining(File.pathSeparator));
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        classPath,
                        Service.class.getName(),
                        postgres.uri())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            assertThat(new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8))
                    .startsWith("postgres.uri: the class " + type)
                    .contains(
                            "is not on the class path: expected the dependencies org.postgresql:r2dbc-postgresql",
                            "io.projectreactor.netty:reactor-netty-core");
        } finally {
            process.destroyForcibly();
        }
    }

    static final class Service {

        private Service() {}

        public static void main(String[] args) {
            try {
                RateLimiting.of(
                                Vertx.vertx(),
                                new RateLimitOptions().setName("shop").setPostgresUri(args[0]))
                        .start();
            } catch (WrongSettingException e) {
                System.out.println(e.getMessage());
            }
            System.exit(0);
        }
    }

    @Test
    void aRedisAndAPostgresAreOneTooMany() {
        RateLimitOptions options = new RateLimitOptions()
                .setName("shop")
                .setRedisUri("redis://localhost:6379")
                .setPostgresUri(postgres.uri());
        assertThatThrownBy(RateLimiting.of(vertx, options)::start)
                .hasMessageContainingAll("postgres.uri", "there is also redis.uri");
    }
}
