package io.github.spillgate.fleet;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.LimitStoreException;
import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.FleetExchange.Value;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.PostgresForTests;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What is published in PostgreSQL. */
class PostgresPublicationTest extends PublicationContract {

    private static PostgresStore store;

    @BeforeAll
    static void connect() {
        store = PostgresStore.builder(PostgresForTests.shared().factory())
                .table("fleet_" + System.nanoTime())
                .timeout(Duration.ofSeconds(30))
                .build();
    }

    @AfterAll
    static void disconnect() {
        store.close();
    }

    @Override
    LimitStore store() {
        return store;
    }

    /** The share of an instance in an outage depends on their number. */
    @Test
    void instancesAreCountedWithoutARightOnTheTableOfWhatIsPublished() {
        PostgresForTests postgres = PostgresForTests.shared();
        String table = "fleet_" + System.nanoTime();
        String role = "role_" + table;
        try (PostgresStore owner = own(table, postgres.factory());
                LogForTests log = LogForTests.listen()) {
            exchange(owner, 1, null);
            postgres.execute("CREATE ROLE " + role + " LOGIN");
            postgres.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + " TO " + role);
            try (PostgresStore other =
                    own(table, ConnectionFactories.get(postgres.uri().replace("spillgate@", role + "@")))) {
                for (int i = 0; i < 3; i++) {
                    FleetExchange.FleetReply reply = exchange(other, 2, null);
                    assertThat(reply.instances()).containsExactly(2);
                    assertThat(reply.micros()).isPositive();
                }
                assertThat(log.lines(table, "does not exchange published limits"))
                        .hasSize(1);
                Value value = new Value("api/", 0, 1, "");
                assertThatThrownBy(() -> exchange(other, 2, value)).isInstanceOf(LimitStoreException.class);
            }
        }
    }

    private static PostgresStore own(String table, ConnectionFactory factory) {
        return PostgresStore.builder(factory)
                .table(table)
                .timeout(Duration.ofSeconds(30))
                .build();
    }

    private static FleetExchange.FleetReply exchange(PostgresStore own, int instance, @Nullable Value value) {
        return requireNonNull(own.exchange(new FleetExchange(
                        new UUID(0, instance), Duration.ofSeconds(20), List.of("api"), 0, List.of(), value))
                .block());
    }
}
