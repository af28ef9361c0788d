package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Source;
import io.github.spillgate.postgres.PostgresProcess.Answer;
import io.github.spillgate.postgres.TripProxy.End;
import io.github.spillgate.postgres.TripProxy.Trip;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Proof;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Mono;

/**
 * Two processes decide on the same keys, and one of them is stopped (SIGSTOP) at an end of one of its round trips. The
 * other one keeps deciding in PostgreSQL, and each grant is charged once.
 */
@Proof
class PostgresStalledProcessTest extends PostgresProcessesFixture {

    private static final PostgresForTests POSTGRES = PostgresForTests.startOwn();
    private static final Duration STOP = Duration.ofSeconds(5);
    private static final List<Trip> OF_A_NEW_CONNECTION = List.of(Trip.CONNECT, Trip.CHECK);
    private static final List<Trip> AT_THE_START = List.of(Trip.CREATE, Trip.READ_TO_REGISTER);
    private static final List<Trip> AFTER_AN_OUTAGE = List.of(Trip.READ_TO_RECONCILE, Trip.RECONCILE);

    /** The part of keys that only the stopped process uses. */
    private static final String OWN = "a";

    private final TripProxy proxy = new TripProxy(POSTGRES.uri());
    private final CompletableFuture<PostgresProcess> behindProxy = new CompletableFuture<>();
    private final CompletableFuture<Long> stoppedAt = new CompletableFuture<>();
    private final CompletableFuture<Void> executed = new CompletableFuture<>();

    /** Where the process is stopped. */
    enum Place {
        /** Its request is executed while it is stopped. */
        REQUEST,

        /** Its request is executed at the end of the stop, after all deadlines. */
        LATE_REQUEST,

        /** It gets the reply at the end of the stop. */
        REPLY
    }

    static Stream<Arguments> places() {
        return Stream.of(Trip.values())
                .filter(trip -> trip != Trip.OTHER)
                .flatMap(trip -> Stream.of(Place.values()).map(place -> Arguments.of(trip, place)));
    }

    @ParameterizedTest
    @MethodSource("places")
    void aStoppedProcessHoldsUpNoOther(Trip trip, Place place) throws Exception {
        boolean isLateWrite = place == Place.LATE_REQUEST && (trip == Trip.WRITE || trip == Trip.UPDATE);
        PostgresProcess other;
        PostgresProcess stopped;
        if (AT_THE_START.contains(trip)) {
            stopAt(trip, place);
            stopped = start(proxy.uri(), OWN);
            behindProxy.complete(stopped);
            stoppedAt.get(1, TimeUnit.MINUTES);
            other = start(POSTGRES.uri(), "b");
            awaitDecisions(300, other);
        } else {
            other = start(POSTGRES.uri(), "b");
            stopped = isLateWrite ? startOnOwnKeys(trip) : start(proxy.uri(), OWN);
            behindProxy.complete(stopped);
            awaitDecisions(300, other, stopped);
            stopAt(trip, place);
            if (OF_A_NEW_CONNECTION.contains(trip)) {
                proxy.closeConnections();
            } else if (AFTER_AN_OUTAGE.contains(trip)) {
                awaitLocalGrants(stopped);
            }
            stoppedAt.get(1, TimeUnit.MINUTES);
        }
        long from = System.currentTimeMillis();
        Mono.delay(DEADLINE.multipliedBy(2)).block();
        List<String> atTheDeadline = isLateWrite ? ownRows() : List.of();
        Mono.delay(STOP.minus(DEADLINE.multipliedBy(2))).block();
        long to = System.currentTimeMillis();
        if (isLateWrite) {
            executed.get(1, TimeUnit.MINUTES);
            assertThat(ownRows()).hasSize(2).isEqualTo(atTheDeadline);
        }
        stopped.signal("CONT");
        awaitDecisions(300, other, stopped);
        end();

        List<Answer> during = other.answers().stream()
                .filter(answer -> answer.requestedAt() >= from && answer.requestedAt() < to)
                .toList();
        double others = decided(during, answer -> !isShared(answer));
        double shared =
                decided(during, answer -> isShared(answer) && answer.requestedAt() > from + DEADLINE.toMillis());
        long longest = assertInTime(other, during);
        System.out.printf(
                "[spillgate] %s, %s: PostgreSQL decides on %.3f of other keys, %.3f of the same; longest wait %d ms"
                        + " (timers %d ms late); %d permits unknown%n",
                trip, place, others, shared, longest, other.stalled(), stopped.unknown());
        assertThat(others).as("%s", other.log()).isGreaterThanOrEqualTo(0.95);
        assertThat(shared).as("%s", other.log()).isGreaterThanOrEqualTo(0.95);
        assertThat(mostInAWindow("tight-shared", answer -> answer.source() == Source.POSTGRES))
                .isBetween(1L, 100L);
        assertChargedOnce(POSTGRES, stopped.unknown());
    }

    private static boolean isShared(Answer answer) {
        return answer.key().endsWith("-shared");
    }

    /** Stops the process behind the proxy at a place, once. */
    private void stopAt(Trip trip, Place place) {
        AtomicBoolean isDone = new AtomicBoolean();
        AtomicBoolean isPassedOn = new AtomicBoolean();
        End end = place == Place.REPLY ? End.REPLY : End.REQUEST;
        proxy.observe((each, at) -> {
            if (each == trip && at == end && isDone.compareAndSet(false, true)) {
                behindProxy.join().signal("STOP");
                stoppedAt.complete(System.currentTimeMillis());
                if (place == Place.LATE_REQUEST) {
                    Mono.delay(STOP).block();
                }
                isPassedOn.set(true);
            } else if (each == trip && at == End.REPLY && isPassedOn.get()) {
                executed.complete(null);
            }
        });
    }

    /** Closes connections until the process has granted permits itself. */
    private void awaitLocalGrants(PostgresProcess process) throws IOException {
        while (!stoppedAt.isDone() && process.answers().stream().noneMatch(answer -> answer.source() == Source.LOCAL)) {
            proxy.closeConnections();
            Mono.delay(Duration.ofMillis(20)).block();
        }
    }

    /** The keys and versions of the rows that only the stopped process writes. */
    private List<String> ownRows() {
        return POSTGRES.execute(
                "SELECT key || ' ' || version FROM " + table + " WHERE key ~ '(wide|long)-" + OWN + "' ORDER BY key");
    }

    /** With one connection and many requests, several rows are in one write; otherwise mostly one. */
    private PostgresProcess startOnOwnKeys(Trip trip) throws IOException {
        return trip == Trip.WRITE
                ? start(proxy.uri(), 1, 1_000, "wide-" + OWN, "long-" + OWN)
                : start(proxy.uri(), 3, 150, "wide-" + OWN, "long-" + OWN);
    }

    private PostgresProcess start(String uri, String name) throws IOException {
        return start(
                uri,
                3,
                150,
                "wide-shared",
                "long-shared",
                "tight-shared",
                "wide-" + name,
                "long-" + name,
                PostgresProcess.NEW);
    }

    @AfterEach
    void closeProxy() throws IOException {
        proxy.close();
    }

    @AfterAll
    static void stop() {
        POSTGRES.close();
    }
}
