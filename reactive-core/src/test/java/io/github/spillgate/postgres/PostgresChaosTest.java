package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.postgres.PostgresProcess.Answer;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Proof;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.R2dbcException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Two processes decide on the same keys while their PostgreSQL fails. Callers get a decision by their deadline. */
@Proof
class PostgresChaosTest extends PostgresProcessesFixture {

    private static final Duration FAULT = Duration.ofSeconds(6);
    private static final String OVER = "tight-over";
    private static final String UNDER = "tight-under";

    private final PostgresForTests postgres = PostgresForTests.startOwn("max_connections=14");
    private final List<Connection> foreign = new ArrayList<>();
    private final List<PostgresForTests> primaries = new ArrayList<>();

    /** What fails, whether the table loses its rows, and what the log then says. */
    enum Fault {
        STOPPED(false, "Connection refused"),
        KILLED(true, "Connection refused"),
        RESTARTED_EMPTY(true, ""),
        PAUSED(false, "did not reply"),
        CONNECTIONS_ENDED(false, ""),
        ROW_LOCKED(false, ""),
        TABLE_LOCKED(false, "did not reply"),
        STANDBY(true, "targetServerType=primary"),
        TOO_MANY_CONNECTIONS(false, "max_connections"),
        TABLE_DROPPED(true, "");

        private final boolean losesRows;
        private final String logged;

        Fault(boolean losesRows, String logged) {
            this.losesRows = losesRows;
            this.logged = logged;
        }
    }

    @ParameterizedTest
    @EnumSource
    void callersGetDecisionsByTheirDeadline(Fault fault) throws Exception {
        for (String name : List.of("a", "b")) {
            // Of both processes together, one key gets three times its limit, and the other one a little less.
            start(
                    postgres.uri(),
                    3,
                    100,
                    Stream.of(
                                    List.of(OVER, OVER, OVER, UNDER),
                                    List.of("wide-shared", "wide-" + name, "wide-2-" + name, "wide-3-" + name),
                                    List.of("long-shared", "long-" + name),
                                    List.of("wide-4-" + name, "wide-5-" + name, "wide-6-" + name),
                                    List.of("wide-7-" + name, "wide-8-" + name, "wide-9-" + name, "wide-10-" + name),
                                    List.of("wide-11-" + name, "wide-12-" + name, PostgresProcess.NEW))
                            .flatMap(List::stream)
                            .toArray(String[]::new));
        }
        awaitDecisions(1_200);
        long from = System.currentTimeMillis();
        cause(fault);
        if (fault != Fault.CONNECTIONS_ENDED) {
            Mono.delay(FAULT).block();
        }
        long to = System.currentTimeMillis();
        repair(fault);
        long repaired = System.currentTimeMillis();
        awaitDecisions(100);
        long back = System.currentTimeMillis() - repaired;
        awaitDecisions(1_200);
        end();

        List<Answer> during = new ArrayList<>();
        long longest = 0;
        for (PostgresProcess process : processes) {
            during.addAll(process.answers().stream()
                    .filter(answer -> answer.requestedAt() >= from && answer.requestedAt() < to)
                    .toList());
            longest = Math.max(longest, assertInTime(process, process.answers()));
        }
        double others = decided(during, answer -> !answer.key().startsWith(OVER));
        System.out.printf(
                "[spillgate] %s: PostgreSQL decides on %.3f of the locked key, %.3f of others; longest wait %d ms"
                        + " (timers %d ms late); most in a window %d and %d of 100; 100 decisions %d ms after the end;"
                        + " %d permits unknown%n",
                fault,
                decided(during, answer -> answer.key().startsWith(OVER)),
                others,
                longest,
                processes.stream().mapToLong(PostgresProcess::stalled).max().orElseThrow(),
                mostInAWindow(OVER, answer -> true),
                mostInAWindow(UNDER, answer -> true),
                back,
                processes.stream().mapToLong(PostgresProcess::unknown).sum());
        processes.forEach(process -> process.log().forEach(line -> System.out.println("[spillgate]   " + line)));
        if (fault == Fault.ROW_LOCKED) {
            assertThat(others).isGreaterThanOrEqualTo(0.95);
        }
        assertThat(mostInAWindow(OVER, answer -> true)).isBetween(90L, 125L);
        assertThat(mostInAWindow(UNDER, answer -> true)).isBetween(70L, 125L);
        if (!fault.losesRows) {
            assertChargedOnce(
                    postgres,
                    processes.stream().mapToLong(PostgresProcess::unknown).sum());
        }
        for (PostgresProcess process : processes) {
            assertThat(process.log()).anyMatch(line -> line.contains(fault.logged));
        }
    }

    private void awaitDecisions(int number) {
        awaitDecisions(number, processes.toArray(PostgresProcess[]::new));
    }

    private void cause(Fault fault) {
        switch (fault) {
            case STOPPED -> postgres.stop();
            case KILLED -> postgres.kill();
            case RESTARTED_EMPTY -> {
                postgres.kill();
                postgres.restart();
            }
            case PAUSED -> postgres.pause();
            case CONNECTIONS_ENDED -> {
                for (long end = System.nanoTime() + FAULT.toNanos(); System.nanoTime() < end; ) {
                    postgres.endConnections();
                    Mono.delay(Duration.ofMillis(100)).block();
                }
            }
            case ROW_LOCKED -> begin("SELECT * FROM " + table + " WHERE key LIKE '%" + OVER + "%' FOR UPDATE");
            case TABLE_LOCKED -> begin("LOCK TABLE " + table);
            case STANDBY -> primaries.add(postgres.becomeStandby());
            case TOO_MANY_CONNECTIONS -> takeAllConnections();
            case TABLE_DROPPED -> postgres.execute("DROP TABLE " + table);
        }
    }

    private void repair(Fault fault) {
        switch (fault) {
            case STOPPED, KILLED -> postgres.restart();
            case PAUSED -> postgres.resume();
            case ROW_LOCKED, TABLE_LOCKED, TOO_MANY_CONNECTIONS -> closeForeign();
            case STANDBY -> postgres.execute("SELECT pg_promote()");
            default -> {}
        }
    }

    private void begin(String sql) {
        Connection connection =
                Mono.<Connection>from(postgres.factory().create()).block(PATIENCE);
        foreign.add(connection);
        Mono.from(connection.beginTransaction()).block(PATIENCE);
        execute(connection, sql);
    }

    private static List<String> execute(Connection connection, String sql) {
        return Flux.from(connection.createStatement(sql).execute())
                .concatMap(result -> result.map(row -> String.valueOf(row.get(0))))
                .collectList()
                .block(PATIENCE);
    }

    /** Takes all connections of the server, also those that the processes have. */
    private void takeAllConnections() {
        ConnectionFactory factory = ConnectionFactories.get(postgres.uri() + "?applicationName=foreign");
        List<String> ended;
        do {
            takeFreeConnections(factory);
            ended = execute(
                    foreign.get(0),
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                            + " WHERE backend_type = 'client backend' AND application_name <> 'foreign'");
        } while (!ended.isEmpty());
    }

    private void takeFreeConnections(ConnectionFactory factory) {
        try {
            while (true) {
                foreign.add(Mono.<Connection>from(factory.create()).block(PATIENCE));
            }
        } catch (R2dbcException full) {
            assertThat(full.getSqlState()).isEqualTo("53300");
        }
    }

    private void closeForeign() {
        foreign.forEach(connection -> Mono.from(connection.close()).block(PATIENCE));
        foreign.clear();
    }

    @AfterEach
    void closeServers() throws IOException {
        close();
        primaries.forEach(PostgresForTests::close);
        postgres.close();
    }
}
