package io.github.spillgate.examples.benchmark.contender;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.benchmark.measure.Servers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/**
 * The configuration of every contender: each must deny, because a limiter that never denies is fast and proves nothing.
 */
@Tag("thorough")
final class EntrantTest {

    private static final Servers SERVERS = new Servers();

    @AfterAll
    static void stop() {
        SERVERS.close();
    }

    @ParameterizedTest
    @EnumSource(mode = Mode.EXCLUDE, names = "PING")
    void threeAreAllowedAndTheFourthIsDenied(Entrant entrant) {
        assertThat(decide(entrant, new Rate(3, Duration.ofHours(1)))).containsExactly(true, true, true, false, true);
    }

    @ParameterizedTest
    @EnumSource(names = {"EVALSHA", "BUCKET4J", "BUCKET4J_BATCHING", "LOG", "COUNTER"})
    void theTightestOfThreeLimitsDenies(Entrant entrant) {
        List<Boolean> answers = decide(
                entrant,
                new Rate(10, Duration.ofSeconds(1)),
                new Rate(3, Duration.ofMinutes(1)),
                new Rate(10, Duration.ofHours(1)));
        assertThat(answers).containsExactly(true, true, true, false, true);
    }

    /**
     * Makes four decisions on one key and one on another, all by the contender itself. On a busy machine it may miss
     * its deadline; decisions by the fallback are repeated.
     */
    private static List<Boolean> decide(Entrant entrant, Rate... rates) {
        return await().atMost(Duration.ofMinutes(2))
                .ignoreExceptionsMatching(EntrantTest::isOfTheFallback)
                .until(() -> decideOnce(entrant, rates), answers -> true);
    }

    private static boolean isOfTheFallback(Throwable error) {
        return error instanceof ExecutionException
                && FutureAnswer.FELL_BACK.equals(error.getCause().getMessage());
    }

    private static List<Boolean> decideOnce(Entrant entrant, Rate... rates) throws Exception {
        String one = "one " + UUID.randomUUID();
        String other = "other " + UUID.randomUUID();
        List<Boolean> answers = new ArrayList<>();
        try (Contender contender =
                entrant.open(new Setting(SERVERS.of(entrant.topology()).get(0).port(), List.of(rates)))) {
            contender.prepare(List.of(one, other));
            for (String key : List.of(one, one, one, one, other)) {
                FutureAnswer answer = new FutureAnswer();
                contender.decide(key, answer);
                answers.add(answer.get(60, TimeUnit.SECONDS));
            }
        }
        return answers;
    }
}
