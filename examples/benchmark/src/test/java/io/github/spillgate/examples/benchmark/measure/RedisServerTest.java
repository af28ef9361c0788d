package io.github.spillgate.examples.benchmark.measure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.github.spillgate.examples.benchmark.contender.Contender;
import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.FutureAnswer;
import io.github.spillgate.examples.benchmark.contender.Rate;
import io.github.spillgate.examples.benchmark.contender.Setting;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The counted commands, which must be those that MONITOR shows as sent, without those that scripts call. */
final class RedisServerTest {

    private static final int DECISIONS = 10;
    private static final int TRIES = 20;

    @ParameterizedTest
    @CsvSource({
        "PING, 1",
        "EVALSHA, 1",
        "BUCKET4J, 2",
        "BUCKET4J_BATCHING, 2",
        "REDISSON, 1",
        "SPRING_GATEWAY, 1",
        "LOG, 1",
        "COUNTER, 1"
    })
    void commandsWithinScriptsAreNotCounted(Entrant entrant, int each) throws Exception {
        try (RedisServer redis = RedisServer.start();
                Contender contender = entrant.open(
                        new Setting(redis.host(), redis.port(), List.of(new Rate(1_000_000, Duration.ofSeconds(1)))))) {
            contender.prepare(List.of("key"));
            CommandCalls.Sum sent = contender.sent(used(redis, contender).calls());
            assertThat(sent.calls()).isEqualTo((long) DECISIONS * each);
            if (entrant != Entrant.PING) {
                // Ten of these may take less than Redis can measure.
                assertThat(sent.micros()).isPositive();
            }
        }
    }

    /** Returns the cost of ten decisions. Repeats them if a fallback has decided, as on a busy machine. */
    private static ServerUsage used(RedisServer redis, Contender contender) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                // The first decision may have to create the key.
                decide(contender);
                ServerUsage before = redis.usage();
                for (int i = 0; i < DECISIONS; i++) {
                    decide(contender);
                }
                return redis.usage().since(before);
            } catch (ExecutionException e) {
                if (tries == TRIES) {
                    throw e;
                }
            }
        }
    }

    private static void decide(Contender contender) throws Exception {
        FutureAnswer answer = new FutureAnswer();
        contender.decide("key", answer);
        assertThat(answer.get(60, TimeUnit.SECONDS)).isTrue();
    }
}
