package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.r2dbc.pool.ConnectionPool;
import io.r2dbc.pool.ConnectionPoolConfiguration;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.ConnectionFactoryMetadata;
import io.r2dbc.spi.Wrapped;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Mono;

class PostgresUrisTest {

    private static final String URI = "r2dbc:postgresql://ann@localhost/orders";

    /** Limits would wait for slow queries of the application. What wraps the pool has no use without it. */
    @Test
    void thePoolOfTheApplicationIsNotUsed() {
        ConnectionFactory server = new Wrapper(PostgresUris.parse(URI), "PostgreSQL");
        ConnectionFactory pool = pool(server);
        assertThat(PostgresUris.unpooled(pool)).isSameAs(server);
        assertThat(PostgresUris.unpooled(new Wrapper(pool(pool), "PostgreSQL"))).isSameAs(server);
    }

    /** Such as a proxy for traces. */
    @Test
    void anotherWrapperIsUsed() {
        ConnectionFactory traced = new Wrapper(PostgresUris.parse(URI), "PostgreSQL");
        assertThat(PostgresUris.unpooled(traced)).isSameAs(traced);
    }

    @Test
    void aFactoryOfAnotherDatabaseIsRejected() {
        ConnectionFactory other = new Wrapper(PostgresUris.parse(URI), "H2");
        assertThatThrownBy(() -> PostgresStore.builder(other))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("factory is of the database \"H2\": expected one of PostgreSQL, for example"
                        + " ConnectionFactories.get(\"r2dbc:postgresql://user:pass%40word@localhost:5432/orders\")");
    }

    @ParameterizedTest
    @CsvSource({
        "r2dbc:postgresql://ann:s3cret@, r2dbc:postgresql://…",
        "r2dbc:postgresql://ann:s3cret/db, r2dbc:postgresql://…",
        "r2dbc:postgresql:ann:s3cret/db, …",
        "r2dbc:mysql://db/orders?password=s3@cret, r2dbc:mysql://…",
        "r2dbc:pool:postgresql://ann:s3cret@db/orders, r2dbc:pool:postgresql://…",
        "postgresql://ann:s3cret@db/orders, postgresql://…",
        "ann:s3cret@db, …",
        "'', …"
    })
    void anErrorContainsNoPassword(String uri, String shown) {
        assertThatThrownBy(() -> PostgresUris.parse(uri))
                .isInstanceOf(IllegalArgumentException.class)
                .hasNoCause()
                .hasMessage("\"" + shown + "\" is not the URI of a PostgreSQL: expected one, with a user, a host, known"
                        + " options, and special characters in a password as %XX, for example"
                        + " r2dbc:postgresql://user:pass%40word@localhost:5432/orders");
    }

    private static ConnectionFactory pool(ConnectionFactory server) {
        return new ConnectionPool(ConnectionPoolConfiguration.builder(server).build());
    }

    private record Wrapper(ConnectionFactory unwrap, String database)
            implements ConnectionFactory, Wrapped<ConnectionFactory> {

        @Override
        public Publisher<? extends Connection> create() {
            return Mono.from(unwrap.create());
        }

        @Override
        public ConnectionFactoryMetadata getMetadata() {
            return () -> database;
        }
    }
}
