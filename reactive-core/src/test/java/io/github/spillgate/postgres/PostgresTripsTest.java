package io.github.spillgate.postgres;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Background;
import io.github.spillgate.postgres.TripProxy.End;
import io.github.spillgate.postgres.TripProxy.Trip;
import io.github.spillgate.store.CompareAndWriteStore.Change;
import io.github.spillgate.store.CompareAndWriteStore.Row;
import io.github.spillgate.store.CompareAndWriteStore.Rows;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.HeldThreads;
import io.github.spillgate.testkit.Unprotected;
import io.r2dbc.spi.ConnectionFactories;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** A process that stops in the middle of a round trip leaves nothing locked, and loses no reply. */
class PostgresTripsTest extends PostgresFixture {

    private static final int MOST_KEYS = 64;

    private final TripProxy proxy = new TripProxy(postgres.uri());

    /**
     * With a fetch size, the driver sends the end of a statement after its rows, and the rows stay locked until then.
     */
    @Test
    void aStatementIsOneRoundTripWhateverTheFetchSize() {
        PostgresStore store = store("?fetchSize=1");
        write(store, 9, 0);
        Queue<Trip> requests = new ConcurrentLinkedQueue<>();
        proxy.observe((trip, end) -> {
            if (end == End.REQUEST && trip != Trip.SWEEP) {
                requests.add(trip);
            }
        });
        assertThat(write(store, 9, 1)).hasSize(MOST_KEYS);
        assertThat(requests).containsExactly(Trip.WRITE, Trip.READ);
    }

    @Test
    void aDecisionOnARowThatThisProcessHasWrittenIsOneRoundTrip() {
        PostgresStore store = store("");
        Queue<Trip> requests = new ConcurrentLinkedQueue<>();
        RateLimiter limiter = Unprotected.limiter(store, Limit.perHour(5));
        limiter.tryAcquire("a").block();
        proxy.observe((trip, end) -> {
            if (end == End.REQUEST && trip != Trip.SWEEP) {
                requests.add(trip);
            }
        });
        limiter.tryAcquire("a").block();
        limiter.tryAcquire("a").block();
        assertThat(requests).containsExactly(Trip.UPDATE, Trip.UPDATE);
        requests.clear();
        // The reply to a conflict has the row.
        Unprotected.limiter(store(), Limit.perHour(5)).tryAcquire("a").block();
        assertThat(limiter.tryAcquire("a").block().isAllowed()).isTrue();
        assertThat(requests).containsExactly(Trip.UPDATE, Trip.UPDATE);
        assertThat(limiter.tryAcquire("a").block().isAllowed()).isFalse();
    }

    /** A write of the other process is always on its way, and comes first. */
    @ParameterizedTest
    @ValueSource(strings = {"a", "a b"})
    void aProcessThatLosesAgainAndAgainComesFirst(String keys) {
        Charge[] charges = Stream.of(keys.split(" "))
                .map(key -> Charge.of(key, Limit.perHour(5)))
                .toArray(Charge[]::new);
        RateLimiter limiter = limiter(store(""));
        Decision first = requireNonNull(limiter.tryAcquire(charges).block());
        PostgresStore other = store();
        // Two values that count one hit, by turns.
        Decision later = requireNonNull(
                limiter.tryAcquire(Charge.of("later", Limit.perHour(5))).block());
        byte[] one = row(other, DecidedClaims.of(first).get(0).identity()).value();
        byte[] two = row(other, DecidedClaims.of(later).get(0).identity()).value();
        Map<String, Row> known = new HashMap<>();
        DecidedClaims.of(first).forEach(claim -> known.put(claim.identity(), row(other, claim.identity())));
        AtomicInteger writes = new AtomicInteger();
        proxy.observe((trip, end) -> {
            if (end == End.REQUEST && (trip == Trip.WRITE || trip == Trip.UPDATE)) {
                long version = writes.incrementAndGet();
                known.replaceAll((key, row) -> written(other, row, version % 2 == 0 ? one : two, version));
            }
        });
        assertThat(requireNonNull(limiter.tryAcquire(charges).block()).isAllowed())
                .isTrue();
        assertThat(writes).hasValueLessThanOrEqualTo(10);
        for (Charge charge : charges) {
            assertThat(used(charge.key(), Limit.perHour(5))).isEqualTo(2);
        }
    }

    /** Writes a row, and returns it as it is then. */
    private static Row written(PostgresStore store, Row row, byte[] value, long version) {
        Write write = new Write(row.key(), value, row.version(), version, 0);
        return requireNonNull(store.write(List.of(new Change(List.of(write), Long.MAX_VALUE)))
                        .block())
                .rows()
                .stream()
                .findFirst()
                .orElse(new Row(row.key(), value, version));
    }

    private static Row row(PostgresStore store, String key) {
        return requireNonNull(store.read(List.of(key)).block()).rows().get(0);
    }

    /** PostgreSQL cannot send a reply that is longer than the buffers, and has not ended the statement. */
    @Test
    void aProcessThatReadsNoReplyLocksNoRow() throws InterruptedException {
        PostgresStore other = store();
        write(other, 40_000, 0);
        PostgresStore stopped = store("");
        stopped.prepare("").block();
        CountDownLatch isSent = new CountDownLatch(1);
        CountDownLatch isOver = new CountDownLatch(1);
        proxy.observe((trip, end) -> {
            if (trip == Trip.WRITE && end == End.REQUEST) {
                proxy.holdReplies(isOver);
                isSent.countDown();
            }
        });
        String before = postgres.execute("SELECT clock_timestamp()::text").get(0);
        stopped.write(changes(9, 1)).subscribe(rows -> {}, error -> {});
        isSent.await();
        await().until(() -> !postgres.execute("SELECT pid FROM pg_stat_activity WHERE query LIKE '%sg_given%" + table
                        + "%' AND query_start > '" + before + "' AND (state = 'idle' OR wait_event = 'ClientWrite')")
                .isEmpty());
        List<Row> rows = requireNonNull(other.read(keys()).block()).rows();
        List<Change> current =
                rows.stream().map(row -> change(row.key(), 9, row.version())).toList();
        assertThat(requireNonNull(other.write(current).block()).rows()).isEmpty();
        isOver.countDown();
    }

    /** A process that was stopped for longer than the timeout reads the replies first that have arrived. */
    @Test
    void aStopOfTheProcessLosesNoReply() throws Exception {
        PostgresStore store = store("", Duration.ofSeconds(1));
        store.prepare("").retry().block();
        CountDownLatch hasArrived = new CountDownLatch(1);
        CountDownLatch isRead = new CountDownLatch(1);
        proxy.observe((trip, end) -> {
            if (trip == Trip.READ && end == End.REPLY) {
                hasArrived.countDown();
                isRead.await();
            }
        });
        CompletableFuture<Rows> reply = store.read(List.of("a")).toFuture();
        hasArrived.await();
        // As long as the timeout, so this test has a duration too.
        HeldThreads timers = new HeldThreads(Background.scheduler(), 1);
        Mono.delay(Duration.ofMillis(1_500)).block();
        timers.close();
        // The timers that are due come first.
        CountDownLatch timersAreDone = new CountDownLatch(1);
        Background.scheduler().schedule(timersAreDone::countDown);
        timersAreDone.await();
        isRead.countDown();
        assertThat(reply.get(30, TimeUnit.SECONDS).rows()).hasSize(1);
    }

    private PostgresStore store(String options) {
        return store(options, Duration.ofSeconds(30));
    }

    private PostgresStore store(String options, Duration timeout) {
        return closing(PostgresStore.builder(ConnectionFactories.get(proxy.uri() + options))
                .table(table)
                .connections(1)
                .timeout(timeout)
                .build());
    }

    private static List<Row> write(PostgresStore store, int length, long version) {
        return requireNonNull(store.write(changes(length, version)).block()).rows();
    }

    private static List<String> keys() {
        return IntStream.range(0, MOST_KEYS).mapToObj(i -> "key-" + i).toList();
    }

    private static List<Change> changes(int length, long version) {
        return keys().stream().map(key -> change(key, length, version)).toList();
    }

    private static Change change(String key, int length, long version) {
        return new Change(
                List.of(new Write(key, new byte[length], version, version + 100, Long.MAX_VALUE)), Long.MAX_VALUE);
    }

    @AfterEach
    void closeProxy() throws IOException {
        proxy.close();
    }
}
