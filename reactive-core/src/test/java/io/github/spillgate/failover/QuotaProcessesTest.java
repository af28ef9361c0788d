package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.QuotaProcess.Grant;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Two processes over many boundaries of a quota, each with 64 callers. The clock of the store is set to soon before
 * each boundary, so it is days ahead of those of the processes. A period that has begun never gets more than the quota,
 * and no two of a key overlap: also if the processes have other time-zone data, or other calendars under one name.
 */
@Thorough
class QuotaProcessesTest {

    private static final int PERMITS = 200;
    private static final int BOUNDARIES = 12;
    private static final long BEFORE = 150;

    private final String shift = "shift_" + System.nanoTime();
    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final StatefulRedisConnection<String, String> redis = client.connect();
    private final List<QuotaProcess> processes = new ArrayList<>();
    private long ahead;

    @AfterEach
    void close() {
        processes.forEach(QuotaProcess::close);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** The zone has seconds, so its boundary is that of no other. */
    @ParameterizedTest
    @CsvSource({"REDIS", "POSTGRES"})
    void eachPeriodGetsItsPermitsOnce(String store) throws Exception {
        String limit = "daily zone=+05:13:27";
        run(store, limit, limit, false, List.of(limit));
        assertThat(permitsOf(QuotaProcess.HOT)).hasSizeGreaterThanOrEqualTo(BOUNDARIES);
    }

    @ParameterizedTest
    @CsvSource({"REDIS", "POSTGRES"})
    void otherTimeZoneDataNeverBeginsAPeriodTwice(String store) throws Exception {
        String limit = "daily zone=" + QuotaProcess.CHANGED_ZONE;
        run(store, limit, limit, true, List.of("daily zone=+01:00", "daily zone=+02:00"));
    }

    @ParameterizedTest
    @CsvSource({"REDIS", "POSTGRES"})
    void aCalendarThatChangesNeverBeginsAPeriodTwice(String store) throws Exception {
        run(store, "monthly name=plan", "monthly from=15 name=plan", false, List.of("monthly", "monthly from=15"));
    }

    /**
     * Runs two processes over some boundaries.
     *
     * @param isChanged whether the second process has other time-zone data
     * @param calendars those of which the boundaries are passed
     */
    private void run(String store, String first, String second, boolean isChanged, List<String> calendars)
            throws Exception {
        String uri = RedisForTests.first().uri().toURI().toString();
        if (store.equals("POSTGRES")) {
            uri = PostgresForTests.shared().uri();
            PostgresForTests.shared().execute("CREATE UNLOGGED TABLE " + shift + " AS SELECT 0::bigint AS micros");
        }
        processes.add(QuotaProcess.start(uri, shift, PERMITS + " " + first, false));
        processes.add(QuotaProcess.start(uri, shift, PERMITS + " " + second, isChanged));
        for (QuotaProcess process : processes) {
            process.begin();
        }
        awaitGrantsSince(0);
        for (int i = 0; i < BOUNDARIES; i++) {
            Instant now = Instant.ofEpochMilli(System.currentTimeMillis() + ahead);
            long next = calendars.stream()
                    .mapToLong(one -> ((Limit.Quota) Limit.parse(PERMITS + " " + one))
                            .periodEnd(now)
                            .toEpochMilli())
                    .min()
                    .orElseThrow();
            setClock(store, next - BEFORE);
            if (permitsOf(QuotaProcess.HOT).containsKey(Instant.ofEpochMilli(next))) {
                awaitGrantsSince(next);
            } else {
                // The present period ends at another boundary.
                await().until(() -> System.currentTimeMillis() + ahead > next + BEFORE);
            }
        }
        for (QuotaProcess process : processes) {
            process.end();
            assertThat(process.grants()).hasSizeGreaterThan(BOUNDARIES);
        }
        Chaos.report("quota", store + " " + first + ", " + second + ": " + permitsOf(QuotaProcess.HOT));
        assertThat(grants().map(Grant::key).distinct()).hasSizeGreaterThan(30);
        for (String key : grants().map(Grant::key).distinct().toList()) {
            assertPeriodsDoNotOverlap(key);
        }
    }

    /** Sets the clock of the store forward, to this time. */
    private void setClock(String store, long time) {
        ahead = time - System.currentTimeMillis();
        if (store.equals("POSTGRES")) {
            PostgresForTests.shared().execute("UPDATE " + shift + " SET micros = " + 1_000 * ahead);
        } else {
            redis.sync().set(shift, Long.toString(ahead));
        }
    }

    /** Waits until most permits of the hot key are taken since a time. */
    private void awaitGrantsSince(long time) {
        await().atMost(Duration.ofMinutes(1))
                .until(() -> grants().filter(grant ->
                                        grant.at() >= time && grant.key().equals(QuotaProcess.HOT))
                                .mapToLong(Grant::permits)
                                .sum()
                        > PERMITS * 3 / 4);
    }

    private Stream<Grant> grants() {
        return processes.stream().flatMap(process -> process.grants().stream());
    }

    /** Returns the permits that a key got in each period, by its end. */
    private Map<Instant, Long> permitsOf(String key) {
        return grants().filter(grant -> grant.key().equals(key))
                .collect(Collectors.groupingBy(
                        grant -> Instant.ofEpochMilli(grant.end()),
                        TreeMap::new,
                        Collectors.summingLong(Grant::permits)));
    }

    private void assertPeriodsDoNotOverlap(String key) {
        assertThat(permitsOf(key).values())
                .as(key)
                .allSatisfy(permits -> assertThat(permits).isLessThanOrEqualTo(PERMITS));
        long before = 0;
        for (Instant end : permitsOf(key).keySet()) {
            long earliest = before;
            assertThat(grants().filter(grant -> grant.key().equals(key) && grant.end() == end.toEpochMilli()))
                    .as("%s until %s", key, end)
                    .allSatisfy(grant -> assertThat(grant.at()).isBetween(earliest, grant.end() - 1));
            before = end.toEpochMilli();
        }
    }
}
