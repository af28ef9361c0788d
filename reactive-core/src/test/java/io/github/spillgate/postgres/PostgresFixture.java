package io.github.spillgate.postgres;

import static java.util.Objects.requireNonNull;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Unprotected;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactories;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Stores on the shared server, with a table of their own for each test. */
abstract class PostgresFixture {

    private static final AtomicInteger NUMBER = new AtomicInteger();

    final PostgresForTests postgres = PostgresForTests.shared();
    final String table = "counts_" + NUMBER.incrementAndGet() + "_" + System.nanoTime();
    private final List<PostgresStore> stores = new ArrayList<>();
    private final RateLimiter reader = limiter(store());

    PostgresStore.Builder builder() {
        return PostgresStore.builder(postgres.factory()).table(table).timeout(Duration.ofSeconds(30));
    }

    PostgresStore.Builder builder(String role) {
        return PostgresStore.builder(ConnectionFactories.get(postgres.uri().replace("spillgate@", role + "@")))
                .table(table)
                .timeout(Duration.ofSeconds(30));
    }

    PostgresStore store() {
        return closing(builder().build());
    }

    PostgresStore closing(PostgresStore store) {
        stores.add(store);
        return store;
    }

    static RateLimiter limiter(PostgresStore store) {
        return RateLimiter.builder("api").store(new Unprotected(store)).build();
    }

    /** Creates a role, of which the name is returned. */
    String role(String... settings) {
        String role = "role_" + table;
        postgres.execute("CREATE ROLE " + role + " LOGIN");
        for (String setting : settings) {
            postgres.execute("ALTER ROLE " + role + " " + setting);
        }
        return role;
    }

    long used(String key, Limit limit) {
        return requireNonNull(reader.peek(Charge.of(key, limit)).block())
                .limits()
                .get(0)
                .used();
    }

    /** Opens a transaction of another program, and executes a statement in it. */
    Connection begin(String sql) {
        Connection connection = requireNonNull(
                Mono.<Connection>from(postgres.factory().create()).block());
        Mono.from(connection.beginTransaction()).block();
        Flux.from(connection.createStatement(sql).execute())
                .flatMap(result -> result.map(row -> row.get(0)))
                .collectList()
                .block();
        return connection;
    }

    /** Waits until a statement of a store waits for another transaction. */
    void awaitWaitForLock() {
        await().atMost(Duration.ofSeconds(30))
                .until(() -> !postgres.execute(
                                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"
                                        + table + "%'")
                        .isEmpty());
    }

    @AfterEach
    void close() {
        stores.forEach(store -> store.closeLater().block(Duration.ofSeconds(10)));
        postgres.execute("DROP TABLE IF EXISTS " + table);
    }
}
