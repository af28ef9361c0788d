package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

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

    /** Limits would wait for slow queries of the application. */
    @Test
    void thePoolOfTheApplicationIsNotUsed() {
        ConnectionFactory server = PostgresUris.parse(URI);
        assertThat(PostgresUris.unwrapped(new Pool(new Pool(server)))).isSameAs(server);
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

    private record Pool(ConnectionFactory unwrap) implements ConnectionFactory, Wrapped<ConnectionFactory> {

        @Override
        public Publisher<? extends Connection> create() {
            return Mono.error(new IllegalStateException("a connection of the pool"));
        }

        @Override
        public ConnectionFactoryMetadata getMetadata() {
            return unwrap.getMetadata();
        }
    }
}
