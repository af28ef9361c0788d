package io.github.spillgate.examples.benchmark.measure;

import static io.github.spillgate.examples.benchmark.contender.Entrant.COUNTER_IN_POSTGRES;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.github.spillgate.examples.benchmark.contender.Contender;
import io.github.spillgate.examples.benchmark.contender.Entrant;
import io.github.spillgate.examples.benchmark.contender.FutureAnswer;
import io.github.spillgate.examples.benchmark.contender.Rate;
import io.github.spillgate.examples.benchmark.contender.Setting;
import io.github.spillgate.examples.benchmark.contender.Topology;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The counted commands: by Redis those that MONITOR shows as sent, without those that scripts call; by PostgreSQL the
 * round trips.
 */
final class ServersTest {

    private static final int DECISIONS = 10;
    private static final int TRIES = 20;
    private static final Servers SERVERS = new Servers();

    @AfterAll
    static void stop() {
        SERVERS.close();
    }

    @ParameterizedTest
    @CsvSource({
        "PING, 1",
        "EVALSHA, 1",
        "BUCKET4J, 2",
        "BUCKET4J_BATCHING, 2",
        "REDISSON, 1",
        "SPRING_GATEWAY, 1",
        "LOG, 1",
        "COUNTER, 1",
        "BUCKET4J_JDBC, 3",
        "LOCKING, 5",
        "COUNTER_IN_POSTGRES, 1"
    })
    void onlySentCommandsAreCounted(Entrant entrant, int each) throws Exception {
        Server server = SERVERS.of(entrant.topology()).get(0);
        server.empty();
        try (Contender contender =
                entrant.open(new Setting(server.port(), List.of(new Rate(1_000_000, Duration.ofSeconds(1)))))) {
            contender.prepare(List.of("key"));
            CommandCalls.Sum sent = contender.sent(used(server, contender).calls());
            // A few more, if a store of ours exchanges published limits, or deletes expired rows.
            boolean isOurs =
                    List.of(Entrant.LOG, Entrant.COUNTER, COUNTER_IN_POSTGRES).contains(entrant);
            assertThat(sent.calls() - (long) DECISIONS * each).isBetween(0L, isOurs ? DECISIONS / 2 : 0L);
            if (entrant != Entrant.PING && entrant.topology() != Topology.POSTGRES) {
                // Ten of these may take less than the server can measure.
                assertThat(sent.micros()).isPositive();
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"BUCKET4J_JDBC", "LOCKING", "COUNTER_IN_POSTGRES"})
    void tripsAreThoseOnTheWire(Entrant entrant) {
        Server server = SERVERS.of(entrant.topology()).get(0);
        Rate rate = new Rate(1_000_000, Duration.ofSeconds(1));
        try (Wire wire = new Wire(server.port());
                Contender contender = entrant.open(new Setting(wire.port(), List.of(rate)))) {
            // Until the pools have opened their connections, and the server has parsed the statements.
            await().untilAsserted(() -> {
                long tripsBefore = wire.trips();
                ServerUsage before = server.usage();
                for (int i = 0; i < DECISIONS; i++) {
                    decide(contender);
                }
                long trips = wire.trips() - tripsBefore;
                CommandCalls.Sum sent =
                        contender.sent(server.usage().since(before).calls());
                assertThat(sent.calls()).isEqualTo(trips);
            });
        }
    }

    /** Returns the cost of ten decisions. Repeats them if a fallback has decided, as on a busy machine. */
    private static ServerUsage used(Server server, Contender contender) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                // The first decision may have to create the key.
                decide(contender);
                ServerUsage before = server.usage();
                for (int i = 0; i < DECISIONS; i++) {
                    decide(contender);
                }
                return server.usage().since(before);
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
