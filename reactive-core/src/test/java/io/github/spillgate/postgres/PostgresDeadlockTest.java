package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Proof;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/**
 * Three processes do everything with the same keys, in any order: no two statements wait for each other, and expired
 * rows are deleted. Set {@code spillgate.deadlocks.time} for a longer run.
 */
@Proof
class PostgresDeadlockTest extends PostgresProcessesFixture {

    private static final Duration TIME = Duration.parse(System.getProperty("spillgate.deadlocks.time", "PT30S"));

    /** Longer than a statement may take, so that PostgreSQL makes nearly all decisions. */
    private static final Duration LONG = Duration.ofSeconds(5);

    /** By default a deadlock is found after a second, but by then the store has cancelled its statement. */
    private final PostgresForTests postgres = PostgresForTests.startOwn("deadlock_timeout=20ms");

    @Test
    void noStatementsWaitForEachOther() throws Exception {
        for (int i = 0; i < 3; i++) {
            processes.add(PostgresProcess.start(postgres.uri(), table, LONG, 3, 0, List.of()));
        }
        Mono.delay(TIME).block();
        String rows = one("SELECT count(*) FROM " + table);
        end();
        long inPostgres =
                processes.stream().mapToLong(PostgresProcess::inPostgres).sum();
        System.out.printf(
                "[spillgate] %s: %d decisions in PostgreSQL, %d elsewhere; %s deadlocks; %s rows; %d permits unknown%n",
                TIME,
                inPostgres,
                processes.stream().mapToLong(PostgresProcess::elsewhere).sum(),
                deadlocks(),
                rows,
                processes.stream().mapToLong(PostgresProcess::unknown).sum());
        processes.forEach(process -> process.log().forEach(line -> System.out.println("[spillgate]   " + line)));
        assertThat(inPostgres).isGreaterThan(100);
        assertThat(deadlocks()).isEqualTo("0");
        sweep();
    }

    /** Waits until the rows have expired and are deleted, but for the marks of resets, which last for ten minutes. */
    private void sweep() {
        PostgresStore sweeping = PostgresStore.builder(postgres.factory())
                .table(table)
                .timeout(PATIENCE)
                .build();
        sweeping.prepare("").block(PATIENCE);
        await().atMost(Duration.ofMinutes(8))
                .until(() -> one("SELECT count(*) FROM " + table + " WHERE key NOT LIKE '%!'")
                        .equals("0"));
        sweeping.closeLater().block();
    }

    private String deadlocks() {
        return one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    }

    private String one(String sql) {
        List<String> values = postgres.execute(sql);
        assertThat(values).hasSize(1);
        return values.get(0);
    }

    @AfterEach
    void closeServer() throws Exception {
        close();
        postgres.close();
    }
}
