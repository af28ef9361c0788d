package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.store.ClockForTests;
import io.github.spillgate.testkit.PostgresForTests;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactories;
import java.time.Duration;
import java.util.Objects;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The clock of a store in PostgreSQL that reads its time from a row, and in which nothing expires. */
public final class SqlClock implements AutoCloseable {

    static final String CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

    private final String time = "clock_" + System.nanoTime();
    private final Connection connection;
    private final PostgresStore store;
    private volatile long shown;

    public SqlClock(PostgresForTests postgres) {
        connection = Objects.requireNonNull(
                Mono.<Connection>from(postgres.factory().create()).block());
        execute("CREATE UNLOGGED TABLE " + time + " AS SELECT 0::bigint AS micros");
        store = PostgresStore.builder(postgres.factory())
                .table("lasting_" + time)
                // Requests that are made at the same time are decided in their order.
                .connections(1)
                .timeout(Duration.ofSeconds(30))
                .statements(this::changed)
                .build();
        ClockForTests.set(store, () -> shown);
    }

    /**
     * Returns a store on the clock of PostgreSQL, plus the microseconds in a row of a table.
     *
     * @param shift the table, with a column {@code micros}
     */
    public static PostgresStore shifted(String uri, String table, String shift) {
        return PostgresStore.builder(ConnectionFactories.get(uri))
                .table(table)
                .statements(text -> text.replace(CLOCK, "(" + CLOCK + " + (SELECT micros FROM " + shift + "))"))
                .build();
    }

    private String changed(String text) {
        String changed = text.replace("CASE WHEN t.expires_at > " + CLOCK + " / 1000 THEN", "CASE WHEN true THEN")
                .replace("CASE WHEN t.expires_at > c.micros / 1000 THEN", "CASE WHEN true THEN")
                .replace("expires_at <= (SELECT " + CLOCK, "expires_at < 0 AND 0 < (SELECT " + CLOCK)
                .replace(CLOCK, "(SELECT micros FROM " + time + ")");
        assertThat(changed).doesNotContain("clock_timestamp", "expires_at >", "expires_at <=");
        return changed;
    }

    public PostgresStore store() {
        return store;
    }

    /** Sets the time, in microseconds. */
    public void show(long micros) {
        shown = micros;
        execute("UPDATE " + time + " SET micros = " + micros);
    }

    private void execute(String sql) {
        Flux.from(connection.createStatement(sql).execute())
                .flatMap(result -> result.getRowsUpdated())
                .blockLast(Duration.ofSeconds(30));
    }

    @Override
    public void close() {
        store.closeLater().then(Mono.from(connection.close())).block();
    }
}
