package io.github.spillgate.postgres;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.failover.GrantedPermits;
import io.github.spillgate.postgres.PostgresProcess.Answer;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Unprotected;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;

/** Processes that decide on the same keys of one PostgreSQL. */
abstract class PostgresProcessesFixture {

    static final Duration DEADLINE = Duration.ofMillis(500);
    static final Duration PATIENCE = Duration.ofMinutes(1);

    final String table = "counts_" + System.nanoTime();
    final List<PostgresProcess> processes = new ArrayList<>();

    PostgresProcess start(String uri, int connections, int perSecond, String... keys) throws IOException {
        PostgresProcess process = PostgresProcess.start(uri, table, DEADLINE, connections, perSecond, List.of(keys));
        processes.add(process);
        return process;
    }

    /** Waits until each of some processes has got some more decisions of PostgreSQL. */
    static void awaitDecisions(int number, PostgresProcess... some) {
        for (PostgresProcess process : some) {
            int before = process.byPostgres();
            await().atMost(PATIENCE).until(() -> process.byPostgres() >= before + number);
        }
    }

    /** Ends all processes when their grants are charged. No caller got an error. */
    void end() throws IOException, InterruptedException {
        for (PostgresProcess process : processes) {
            process.end();
            assertThat(process.errors()).isEmpty();
        }
    }

    /** Returns which part of some decisions PostgreSQL has made. */
    static double decided(List<Answer> answers, Predicate<Answer> which) {
        return answers.stream()
                .filter(which)
                .mapToInt(
                        answer -> List.of(Source.POSTGRES, Source.CACHED_DENIAL).contains(answer.source()) ? 1 : 0)
                .average()
                .orElseThrow();
    }

    /** Asserts that callers of a process waited for their deadline at most. */
    static long assertInTime(PostgresProcess process, List<Answer> answers) {
        long longest = answers.stream().mapToLong(Answer::waited).max().orElseThrow();
        // Half a deadline for a reply that has arrived, and the timer and the thread of the caller are late.
        assertThat(longest).isLessThan(DEADLINE.toMillis() * 3 / 2 + 2 * process.stalled() + 50);
        return longest;
    }

    private Stream<Answer> granted() {
        return processes.stream().flatMap(process -> process.answers().stream()).filter(Answer::isAllowed);
    }

    /** Returns the most permits of a key in a window. */
    long mostInAWindow(String key, Predicate<Answer> which) {
        GrantedPermits permits = new GrantedPermits(PostgresProcess.limit(key));
        granted()
                .filter(answer -> answer.key().equals(key))
                .filter(which)
                .sorted(Comparator.comparingLong(Answer::decidedAt))
                .forEach(answer -> permits.take(answer.decidedAt(), 1));
        return permits.most();
    }

    /** Asserts that each grant is charged once, in the keys whose permits do not return. */
    void assertChargedOnce(PostgresForTests postgres, long unknown) {
        PostgresStore store = PostgresStore.builder(postgres.factory())
                .table(table)
                .timeout(PATIENCE)
                .build();
        RateLimiter reader =
                RateLimiter.builder("api").store(new Unprotected(store)).build();
        Map<String, Long> granted = granted()
                .filter(answer -> !answer.key().startsWith(PostgresProcess.TIGHT))
                .collect(Collectors.groupingBy(Answer::key, Collectors.counting()));
        long more = 0;
        for (Map.Entry<String, Long> each : granted.entrySet()) {
            Charge charge = Charge.of(each.getKey(), PostgresProcess.limit(each.getKey()));
            long used = requireNonNull(reader.peek(charge).block(PATIENCE))
                    .limits()
                    .get(0)
                    .used();
            assertThat(used).as(each.getKey()).isGreaterThanOrEqualTo(each.getValue());
            more += used - each.getValue();
        }
        store.closeLater().block();
        assertThat(more).as("permits that no caller got").isLessThanOrEqualTo(unknown);
    }

    @AfterEach
    void close() throws IOException {
        processes.forEach(PostgresProcess::close);
    }
}
