package io.github.spillgate.fleet;

import io.github.spillgate.postgres.PostgresStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.PostgresForTests;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

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
}
