package io.github.spillgate.postgres;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.store.CompareAndWriteStore.Change;
import io.github.spillgate.store.CompareAndWriteStore.Row;
import io.github.spillgate.store.CompareAndWriteStore.Rows;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.ConnectionFactoryMetadata;
import io.r2dbc.spi.Wrapped;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** What a store on rows promises, on PostgreSQL. */
class PostgresStoreTest extends PostgresFixture {

    private static final AtomicLong VERSIONS = new AtomicLong();
    private static final long NEVER = Long.MAX_VALUE;

    private final PostgresStore store = store();

    @Test
    void aRowIsWrittenWithItsExpectedVersionOnly() {
        assertThat(row("a").version()).isZero();
        assertThat(write(change(NEVER, put("a", "one", 0)))).isEmpty();
        Row one = row("a");
        assertThat(one.value()).asString(UTF_8).isEqualTo("one");
        assertThat(one.version()).isPositive();
        List<Row> current = write(change(NEVER, put("a", "two", 0)));
        assertThat(current).singleElement().satisfies(row -> {
            assertThat(row.value()).asString(UTF_8).isEqualTo("one");
            assertThat(row.version()).isEqualTo(one.version());
        });
        assertThat(write(change(NEVER, put("a", "two", one.version() + 1)))).hasSize(1);
        assertThat(write(change(NEVER, put("a", "two", one.version())))).isEmpty();
        assertThat(row("a").version()).isGreaterThan(one.version());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 4_000, 4_001})
    void aRowThatIsNotUpdatedIsReturnedAsItIsNow(int length) {
        write(change(NEVER, new Write("a", new byte[length + 1], 0, 5, NEVER)));
        write(change(NEVER, new Write("a", new byte[length], 5, 6, NEVER)));
        assertThat(write(change(NEVER, put("a", "two", 5)))).singleElement().satisfies(row -> {
            assertThat(row.value()).hasSize(length);
            assertThat(row.version()).isEqualTo(6);
        });
        assertThat(write(change(NEVER, put("b", "two", 5))))
                .singleElement()
                .satisfies(row -> assertThat(row.version()).isZero());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2_000, 2_001, 4_001})
    void aRowThatIsRenumberedChangesNothingElse(int length) {
        write(
                change(NEVER, new Write("a", new byte[length], 0, 5, NEVER)),
                change(NEVER, new Write("b", new byte[length], 0, 5, NEVER)),
                change(NEVER, new Write("expired", new byte[length], 0, 5, 1)));
        Map<String, Long> versions = Map.of("a", 6L, "b", 7L, "expired", 8L, "absent", 9L);
        Rows rows = requireNonNull(store.renumber(versions).block());
        Map<String, Row> byKey = rows.rows().stream().collect(Collectors.toMap(Row::key, row -> row));
        assertThat(byKey).containsOnlyKeys(versions.keySet());
        assertThat(byKey.get("a")).matches(row -> row.value().length == length && row.version() == 6);
        assertThat(byKey.get("b")).matches(row -> row.value().length == length && row.version() == 7);
        assertThat(byKey.get("expired")).matches(row -> row.value().length == 0 && row.version() == 8);
        assertThat(byKey.get("absent")).matches(row -> row.value().length == 0 && row.version() == 0);
        assertThat(postgres.execute("SELECT expires_at FROM " + table + " ORDER BY key"))
                .containsExactly(String.valueOf(NEVER), String.valueOf(NEVER), "1");
        assertThat(write(change(NEVER, put("a", "two", 5)))).hasSize(1);
        assertThat(write(change(NEVER, put("a", "two", 6)))).isEmpty();
    }

    @Test
    void aRowThatIsLockedIsNotRenumbered() {
        write(change(NEVER, put("a", "one", 0)), change(NEVER, put("b", "one", 0)));
        long version = row("a").version();
        Connection foreign = begin("SELECT * FROM " + table + " WHERE key = 'spillgate/1/a' FOR UPDATE");
        assertThat(requireNonNull(store.renumber(Map.of("a", 90_001L, "b", 90_002L))
                                .block())
                        .rows())
                .extracting(Row::version)
                .containsExactlyInAnyOrder(version, 90_002L);
        rollback(foreign);
        assertThat(row("a").version()).isEqualTo(version);
    }

    /** The statement sees the rows as they were when it began. */
    @ParameterizedTest
    @ValueSource(strings = {"a b", "b a"})
    void aRowThatIsWrittenWhileItIsRenumberedKeepsWhatWasWritten(String keys) throws Exception {
        Map<String, Long> versions = new LinkedHashMap<>();
        for (String key : keys.split(" ", -1)) {
            versions.put(key, key.equals("a") ? 90_001L : 90_002L);
        }
        write(change(NEVER, put("a", "one", 0)), change(NEVER, put("b", "one", 0)));
        PostgresStore held = closing(builder()
                .statements(text -> text.contains("sg_renumbered")
                        ? text.replace("SELECT $1::text[]", "SELECT $1::text[] FROM pg_advisory_xact_lock(77)")
                        : text)
                .build());
        Connection foreign = begin("SELECT 1 FROM pg_advisory_xact_lock(77)");
        CompletableFuture<Rows> reply = held.renumber(versions).toFuture();
        awaitWaitForLock();
        assertThat(write(change(NEVER, put("a", "two", row("a").version())))).isEmpty();
        assertThat(write(change(NEVER, put("a", "three", row("a").version())))).isEmpty();
        // The reply to a write arrives shortly before its transaction ends.
        await().until(() -> postgres.execute("SELECT pid FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE '%"
                        + table + "%' AND query !~ 'sg_renumbered|pg_stat_activity'")
                .isEmpty());
        rollback(foreign);
        Map<String, Row> byKey = reply.get().rows().stream().collect(Collectors.toMap(Row::key, row -> row));
        assertThat(byKey.get("a").value()).asString(UTF_8).isEqualTo("three");
        // It may have got no new version, but the reply says so.
        assertThat(byKey.get("a").version()).isEqualTo(row("a").version());
        assertThat(byKey.get("b").version()).isEqualTo(90_002);
        assertThat(row("a").value()).asString(UTF_8).isEqualTo("three");
        assertThat(row("b").version()).isEqualTo(90_002);
    }

    @Test
    void allRowsOfAChangeAreWrittenOrNone() {
        write(change(NEVER, put("a", "one", 0)));
        List<Row> current = write(
                change(NEVER, put("a", "two", row("a").version()), put("b", "two", 7)),
                change(NEVER, put("c", "two", 0)),
                change(NEVER, put("d", "two", 0), put("a2", "two", 0)));
        assertThat(current.stream().map(Row::key)).containsExactlyInAnyOrder("a", "b");
        assertThat(row("a").value()).asString(UTF_8).isEqualTo("one");
        assertThat(row("b").version()).isZero();
        assertThat(row("c").version()).isPositive();
        assertThat(row("d").version()).isPositive();
    }

    @Test
    void aLateChangeIsNotWritten() {
        long now = requireNonNull(store.read(List.of("a")).block()).micros();
        assertThat(write(change(now, put("a", "one", 0)), change(NEVER, put("b", "one", 0))))
                .extracting(Row::key)
                .containsExactly("a");
        assertThat(row("a").version()).isZero();
        write(change(NEVER, put("a", "one", 0)));
        assertThat(write(change(now, put("a", "two", row("a").version())))).hasSize(1);
        assertThat(row("a").value()).asString(UTF_8).isEqualTo("one");
    }

    /** Another transaction inserts the row, so the statement waits; it ends without it, after the deadline. */
    @Test
    void theDeadlineIsCheckedAfterAWait() {
        long now = requireNonNull(store.read(List.of("a")).block()).micros();
        Connection foreign = begin("INSERT INTO " + table + " VALUES ('spillgate/1/a', '', 1, 9000000000000000)");
        // The statement must begin to wait before it, also on a busy machine.
        long deadline = now + 2_000_000;
        CompletableFuture<Rows> written = store.write(
                        List.of(change(deadline, put("a", "one", 0)), change(NEVER, put("b", "one", 0))))
                .toFuture();
        awaitWaitForLock();
        await().until(() -> requireNonNull(store.read(List.of("a")).block()).micros() > deadline);
        rollback(foreign);
        assertThat(written.join().rows().stream().map(Row::key)).contains("a");
        assertThat(row("a").version()).isZero();
    }

    /** The clock is a second later each time that a statement looks at it: what expires in between is not absent. */
    @ParameterizedTest
    @ValueSource(longs = {20, 21})
    void aValueThatExpiresDuringAStatementHasNotExpiredAtItsTime(long ticks) {
        String clock = table + "_ticks";
        postgres.execute("CREATE SEQUENCE " + clock);
        PostgresStore ticking = closing(builder()
                .statements(text -> text.replace(SqlClock.CLOCK, "(1000000 * nextval('" + clock + "'))"))
                .build());
        long now = requireNonNull(ticking.read(List.of("a")).block()).micros();
        long expiresAt = now / 1_000 + 1_000 * ticks;
        write(ticking, change(NEVER, new Write("a", "one".getBytes(UTF_8), 0, 7, expiresAt)));
        for (long at = 0; at < expiresAt; ) {
            Rows rows = requireNonNull(
                    ticking.write(List.of(change(NEVER, put("a", "two", 5)))).block());
            at = rows.micros() / 1_000;
            assertThat(rows.rows().get(0).value().length == 0)
                    .as("%s, of %s", at, expiresAt)
                    .isEqualTo(at >= expiresAt);
        }
    }

    /** Two keys of one decision are new, and one of them is inserted between the read and the end of the write. */
    @Test
    void aChangeIsNotWrittenInPartIfAnotherTransactionInsertsARow() {
        store.read(List.of("a")).block();
        Connection foreign = begin("INSERT INTO " + table + " VALUES ('spillgate/1/b', '', 1, 9000000000000000)");
        CompletableFuture<Rows> written = store.write(List.of(
                        change(NEVER, put("a", "one", 0), put("b", "one", 0)), change(NEVER, put("c", "one", 0))))
                .toFuture();
        awaitWaitForLock();
        Mono.from(foreign.commitTransaction()).then(Mono.from(foreign.close())).block();
        assertThat(written.join().rows().stream().map(Row::key)).contains("a", "b");
        assertThat(row("a").version()).isZero();
        assertThat(row("b").version()).isEqualTo(1);
    }

    @Test
    void aLockOfAnotherTransactionDelaysNoOtherKey() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(closing(builder().connections(1).build()))
                .limit(Limit.of(100, Duration.ofHours(5)))
                .deadline(Duration.ofSeconds(2))
                .build();
        take(limiter, "locked").block();
        Connection foreign = begin("SELECT * FROM " + table + " FOR UPDATE");
        List<Decision> decisions = requireNonNull(Flux.range(0, 60)
                .flatMap(i -> take(limiter, i == 30 ? "locked" : "key-" + i))
                .collectList()
                .block(Duration.ofSeconds(30)));
        Map<Source, Long> bySource =
                decisions.stream().collect(Collectors.groupingBy(Decision::source, Collectors.counting()));
        assertThat(bySource).containsOnly(Map.entry(Source.POSTGRES, 59L), Map.entry(Source.LOCAL, 1L));
        rollback(foreign);
        await().untilAsserted(() -> assertThat(limiter.state().toReconcile()).isZero());
        assertThat(used("locked", Limit.of(100, Duration.ofHours(5)))).isEqualTo(2);
        limiter.close();
    }

    /**
     * A server does not notice that a connection is closed while its statement waits. What wraps connections, for
     * example for traces, is used.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void statementsThatAreGivenUpDoNotGoOnWaitingInTheServer(boolean isTraced) {
        Set<String> traces = ConcurrentHashMap.newKeySet();
        ConnectionFactory factory = postgres.factory();
        PostgresStore impatient =
                closing(PostgresStore.builder(isTraced ? traced(ConnectionFactory.class, factory, traces) : factory)
                        .table(table)
                        .connections(1)
                        .timeout(Duration.ofMillis(200))
                        .build());
        write(change(NEVER, put("a", "one", 0)));
        Connection foreign = begin("LOCK TABLE " + table);
        for (int i = 0; i < 5; i++) {
            assertThatThrownBy(() -> impatient.read(List.of("a")).block()).isInstanceOf(LimitStoreException.class);
        }
        await().untilAsserted(() -> assertThat(postgres.execute("SELECT count(*) FROM pg_stat_activity"
                        + " WHERE wait_event_type = 'Lock' AND query LIKE '%" + table + "%'"))
                .containsExactly("0"));
        rollback(foreign);
        if (isTraced) {
            assertThat(traces).contains("create", "createStatement");
        }
    }

    /** Returns a wrapper that records the names of the methods that are called. */
    private static <T> T traced(Class<T> type, T inner, Set<String> calls) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type, Wrapped.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("unwrap")) {
                        return inner;
                    }
                    calls.add(method.getName());
                    Object result = method.invoke(inner, arguments);
                    return method.getName().equals("create")
                            ? Mono.from((Publisher<?>) result)
                                    .map(opened -> traced(Connection.class, (Connection) opened, calls))
                            : result;
                }));
    }

    private static Mono<Decision> take(RateLimiter limiter, String key) {
        return limiter.tryAcquire(key);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "'",
                "''",
                "\\",
                "\\'",
                "\"",
                "a'; DROP TABLE x; --",
                "{a,b}",
                "NULL",
                "$1",
                "%s",
                "?",
                "\\x41",
                "E'\\n'",
                " ",
                "  a  ",
                "~!@#$%^&*()_+`-={}[]:;<>,.?/|",
                "TABLE",
                "CLOCK"
            })
    void everyKeyIsKeptAsItIs(String key) {
        write(change(NEVER, put(key, "value of " + key, 0)));
        assertThat(row(key).value()).asString(UTF_8).isEqualTo("value of " + key);
        assertThat(postgres.execute("SELECT key FROM " + table)).containsExactly("spillgate/1/" + key);
        Limit limit = Limit.of(1, Duration.ofHours(5));
        assertThat(requireNonNull(
                                limiter(store).tryAcquire(Charge.of(key, limit)).block())
                        .isAllowed())
                .isTrue();
        assertThat(used(key, limit)).isEqualTo(1);
    }

    @Test
    void everyByteIsKeptAsItIs() {
        byte[] all = new byte[9_000];
        IntStream.range(0, all.length).forEach(i -> all[i] = (byte) (i * 31 + i / 256));
        write(change(NEVER, new Write("a", all, 0, VERSIONS.incrementAndGet(), NEVER)));
        assertThat(row("a").value()).isEqualTo(all);
    }

    @Test
    void anExpiredRowHasNoValueAndIsSwept() {
        long millis = requireNonNull(store.read(List.of("a")).block()).micros() / 1_000;
        List<Change> changes = IntStream.range(0, 500)
                .mapToObj(i -> change(
                        NEVER,
                        new Write(
                                "key-" + i,
                                new byte[900],
                                0,
                                VERSIONS.incrementAndGet(),
                                i % 2 == 0 ? millis - 180_000 : millis + 3_600_000)))
                .toList();
        write(changes.toArray(Change[]::new));
        Row expired = row("key-0");
        assertThat(expired.value()).isEmpty();
        assertThat(row("key-1").value()).hasSize(900);
        await().untilAsserted(() ->
                assertThat(postgres.execute("SELECT count(*) FROM " + table)).containsExactly("250"));
        assertThat(row("key-0").version()).isZero();
    }

    /** A process may have read that there was no row: it must notice that it was written, and has expired. */
    @Test
    void anExpiredRowKeepsItsVersionForAWhile() {
        long millis = requireNonNull(store.read(List.of("a")).block()).micros() / 1_000;
        write(change(NEVER, new Write("a", new byte[9], 0, VERSIONS.incrementAndGet(), millis - 1)));
        write(change(NEVER, new Write("b", new byte[9], 0, VERSIONS.incrementAndGet(), millis - 180_000)));
        await().untilAsserted(() ->
                assertThat(postgres.execute("SELECT key FROM " + table)).containsExactly("spillgate/1/a"));
        assertThat(write(change(NEVER, put("a", "two", 0)))).hasSize(1);
    }

    /** A row that is empty, or kept for as long as its longest write says. */
    @Test
    void aRowIsKeptAsLongAsItsLongestWriteSays() {
        write(change(NEVER, new Write("a", new byte[1], 0, VERSIONS.incrementAndGet(), NEVER)));
        write(change(NEVER, new Write("a", new byte[2], row("a").version(), VERSIONS.incrementAndGet(), 0)));
        assertThat(row("a").value()).hasSize(2);
        write(change(NEVER, put("a", "", row("a").version())));
        await().untilAsserted(() ->
                assertThat(postgres.execute("SELECT count(*) FROM " + table)).containsExactly("0"));
    }

    /** Words of SQL, and names that our statements use. */
    @ParameterizedTest
    @ValueSource(strings = {"user", "order", "table", "g", "t", "public.user"})
    void aTableMayHaveAnyName(String name) {
        PostgresStore named = closing(builder().table(name).build());
        RateLimiter limiter = limiter(named);
        Limit limit = Limit.of(2, Duration.ofHours(5));
        String quoted = '"' + name.replace(".", "\".\"") + '"';
        try {
            for (String key : List.of("a", "b", "a", "b", "a", "b")) {
                limiter.tryAcquire(Charge.of(key, limit)).block();
            }
            write(named, change(NEVER, new Write("expired", new byte[1], 0, VERSIONS.incrementAndGet(), 0)));
            await().untilAsserted(() -> assertThat(postgres.execute("SELECT count(*) FROM " + quoted))
                    .containsExactly("2"));
            assertThat(limiter.peek(Charge.of("a", limit))
                            .block()
                            .limits()
                            .get(0)
                            .used())
                    .isEqualTo(2);
        } finally {
            named.closeLater().block();
            postgres.execute("DROP TABLE IF EXISTS " + quoted);
        }
    }

    @Test
    void stateIsNotSharedByNamespaces() {
        PostgresStore other = closing(builder().namespace("shop:prod").build());
        write(change(NEVER, put("a", "one", 0)));
        assertThat(requireNonNull(other.read(List.of("a")).block())
                        .rows()
                        .get(0)
                        .version())
                .isZero();
    }

    @Test
    void theTableIsUnloggedUnlessItIsToBeLogged() {
        store.prepare("").block();
        assertThat(postgres.execute("SELECT relpersistence FROM pg_class WHERE relname = '" + table + "'"))
                .containsExactly("u");
        postgres.execute("DROP TABLE " + table);
        PostgresStore logged = closing(builder().logged(true).build());
        logged.prepare("").block();
        assertThat(postgres.execute("SELECT relpersistence FROM pg_class WHERE relname = '" + table + "'"))
                .containsExactly("p");
    }

    @Test
    void severalStoresCreateTheTableAtTheSameTime() {
        Flux.range(0, 8)
                .map(i -> closing(builder().connections(8).build()))
                .flatMap(each -> each.prepare(""))
                .blockLast(Duration.ofSeconds(30));
    }

    @Test
    void aStoreHasNoMoreConnectionsThanItMayHave() {
        RateLimiter limiter = limiter(closing(builder("counted_" + table, 2)));
        Flux.range(0, 3_000)
                .flatMap(i -> limiter.tryAcquire(Charge.of("key-" + i, Limit.of(1, Duration.ofHours(5)))), 256)
                .blockLast(Duration.ofSeconds(30));
        assertThat(postgres.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'counted_" + table + "'"))
                .containsExactly("2");
    }

    private PostgresStore builder(String role, int connections) {
        postgres.execute("CREATE ROLE " + role + " LOGIN SUPERUSER");
        return builder(role).connections(connections).build();
    }

    @Test
    void aClosedStoreSaysSo() {
        store.prepare("").block();
        store.closeLater().block();
        assertThat(store.prepare("").materialize().block().getThrowable())
                .is(kind(Kind.UNAVAILABLE))
                .hasMessageContaining("closed");
    }

    @Test
    void settingsAreChecked() {
        PostgresStore.Builder builder = builder();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.namespace("a/b"))
                .withMessageContainingAll("\"a/b\"", "shop:prod");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.table("x; DROP TABLE y\n"))
                .withMessageContainingAll("\"x; DROP TABLE y\\u000a\"", "limits.spillgate_counts");
        // Our statements use such names.
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.table("limits.sg_given"))
                .withMessageContainingAll("\"limits.sg_given\"", "sg_", "limits.spillgate_counts");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.connections(9))
                .withMessageContainingAll("9", "1 to 8");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.timeout(Duration.ZERO))
                .withMessageContainingAll("PT0S", "10 ms");
    }

    /** A plan for a single key takes longer than its execution. */
    @Test
    void theServerPlansAStatementOnce() {
        List<Connection> opened = new CopyOnWriteArrayList<>();
        ConnectionFactory factory = postgres.factory();
        PostgresStore observed = closing(PostgresStore.builder(new ConnectionFactory() {
                    @Override
                    public Publisher<? extends Connection> create() {
                        return Mono.<Connection>from(factory.create()).doOnNext(opened::add);
                    }

                    @Override
                    public ConnectionFactoryMetadata getMetadata() {
                        return factory.getMetadata();
                    }
                })
                .table(table)
                .connections(1)
                .build());
        for (int i = 0; i < 20; i++) {
            observed.read(List.of("a")).block();
            observed.renumber(Map.of("a", VERSIONS.incrementAndGet())).block();
            write(observed, change(NEVER, put("a", "one", 7)));
            write(observed, change(NEVER, put("a", "one", 7), put("b", "one", 7)));
        }
        List<Long> plansOfEach = Flux.from(opened.get(0)
                        .createStatement("SELECT custom_plans FROM pg_prepared_statements WHERE statement ~ '" + table
                                + "' AND statement !~ 'sg_turn|to_regclass'")
                        .execute())
                .concatMap(result -> result.map(row -> requireNonNull(row.get(0, Long.class))))
                .collectList()
                .block();
        // PostgreSQL makes five plans for the parameters of their calls before it decides.
        assertThat(plansOfEach).containsExactly(5L, 5L, 5L, 5L);
    }

    private Row row(String key) {
        return requireNonNull(store.read(List.of(key)).block()).rows().get(0);
    }

    private List<Row> write(Change... changes) {
        return write(store, changes);
    }

    private static List<Row> write(PostgresStore store, Change... changes) {
        return requireNonNull(store.write(List.of(changes)).block()).rows();
    }

    private static Change change(long deadline, Write... writes) {
        return new Change(List.of(writes), deadline);
    }

    private static Write put(String key, String value, long version) {
        return new Write(key, value.getBytes(UTF_8), version, VERSIONS.incrementAndGet(), NEVER);
    }

    private static void rollback(Connection connection) {
        Mono.from(connection.rollbackTransaction())
                .then(Mono.from(connection.close()))
                .block();
    }
}
