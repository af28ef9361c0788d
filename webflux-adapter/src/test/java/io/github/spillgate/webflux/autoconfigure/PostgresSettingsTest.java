package io.github.spillgate.webflux.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.http.settings.WrongSettingException;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.ConnectionFactoryMetadata;
import java.time.Duration;
import java.util.List;
import org.assertj.core.util.Throwables;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.reactivestreams.Publisher;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ReactiveWebApplicationContextRunner;
import org.springframework.boot.webflux.autoconfigure.HttpHandlerAutoConfiguration;
import org.springframework.boot.webflux.autoconfigure.WebFluxAutoConfiguration;
import reactor.core.publisher.Mono;

/** Counts in the PostgreSQL of the settings, or that of the application. */
class PostgresSettingsTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final PostgresForTests postgres = PostgresForTests.shared();
    private final ReactiveWebApplicationContextRunner runner = new ReactiveWebApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    HttpHandlerAutoConfiguration.class,
                    WebFluxAutoConfiguration.class,
                    DataRedisAutoConfiguration.class,
                    SpillgateAutoConfiguration.class))
            .withPropertyValues("spillgate.name=shop", "spillgate.deadline=5s");

    @Test
    void thePostgresOfTheSettingsIsUsedAndNotTheRedisOfTheApplication() {
        String table = "of_settings";
        runner.withPropertyValues(
                        "spring.data.redis.url=" + RedisForTests.first().uri().toURI(),
                        "spillgate.postgres.uri=" + postgres.uri(),
                        "spillgate.postgres.table=" + table,
                        "spillgate.postgres.namespace=shop:test")
                .run(context -> {
                    assertThat(context).hasSingleBean(PostgresStore.class).doesNotHaveBean(RedisStore.class);
                    assertPostgresDecides(context.getBean(RateLimiter.class));
                });
        assertThat(postgres.execute("SELECT key FROM " + table))
                .allMatch(key -> key.startsWith("shop:test/"))
                .anyMatch(key -> key.contains("{ann}"));
    }

    @Test
    void thePostgresOfTheApplicationIsUsedIfTheStoreIsPostgres() {
        runner.withBean(ConnectionFactory.class, postgres::factory)
                .withPropertyValues("spillgate.store=postgres", "spillgate.postgres.table=of_application")
                .run(context -> assertPostgresDecides(context.getBean(RateLimiter.class)));
        assertThat(postgres.execute("SELECT key FROM of_application")).anyMatch(key -> key.contains("{ann}"));
    }

    @Test
    void anotherDatabaseOfTheApplicationIsNamed() {
        ConnectionFactory other = new ConnectionFactory() {
            @Override
            public Publisher<? extends Connection> create() {
                return Mono.empty();
            }

            @Override
            public ConnectionFactoryMetadata getMetadata() {
                return () -> "H2";
            }
        };
        runner.withBean(ConnectionFactory.class, () -> other)
                .withPropertyValues("spillgate.store=postgres")
                .run(context -> assertThat(context.getStartupFailure())
                        .hasStackTraceContaining(
                                "spillgate.store: factory is of the database \"H2\": expected one of" + " PostgreSQL"));
    }

    @Test
    void twoDatabasesOfTheApplicationAreOneTooMany() {
        runner.withBean("orders", ConnectionFactory.class, postgres::factory)
                .withBean("customers", ConnectionFactory.class, postgres::factory)
                .withPropertyValues("spillgate.store=postgres")
                .run(context -> assertThat(context.getStartupFailure())
                        .hasStackTraceContaining("spillgate.store: found 2 connection factories: expected"
                                + " spillgate.postgres.uri, one from spring.r2dbc.*, or one that is @Primary"));
    }

    @Test
    void anApplicationWithADatabaseDoesNotCountThereUnlessItSaysSo() {
        runner.withBean(ConnectionFactory.class, postgres::factory)
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean(PostgresStore.class));
    }

    private static void assertPostgresDecides(RateLimiter limiter) {
        // A first connection may take longer than the store waits, on a busy machine.
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(limiter.tryAcquire(Charge.of("ann", Limit.perHour(1_000)))
                                .map(Decision::source)
                                .block(LONG))
                        .isEqualTo(Source.POSTGRES));
        assertThat(limiter.state().source()).isEqualTo(Source.POSTGRES);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "spillgate.store=postgres | spillgate.store | found 0 connection factories: expected"
                        + " spillgate.postgres.uri,",
                "spillgate.postgres.uri=r2dbc:postgresql://ann:s3cret@ | spillgate.postgres.uri"
                        + " | \"r2dbc:postgresql://…\" is not the URI of a PostgreSQL",
                "spillgate.postgres.uri=r2dbc:mysql://ann:s3cret@host/db?x=s3cret | spillgate.postgres.uri"
                        + " | \"r2dbc:mysql://…\" is not the URI of a PostgreSQL",
                "spillgate.postgres.connections=9 | spillgate.postgres.connections | expected 1 to 8",
                "spillgate.postgres.table=a;b | spillgate.postgres.table | expected lower-case letters",
                "spillgate.postgres.namespace=a b | spillgate.postgres.namespace | expected 1 to 64 of the characters"
            })
    void aWrongSettingIsNamed(String property, String setting, String why) {
        List<String> properties = property.startsWith("spillgate.postgres.") && !property.contains(".uri=")
                ? List.of(property, "spillgate.postgres.uri=" + postgres.uri())
                : List.of(property);
        runner.withPropertyValues(properties.toArray(String[]::new)).run(context -> {
            Throwable cause = Throwables.getRootCause(context.getStartupFailure());
            assertThat(cause).isInstanceOfAny(WrongSettingException.class, IllegalArgumentException.class);
            assertThat(context.getStartupFailure())
                    .rootCause()
                    .satisfies(root -> assertThat(root.getMessage()).contains(why));
            assertThat(context.getStartupFailure()).hasStackTraceContaining(setting);
            assertThat(Throwables.getStackTrace(context.getStartupFailure())).doesNotContain("s3cret");
        });
    }

    @Test
    void aRedisAndAPostgresForTheLimiterAreOneTooMany() {
        runner.withPropertyValues(
                        "spillgate.redis.uri=redis://localhost:6379", "spillgate.postgres.uri=" + postgres.uri())
                .run(context -> assertThat(context.getStartupFailure())
                        .hasStackTraceContaining("spillgate.postgres.uri")
                        .hasStackTraceContaining("there is also spillgate.redis.uri"));
    }

    @Test
    void withoutADriverTheErrorNamesIt() {
        runner.withClassLoader(new FilteredClassLoader(ConnectionFactory.class))
                .withPropertyValues("spillgate.postgres.uri=" + postgres.uri())
                .run(context -> assertThat(context.getStartupFailure())
                        .hasStackTraceContaining("expected the dependency org.postgresql:r2dbc-postgresql"));
    }
}
