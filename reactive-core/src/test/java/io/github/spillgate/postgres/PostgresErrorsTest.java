package io.github.spillgate.postgres;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.store.CompareAndWriteStore.Change;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.PostgresForTests;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.ConnectionFactoryMetadata;
import io.r2dbc.spi.Result;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Each error says what to do. */
class PostgresErrorsTest extends PostgresFixture {

    @Test
    void aMissingTableThatTheStoreMustNotCreateIsShown() {
        assertThat(error(closing(builder().createTable(false).build()).prepare("")))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContainingAll(
                        "table \"" + table + "\" does not exist",
                        "CREATE UNLOGGED TABLE IF NOT EXISTS \"" + table + "\" ( key text",
                        "SET STORAGE MAIN;");
    }

    /** The statement of the message is what creates the table. */
    @Test
    void aRoleThatMayNotCreateTheTableGetsTheStatement() {
        // As by default since PostgreSQL 15.
        postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC");
        PostgresStore store = closing(builder(role()).build());
        Throwable error = error(store.prepare(""));
        assertThat(error)
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContainingAll("permission denied for schema public", "(42501)", "GRANT SELECT, INSERT");
        String message = error.getMessage();
        postgres.execute(message.substring(message.indexOf("CREATE UNLOGGED")));
        assertThat(error(store.prepare("")))
                .is(kind(Kind.REFUSED))
                .hasMessageContainingAll("permission denied for table " + table, "TO the role of the store");
        postgres.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + " TO role_" + table);
        store.prepare("").block();
        assertThat(limiter(store)
                        .tryAcquire(Charge.of("a", Limit.perDay(1)))
                        .block()
                        .isAllowed())
                .isTrue();
    }

    @Test
    void aReadOnlyServerIsNotPrepared() {
        store().prepare("").block();
        String role = role("SUPERUSER", "SET default_transaction_read_only = on");
        PostgresStore store = closing(builder(role).build());
        assertThat(error(store.prepare("")))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContainingAll("read-only", "targetServerType=primary");
        assertThat(error(store.write(List.of(change())))).hasMessageContainingAll("25006", "targetServerType=primary");
    }

    @Test
    void tooManyConnectionsAreCounted() {
        PostgresStore store = closing(
                builder(role("SUPERUSER", "NOSUPERUSER", "CONNECTION LIMIT 0")).build());
        assertThat(error(store.prepare("")))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContainingAll("(53300)", "max_connections", ".connections(1)");
    }

    @Test
    void aWarningSaysThatTheServerHasFewConnectionsLeft() {
        try (PostgresForTests small = PostgresForTests.startOwn("max_connections=10");
                LogForTests log = LogForTests.listen()) {
            List<PostgresStore> stores = new ArrayList<>();
            for (int used = 1; used <= 9; used++) {
                PostgresStore store = closing(PostgresStore.builder(small.factory())
                        .table(table)
                        .connections(1)
                        .timeout(Duration.ofSeconds(30))
                        .build());
                store.prepare("").block();
                stores.add(store);
                if (used == 5) {
                    assertThat(log.lines(table, "connections")).isEmpty();
                }
            }
            assertThat(log.lines(table, " of 10 connections of the server are in use", ".connections(1)"))
                    .isNotEmpty();
            stores.forEach(PostgresStore::close);
        }
    }

    @Test
    void aConflictInAnotherIsolationNamesTheRemedy() {
        store().prepare("").block();
        String role = role("SUPERUSER", "SET default_transaction_isolation = 'repeatable read'");
        PostgresStore store = closing(builder(role).build());
        Connection foreign = begin("INSERT INTO " + table + " VALUES ('spillgate/1/a', '', 1, 9000000000000000)");
        CompletableFuture<?> written = store.write(List.of(change())).toFuture();
        awaitWaitForLock();
        Mono.from(foreign.commitTransaction()).then(Mono.from(foreign.close())).block();
        assertThat(written)
                .failsWithin(Duration.ofSeconds(30))
                .withThrowableOfType(ExecutionException.class)
                .havingCause()
                .is(kind(Kind.UNAVAILABLE))
                .withMessageContainingAll("(40001)", "SET default_transaction_isolation = 'read committed'");
    }

    @ParameterizedTest
    @CsvSource({
        "nobody@127.0.0.1, 'role \"nobody\" does not exist (28000): expected a valid user'",
        "spillgate@127.0.0.1/none, 'database \"none\" does not exist (3D000): expected a database'",
    })
    void aWrongAddressIsShown(String address, String expected) {
        String uri = postgres.uri()
                .replaceFirst("//.*@127.0.0.1(:\\d+)/.*", "//" + address.replaceFirst("127.0.0.1", "127.0.0.1\\$1"));
        uri = uri.matches(".*:\\d+/\\w+") ? uri : uri + "/postgres";
        PostgresStore store = closing(patient(uri));
        assertThat(error(store.prepare(""))).is(kind(Kind.UNREACHABLE)).hasMessageContaining(expected);
    }

    @Test
    void aServerThatDoesNotListenIsUnreachable() {
        PostgresStore store = closing(patient("r2dbc:postgresql://spillgate@127.0.0.1:1/postgres"));
        assertThat(error(store.prepare("")))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContainingAll("PostgreSQL is unavailable: ", "127.0.0.1");
    }

    /** A statement that takes too long ends with its timeout, and its connection is not used again. */
    @Test
    void aLateReplyIsAnErrorThatSaysWhetherRowsMayBeWritten() {
        PostgresStore store =
                closing(builder().connections(1).timeout(Duration.ofMillis(300)).build());
        store.prepare("").retry().block();
        Connection foreign = Mono.<Connection>from(postgres.factory().create()).block();
        Mono.from(foreign.beginTransaction())
                .thenMany(
                        Flux.from(foreign.createStatement("LOCK TABLE " + table).execute()))
                .flatMap(result -> result.getRowsUpdated())
                .blockLast();
        assertThat(error(store.write(List.of(change()))))
                .is(kind(Kind.UNANSWERED))
                .hasMessage("PostgreSQL is unavailable: no reply within the timeout");
        assertThat(error(store.read(List.of("a")))).is(kind(Kind.UNAVAILABLE));
        Mono.from(foreign.rollbackTransaction())
                .then(Mono.from(foreign.close()))
                .block();
        store.read(List.of("a")).retry().block();
    }

    @Test
    void aConnectionThatTheServerEndsIsReplaced() {
        PostgresStore store = closing(builder().connections(1).build());
        for (int i = 0; i < 3; i++) {
            store.prepare("").retry(2).block();
            postgres.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%" + table
                    + "%' AND pid <> pg_backend_pid()");
        }
        store.prepare("").retry(2).block();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "42703 | (id bigint, name text)",
                "42883 | (key uuid, value bytea, version bigint, expires_at bigint)",
                "42P10 | (key text, value bytea, version bigint, expires_at bigint)"
            })
    void anotherTableOfThatNameIsNamed(String state, String columns) {
        postgres.execute("CREATE TABLE " + table + columns);
        postgres.execute("CREATE TABLE " + table + "_published" + columns);
        PostgresStore store = closing(builder().build());
        assertThat(error(store.read(List.of("a")).then(store.write(List.of(change())))))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContainingAll("(" + state + "): expected a table of Spillgate", "SET STORAGE MAIN;");
    }

    /** An old pgbouncer passes statements of several clients on to one connection. */
    @Test
    void aStatementOfAnotherClientNamesTheRemedy() {
        ConnectionFactory factory = postgres.factory();
        ConnectionFactory shared = new ConnectionFactory() {
            @Override
            public Publisher<? extends Connection> create() {
                return Mono.<Connection>from(factory.create())
                        .delayUntil(connection -> Flux.from(connection
                                        .createStatement("PREPARE \"S_0\" AS SELECT 1")
                                        .execute())
                                .flatMap(Result::getRowsUpdated));
            }

            @Override
            public ConnectionFactoryMetadata getMetadata() {
                return factory.getMetadata();
            }
        };
        PostgresStore store = closing(PostgresStore.builder(shared)
                .table(table)
                .timeout(Duration.ofSeconds(30))
                .build());
        assertThat(error(store.read(List.of("a"))))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContainingAll("(42P05)", "preparedStatementCacheQueries=0");
    }

    @ParameterizedTest
    @CsvSource({"statement_timeout, 57014", "lock_timeout, 55P03"})
    void aTimeoutOfTheRoleNamesTheSetting(String setting, String state) {
        store().prepare("").block();
        PostgresStore store = closing(
                builder(role("SUPERUSER", "SET " + setting + " = '200ms'")).build());
        Connection foreign = begin("LOCK TABLE " + table);
        assertThat(error(store.write(List.of(change()))))
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContainingAll("(" + state + "): expected no statement_timeout", "ALTER ROLE app SET");
        Mono.from(foreign.rollbackTransaction())
                .then(Mono.from(foreign.close()))
                .block();
    }

    private static PostgresStore patient(String uri) {
        return PostgresStore.builder(ConnectionFactories.get(uri))
                .timeout(Duration.ofSeconds(30))
                .build();
    }

    private static Change change() {
        return new Change(List.of(new Write("a", new byte[1], 0, 1, Long.MAX_VALUE)), Long.MAX_VALUE);
    }

    private static Throwable error(Mono<?> mono) {
        return mono.materialize().block(Duration.ofSeconds(30)).getThrowable();
    }
}
