package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Source;
import io.github.spillgate.failover.OutageProcess.Answer;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.api.SoftAssertions;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Mono;

/**
 * What several processes on one Redis admit together if it is killed for 30 s and restarts without its data, with the
 * default settings. Each runs all kinds of traffic at the same time, with a limiter for each.
 */
@Proof
class OutageProcessesTest {

    private static final Duration BEFORE = Duration.ofSeconds(21);
    private static final Duration OUTAGE = Duration.ofSeconds(30);
    private static final Duration AFTER = Duration.ofSeconds(21);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<OutageProcess> processes = new ArrayList<>();

    @AfterEach
    void close() throws IOException {
        for (OutageProcess process : processes) {
            process.close();
        }
        redis.close();
    }

    @ParameterizedTest
    @CsvSource({"1, 1", "2, 2", "4, 4", "16, 4"})
    void instancesTogetherStayNearTheLimit(int instances, int processCount) throws IOException {
        int each = instances / processCount;
        Duration time = BEFORE.plus(OUTAGE).plus(AFTER);
        for (int i = 0; i < processCount; i++) {
            processes.add(
                    OutageProcess.start(redis.uri().toURI().toString(), i * each, (i + 1) * each, instances, time));
        }
        long start = System.currentTimeMillis() + 500;
        for (OutageProcess process : processes) {
            process.go(start);
        }
        // The outage has a duration, so this test has one too.
        Mono.delay(Duration.ofMillis(start - System.currentTimeMillis()).plus(BEFORE))
                .block();
        redis.kill();
        long killed = System.currentTimeMillis();
        Mono.delay(OUTAGE).block();
        long restarted = System.currentTimeMillis();
        redis.restart();
        List<Answer> answers = new ArrayList<>();
        for (OutageProcess process : processes) {
            answers.addAll(process.answers());
        }
        assertThat(answers)
                .filteredOn(answer -> answer.source() == Source.REDIS && answer.at() > restarted + 5_000)
                .isNotEmpty();
        // All of them are reported, whichever fails.
        SoftAssertions softly = new SoftAssertions();
        for (OutageTraffic traffic : OutageTraffic.all()) {
            assertStaysNearTheLimit(softly, instances, traffic, answers, killed, restarted);
        }
        softly.assertAll();
    }

    private static void assertStaysNearTheLimit(
            SoftAssertions softly,
            int instances,
            OutageTraffic traffic,
            List<Answer> all,
            long killed,
            long restarted) {
        List<Answer> answers = all.stream()
                .filter(answer -> answer.limiter().equals(traffic.limiter()))
                .sorted(Comparator.comparingLong(Answer::at))
                .toList();
        List<Answer> outage = answers.stream()
                .filter(answer -> answer.at() >= killed && answer.at() < restarted)
                .toList();
        double served = outage.stream().filter(Answer::isAllowed).count() / (double) outage.size();
        double most = mostInAWindow(answers) / (double) OutageTraffic.LIMIT.permits();
        double mostDuring = mostInAWindow(outage) / (double) OutageTraffic.LIMIT.permits();
        String what = "%d instances, %s, demand %s: most %.2f, during the outage %.2f; served %.3f of %d"
                .formatted(instances, traffic.spread(), traffic.demand(), most, mostDuring, served, outage.size());
        Chaos.report("outage", what);
        softly.assertThat(outage)
                .as(what)
                .filteredOn(answer -> answer.source() == Source.LOCAL)
                .isNotEmpty();
        softly.assertThat(most).as(what).isLessThanOrEqualTo(1.25);
        if (traffic.demand() < 1) {
            softly.assertThat(served).as(what).isGreaterThanOrEqualTo(0.9);
        }
    }

    private static long mostInAWindow(List<Answer> answers) {
        Map<Integer, GrantedPermits> byKey = new HashMap<>();
        answers.stream()
                .filter(Answer::isAllowed)
                .forEach(answer -> byKey.computeIfAbsent(answer.key(), key -> new GrantedPermits(OutageTraffic.LIMIT))
                        .take(answer.at(), 1));
        return byKey.values().stream().mapToLong(GrantedPermits::most).max().orElse(0);
    }
}
