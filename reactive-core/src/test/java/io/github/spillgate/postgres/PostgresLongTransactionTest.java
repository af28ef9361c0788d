package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.postgres.PostgresProcess.Answer;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Proof;
import io.r2dbc.spi.Connection;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * A transaction of another program is open while decisions are made on few keys, so that no dead version of a row can
 * be removed. Afterwards they are. Set {@code spillgate.transaction.time} for a longer one.
 */
@Proof
class PostgresLongTransactionTest extends PostgresProcessesFixture {

    private static final Duration TIME = Duration.parse(System.getProperty("spillgate.transaction.time", "PT20S"));
    private static final int PER_SECOND = Integer.getInteger("spillgate.transaction.rate", 200);
    private static final Duration SAMPLE = Duration.ofSeconds(10);

    private final PostgresForTests postgres = PostgresForTests.startOwn();
    private final Connection foreign =
            Mono.<Connection>from(postgres.factory().create()).block();

    @Test
    void theTableStopsToGrowAfterTheTransaction() throws Exception {
        PostgresProcess process = start(
                postgres.uri(),
                3,
                PER_SECOND,
                IntStream.range(0, 10).mapToObj(i -> "wide-" + i).toArray(String[]::new));
        awaitDecisions(300, process);
        Mono.delay(SAMPLE).block();
        report(process, "before");
        long before = size();
        begin();
        for (long passed = 0; passed < TIME.toSeconds(); passed += SAMPLE.toSeconds()) {
            Mono.delay(SAMPLE).block();
            report(process, passed + SAMPLE.toSeconds() + " s");
        }
        assertThat(size()).as("the size of the table").isGreaterThan(before);
        Mono.from(foreign.rollbackTransaction()).block();
        await().atMost(Duration.ofMinutes(3)).pollInterval(SAMPLE).until(() -> {
            long size = size();
            Mono.delay(SAMPLE).block();
            report(process, "after");
            return size() == size;
        });
        end();
        assertInTime(process, process.answers());
        assertChargedOnce(postgres, process.unknown());
    }

    /** With a snapshot and an id. */
    private void begin() {
        Mono.from(foreign.beginTransaction()).block();
        for (String sql : List.of(
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                "SELECT count(*) FROM " + table,
                "SELECT pg_current_xact_id()::text")) {
            Flux.from(foreign.createStatement(sql).execute())
                    .flatMap(result -> result.map(row -> "row"))
                    .blockLast();
        }
    }

    private void report(PostgresProcess process, String when) {
        List<Answer> answers = process.answers();
        long from = System.currentTimeMillis() - SAMPLE.toMillis();
        List<Answer> newest =
                answers.stream().filter(answer -> answer.requestedAt() >= from).toList();
        long[] waits = newest.stream().mapToLong(Answer::waited).sorted().toArray();
        System.out.printf(
                "[spillgate] %s: %d decisions in 10 s, %.3f in PostgreSQL, p50 %d, p99 %d, longest %d ms; table %d kB,"
                        + " index %s kB, %s dead versions; one row:%s%n",
                when,
                waits.length,
                decided(newest, answer -> true),
                waits[waits.length / 2],
                waits[waits.length * 99 / 100],
                waits[waits.length - 1],
                size() / 1024,
                postgres.execute("SELECT pg_indexes_size('" + table + "') / 1024")
                        .get(0),
                postgres.execute("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '" + table + "'")
                        .get(0),
                // How many pages a read of one row visits does not depend on the load of the machine.
                postgres
                        .execute("EXPLAIN (ANALYZE, BUFFERS, COSTS off) SELECT * FROM " + table
                                + " WHERE key = (SELECT min(key) FROM " + table + " WHERE key LIKE '%wide%')")
                        .stream()
                        .filter(line -> line.contains("Buffers:") || line.contains("Execution Time"))
                        .collect(Collectors.joining()));
    }

    private long size() {
        return Long.parseLong(
                postgres.execute("SELECT pg_relation_size('" + table + "')").get(0));
    }

    @AfterEach
    void closeServer() throws Exception {
        close();
        postgres.close();
    }
}
