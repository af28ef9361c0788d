package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.postgres.SqlClock;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.store.CompareAndWriteStore;
import io.github.spillgate.store.LastingMapStore;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.DecisionText;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;
import net.jqwik.api.Tuple;
import net.jqwik.api.lifecycle.AfterContainer;
import net.jqwik.api.lifecycle.BeforeContainer;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The brute-force model, the local store, the scripts in Redis, and stores that compare and write, in a map and in
 * PostgreSQL, get the same random traffic on the same clock, and must agree in every field of every decision.
 */
class StoreOracleTest {

    private static final int KEYS = 2;
    private static final List<Double> DEBTS = List.of(1.0, 0.0, 0.5, 4.0);

    /** A boundary of quotas that is near to the time at which a clock starts. */
    static final LocalTime SOON = LocalTime.ofInstant(Instant.ofEpochMilli(new ManualClock().millis()), ZoneOffset.UTC)
            .truncatedTo(ChronoUnit.MINUTES)
            .plusMinutes(1);

    /** Those that are there twice are tried twice as often. */
    private static final String KINDS =
            "log log leased leased counter clock bucket bucket leasedBucket leasedBucket holds holds quota quota"
                    + " ban ban pause";

    private static final AtomicInteger RUNS = new AtomicInteger();

    private static RedisClient client;
    private static ScriptedClock scripted;
    private static ScriptStores shortPieces;
    private static ScriptStores longPieces;
    private static SqlClock sql;

    static final Take TAKE = take(1);
    static final Peek PEEK = new Peek(List.of(new ChargeSpec(0, 1, 1)));

    private static Take take(int cost) {
        return new Take(List.of(new ChargeSpec(0, 1, cost)));
    }

    /** Returns a single limit with a window of a second. */
    private static List<Form> form(String kind, int permits) {
        return List.of(new Form(kind, permits, 1_000, 1, false, 0));
    }

    @BeforeContainer
    static void connect() {
        client = RedisClient.create(RedisForTests.first().uri());
        scripted = new ScriptedClock(client);
        shortPieces = ScriptStores.load(true);
        longPieces = ScriptStores.load(false);
        sql = new SqlClock(PostgresForTests.shared());
    }

    @AfterContainer
    static void shutdown() {
        scripted.close();
        sql.close();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    @Property(tries = 50)
    void modelJavaAndLuaAgree(
            @ForAll("limits") List<Form> forms, @ForAll("traffic") List<Action> traffic, @ForAll boolean shortened) {
        assertSameReplies(forms, traffic, shortened);
    }

    /** Logs so long that the script changes them in place, rewrites them, trims them and removes single entries. */
    @Property(tries = 30)
    void modelJavaAndLuaAgreeOnLongLogs(
            @ForAll("longLogs") List<Form> forms, @ForAll("denseTraffic") List<Action> traffic) {
        assertSameReplies(forms, traffic, true);
    }

    /** An empty value has an expiry, which may be far away then. */
    @Example
    void modelJavaAndLuaAgreeOnEmptiedCountsAfterAClockStepBack() {
        ChargeSpec all = new ChargeSpec(0, 1, 100);
        for (String kind : List.of("log", "counter", "clock", "bucket", "leasedBucket")) {
            for (Action emptying : List.of(new Refund(0), new RefundOldest(all), new Reset(all))) {
                for (int step : new int[] {-10_000, -40, 0, 40}) {
                    assertSameReplies(
                            List.of(new Form(kind, 3, 50, 1, false, 0)),
                            List.of(TAKE, emptying, new Tick(step), TAKE, TAKE, PEEK, new Tick(30), TAKE, TAKE, PEEK),
                            false);
                }
            }
        }
    }

    /** Refunds to zero and resets between the takes, also at other rates. */
    @Property(tries = 50)
    void modelJavaAndLuaAgreeOnEmptiedCounts(
            @ForAll("limits") List<Form> forms,
            @ForAll("emptyingTraffic") List<Action> traffic,
            @ForAll boolean shortened) {
        assertSameReplies(forms, traffic, shortened);
    }

    @Property(tries = 500)
    @Tag("thorough")
    void modelJavaAndLuaAgreeOnEmptiedCountsInManyRuns(
            @ForAll("limits") List<Form> forms,
            @ForAll("emptyingTraffic") List<Action> traffic,
            @ForAll boolean shortened) {
        assertSameReplies(forms, traffic, shortened);
    }

    @Property(tries = 500)
    @Tag("thorough")
    void modelJavaAndLuaAgreeInManyRuns(
            @ForAll("limits") List<Form> forms, @ForAll("traffic") List<Action> traffic, @ForAll boolean shortened) {
        assertSameReplies(forms, traffic, shortened);
    }

    @Property(tries = 300)
    @Tag("thorough")
    void modelJavaAndLuaAgreeOnLongLogsInManyRuns(
            @ForAll("longLogs") List<Form> forms, @ForAll("denseTraffic") List<Action> traffic) {
        assertSameReplies(forms, traffic, true);
    }

    @Property(tries = 20_000)
    @Tag("proof")
    void modelJavaAndLuaAgreeInVeryManyRuns(
            @ForAll("limits") List<Form> forms, @ForAll("traffic") List<Action> traffic, @ForAll boolean shortened) {
        assertSameReplies(forms, traffic, shortened);
    }

    /** A denial keeps a few expired hits in the log, but not many; a clock that steps back shows the difference. */
    @Example
    void modelJavaAndLuaAgreeOnExpiredHits() {
        assertSameRepliesOnExpiredHits(64, 65);
    }

    @Example
    @Tag("thorough")
    void modelJavaAndLuaAgreeOnManyExpiredHits() {
        assertSameRepliesOnExpiredHits(60, 63, 66, 120);
    }

    private static void assertSameRepliesOnExpiredHits(int... numbers) {
        for (int hits : numbers) {
            for (int costOfLast : new int[] {1, 200}) {
                List<Action> traffic = new ArrayList<>();
                ChargeSpec one = new ChargeSpec(0, 1, 1);
                for (int i = 0; i < hits; i++) {
                    traffic.add(new Take(List.of(one)));
                    traffic.add(new Tick(1));
                }
                traffic.add(new Tick(100));
                traffic.add(new Take(List.of(one)));
                traffic.add(new Tick(1_001 - 100));
                traffic.add(new Peek(List.of(new ChargeSpec(0, 1, costOfLast))));
                traffic.add(take(200));
                traffic.add(new Tick(-80));
                traffic.add(new Peek(List.of(one)));
                assertSameReplies(form("log", 200), traffic, true);
                assertSameReplies(form("log", 200), traffic, false);
            }
        }
    }

    /** A grant that changes only the head of a log must not count expired entries, nor a counter its last window. */
    @Example
    void modelJavaAndLuaAgreeOnSingleGrants() {
        assertSameReplies(
                form("log", 5),
                List.of(TAKE, new Tick(500), TAKE, new Tick(460), TAKE, new Tick(50), TAKE, TAKE, TAKE, TAKE),
                false);
        for (String kind : List.of("counter", "clock")) {
            assertSameReplies(
                    form(kind, 3),
                    List.of(TAKE, TAKE, TAKE, new Tick(1_300), TAKE, new Tick(400), TAKE, TAKE, TAKE),
                    false);
        }
        // Around the moments in which a hit or a window ends.
        for (String kind : List.of("log", "counter", "clock", "bucket")) {
            for (int pause : new int[] {998, 999, 1_000, 1_001, 1_002, 1_999, 2_000, 2_001}) {
                for (int apart : new int[] {0, 1, 500}) {
                    List<Action> traffic =
                            new ArrayList<>(List.of(TAKE, new Tick(apart), TAKE, new Tick(pause - apart)));
                    traffic.addAll(List.of(TAKE, PEEK, new Tick(1), TAKE, PEEK, TAKE, PEEK));
                    assertSameReplies(form(kind, 3), traffic, false);
                    assertSameReplies(form(kind, 3), traffic, true);
                }
            }
        }
        // Around the end of a hold.
        List<Form> holds = List.of(new Form("holds", 2, 1, 1, false, 0));
        for (int pause : new int[] {1_000, 1_001, 1_002}) {
            assertSameReplies(holds, List.of(TAKE, TAKE, new Tick(pause), PEEK, TAKE, PEEK), false);
        }
    }

    /** Later denials and the expiry depend on the hits that remain after a refund. */
    @Example
    void modelJavaAndLuaAgreeOnRefunds() {
        List<Form> three = form("log", 3);
        // The only hit of its slot, with others before and behind it.
        for (int given = 0; given < 3; given++) {
            assertSameReplies(
                    three,
                    List.of(TAKE, new Tick(10), TAKE, new Tick(10), TAKE, new Refund(given), new Tick(10), TAKE, PEEK),
                    true);
        }
        // The newest, long after the one before.
        assertSameReplies(
                three, List.of(TAKE, new Tick(990), TAKE, new Refund(1), new Tick(5), PEEK, TAKE, TAKE, PEEK), true);
        // The one that a counter's window began with, when that has passed.
        assertSameReplies(form("counter", 3), List.of(TAKE, new Tick(1_000), TAKE, PEEK, new Refund(0), PEEK), true);
    }

    /** A late refund changes nothing, but hits in the future are moved to now all the same. */
    @Example
    void modelJavaAndLuaAgreeOnLateRefundsAfterAClockStepBack() {
        for (String kind : List.of("log", "counter", "clock")) {
            assertSameReplies(
                    form(kind, 3),
                    List.of(TAKE, new Tick(10_000), TAKE, new Tick(-5_000), new Refund(0), new Tick(2_500), PEEK),
                    true);
            RefundOldest oldest = new RefundOldest(new ChargeSpec(0, 1, 1));
            assertSameReplies(form(kind, 3), List.of(TAKE, new Tick(10_000), oldest, new Tick(-9_500), PEEK), true);
        }
    }

    /** If the clock steps back onto a hit, later hits are moved to now and merge with it. */
    @Example
    void modelJavaAndLuaAgreeOnRefundsAfterAClockStepBackOntoTheHit() {
        Take two = take(2);
        assertSameReplies(
                form("log", 3),
                List.of(two, new Tick(1), TAKE, new Tick(-1), PEEK, new Refund(0), PEEK, new Tick(500), two, PEEK),
                true);
    }

    /** Refunds of a bucket depend on what was taken in between, and on how much of it has returned. */
    @Example
    void modelJavaAndLuaAgreeOnRefundsOfABucket() {
        List<Form> bucket = List.of(new Form("bucket", 10, 10_000, 1, false, 0));
        Take five = take(5);
        assertSameReplies(bucket, List.of(five, new Tick(4_000), five, new Refund(0), PEEK, new Refund(1), PEEK), true);
        assertSameReplies(bucket, List.of(five, TAKE, new Tick(5_000), five, new Refund(0), new Refund(1), PEEK), true);
        assertSameReplies(
                bucket,
                List.of(TAKE, new Tick(1), TAKE, new Tick(1), TAKE, new Refund(0), new Refund(2), new Refund(1), PEEK),
                true);
        // Two different requests in one millisecond: the second one does not replace the older mark.
        Take three = take(3);
        assertSameReplies(
                List.of(new Form("bucket", 10, 10_000, 3, false, 0)),
                List.of(five, new Tick(3_000), three, new Tick(3_000), five, TAKE, new Refund(0), PEEK),
                true);
        assertSameReplies(
                bucket,
                List.of(five, new Tick(1_000), TAKE, new Tick(-1_500), new Refund(0), PEEK, new Tick(2_000), PEEK),
                true);
    }

    /** What was used in addition counts from the settlement on, up to the debt. */
    @Example
    void modelJavaAndLuaAgreeOnSettledCosts() {
        Take two = take(2);
        for (long actual : new long[] {0, 1, 3, 7, 1_000_000_000_000L}) {
            List<Action> traffic = inRows(
                    List.of(two, new Tick(300), two, new Settle(0, actual), PEEK),
                    List.of(new Settle(0, 0), new Refund(0), PEEK, new Settle(1, actual), PEEK),
                    List.of(new Tick(800), TAKE, PEEK, new Tick(900), TAKE, PEEK));
            for (String kind : List.of("log", "counter", "clock", "bucket")) {
                for (int permits : new int[] {4, 5, 6, 7}) {
                    assertSameReplies(form(kind, permits), traffic, true);
                }
            }
        }
    }

    /** A refund without a decision is not for holders, and does not even read them. */
    @Example
    void modelJavaAndLuaAgreeOnHoldersAfterAClockStepBack() {
        ChargeSpec one = new ChargeSpec(0, 1, 1);
        assertSameReplies(
                List.of(new Form("holds", 4, 1, 1, false, 0)),
                List.of(new Take(List.of(one)), new Tick(-1), new RefundOldest(one), new Tick(171), PEEK),
                false);
    }

    /** One script charges two slots of a log, which may be empty, expired, or in a piece of the string only. */
    @Example
    void modelJavaAndLuaAgreeOnLeasesBesideDecisions() {
        Lease lease = new Lease(new ChargeSpec(0, 1, 3), 4);
        // The first request leaves alone.
        Together together = new Together(List.of(PEEK, TAKE, lease, TAKE, lease, PEEK));
        Tick expired = new Tick(1_050);
        List<Action> traffic = inRows(
                List.of(together, new Tick(5), together, expired, together, new Refund(0), new Refund(3), PEEK),
                List.of(new Tick(20), TAKE, new Tick(20), TAKE, new Tick(20), together, expired, PEEK, together),
                List.of(new Tick(-15), together, new Refund(5), PEEK, new Tick(3), together));
        assertSameReplies(form("leased", 40), traffic, true);
        assertSameReplies(form("leased", 40), traffic, false);
    }

    /** Permits that are leased raise a low level, and count as taken when the lease ends. */
    @Example
    void modelJavaAndLuaAgreeOnLeasesOfABucket() {
        Lease lease = new Lease(new ChargeSpec(0, 1, 7), 2);
        Together together = new Together(List.of(PEEK, TAKE, lease, TAKE, lease, PEEK));
        List<Action> traffic = inRows(
                List.of(lease, PEEK, new Tick(3), TAKE, new Refund(2), new Refund(0), PEEK),
                List.of(new Tick(7), new Refund(1), PEEK, together, new Tick(5), lease, new Settle(3, 3)),
                List.of(new Tick(2), TAKE, new Tick(-1), new Refund(4), PEEK, lease, new Tick(-4), PEEK, TAKE),
                List.of(new Refund(5), new Tick(20), together, new Refund(6), new Reset(new ChargeSpec(0, 1, 1))),
                List.of(lease, new Tick(9), new Refund(0), new Tick(2_000), TAKE, new Tick(1), TAKE),
                List.of(new Refund(1), PEEK));
        for (int permits : new int[] {40, 400, 4_000}) {
            assertSameReplies(List.of(new Form("leasedBucket", permits, 1_000, 2, false, 0)), traffic, true);
        }
    }

    /** An expired hit is not refunded in place of one that still counts. */
    @Example
    void modelJavaAndLuaAgreeOnRefundsOfTheOldestPermits() {
        Take two = take(2);
        RefundOldest oldest = new RefundOldest(new ChargeSpec(0, 1, 2));
        assertSameReplies(
                form("log", 5),
                List.of(two, new Tick(300), TAKE, new Tick(300), two, new Tick(401), oldest, PEEK, new Tick(300), PEEK),
                true);
        // The same permits are refunded again, with their decision: others may be in their slot by then.
        for (String kind : List.of("log", "counter", "clock", "bucket")) {
            for (int pause : new int[] {0, 1, 100}) {
                assertSameReplies(
                        form(kind, 5), List.of(two, oldest, new Tick(pause), take(3), new Refund(0), PEEK), true);
            }
        }
    }

    @SafeVarargs
    private static List<Action> inRows(List<Action>... rows) {
        List<Action> all = new ArrayList<>();
        for (List<Action> row : rows) {
            all.addAll(row);
        }
        return all;
    }

    private static void show(ManualClock clock, int micros) {
        scripted.show(clock, micros);
        sql.show(scripted.micros());
    }

    private static void assertSameReplies(List<Form> forms, List<Action> traffic, boolean shortened) {
        ManualClock clock = new ManualClock();
        ScriptStores scripts = shortened ? shortPieces : longPieces;
        int run = RUNS.incrementAndGet();
        double debt = DEBTS.get(forms.get(0).permits % DEBTS.size());
        List<Subject> subjects = List.of(
                new Subject("model", new StoreModel(clock), clock, debt),
                new Subject("java", LocalStore.bounded(1_000, clock), clock, debt),
                new Subject("lua-" + run, scripts.store, clock, debt),
                new Subject("lua-without-fast-path-" + run, scripts.withoutFastPath, clock, debt),
                new Subject("java-on-values", new LastingMapStore(scripted::micros), clock, debt),
                new Subject("sql-" + run, sql.store(), clock, debt));
        int micros = 500;
        List<Limit> limits = forms.stream().map(Form::limit).collect(Collectors.toCollection(ArrayList::new));
        show(clock, micros);
        learnTheTime(subjects, limits);
        for (int step = 0; step < traffic.size(); step++) {
            Action action = traffic.get(step);
            if (action instanceof Tick tick) {
                clock.advanceMillis(tick.millis);
                show(clock, micros);
                if (tick.millis > 1_000_000) {
                    learnTheTime(subjects, limits);
                }
            } else if (action instanceof Permits change) {
                int i = change.limit % limits.size();
                limits.set(i, forms.get(i).withPermits(change.permits).limit());
            } else {
                List<String> answers = Flux.fromIterable(subjects)
                        .flatMapSequential(subject -> subject.apply(action, limits))
                        .collectList()
                        .block();
                assertThat(answers)
                        .as("step %d, %s, at %d, of model, java and lua", step, action, clock.millis())
                        .hasSameSizeAs(subjects)
                        .containsOnly(answers.get(0));
                // All stores with values give and keep the same lives. Nothing is lost, and nothing expires.
                assertThat(List.of(subjects.get(3).lives, subjects.get(4).lives, subjects.get(5).lives))
                        .as("lives after step %d, %s", step, action)
                        .containsOnly(subjects.get(2).lives);
                if (action instanceof Reset) {
                    micros++;
                    show(clock, micros);
                }
            }
        }
    }

    /**
     * A store of Redis knows the time by its last reply. A request on a quota that has the boundaries of another day is
     * sent again, behind those that were sent with it.
     */
    private static void learnTheTime(List<Subject> subjects, List<Limit> limits) {
        subjects.forEach(subject -> subject.apply(PEEK, limits).block());
    }

    /**
     * The two Redis stores that every run shares: each run names its limiters differently and so has its own counts.
     */
    private record ScriptStores(RedisStore store, RedisStore withoutFastPath) {

        /**
         * Loads the scripts first: a request that finds them missing is retried, and others would be decided before it.
         */
        static ScriptStores load(boolean shortened) {
            ScriptStores scripts = new ScriptStores(
                    scripted.store(client, shortened), scripted.storeWithoutFastPath(client, shortened));
            scripted.show(new ManualClock());
            scripts.store.prepare("").retry(3).block();
            scripts.withoutFastPath.prepare("").retry(3).block();
            return scripts;
        }
    }

    // What is generated

    @Provide
    Arbitrary<List<Form>> limits() {
        Arbitrary<Long> windows = Arbitraries.of(1L, 2L, 7L, 50L, 1_000L);
        Arbitrary<Integer> permits = Arbitraries.frequencyOf(
                Tuple.of(3, Arbitraries.integers().between(1, 6)),
                Tuple.of(1, Arbitraries.integers().between(7, 60)));
        Arbitrary<Form> form = Combinators.combine(
                        Arbitraries.of(KINDS.split(" ")),
                        permits,
                        windows,
                        Arbitraries.of(1, 1, 2, 3, 10),
                        Arbitraries.of(false, false, true))
                .as((kind, n, window, resolution, denied) ->
                        new Form(kind, n, window, Math.min(window, resolution), denied, 0));
        return form.list().ofMinSize(1).ofMaxSize(3).map(list -> {
            List<Form> named = new ArrayList<>();
            for (Form each : list) {
                named.add(each.numbered(named.size()));
            }
            return named;
        });
    }

    @Provide
    Arbitrary<List<Form>> longLogs() {
        return Combinators.combine(
                        Arbitraries.integers().between(8, 60),
                        Arbitraries.of(200L, 1_000L),
                        Arbitraries.of(1, 1, 2),
                        Arbitraries.of(false, true))
                .as((n, window, resolution, denied) -> List.of(new Form("log", n, window, resolution, denied, 0)));
    }

    @Provide
    Arbitrary<List<Action>> denseTraffic() {
        Arbitrary<ChargeSpec> asked = Arbitraries.frequency(
                        Tuple.of(5, 1L), Tuple.of(4, 2L), Tuple.of(2, 3L), Tuple.of(1, 7L), Tuple.of(1, 20L))
                .map(cost -> new ChargeSpec(0, 1, cost));
        Arbitrary<Long> ticks = Arbitraries.frequencyOf(
                Tuple.of(20, Arbitraries.longs().between(1, 3)),
                Tuple.of(1, Arbitraries.longs().between(50, 250)),
                Tuple.of(1, Arbitraries.longs().between(-20, -1)));
        Arbitrary<Action> action = Arbitraries.frequencyOf(
                Tuple.of(10, asked.map(one -> new Take(List.of(one)))),
                Tuple.of(10, ticks.map(Tick::new)),
                Tuple.of(1, asked.map(one -> new Peek(List.of(one)))),
                Tuple.of(1, together(asked.map(List::of))),
                Tuple.of(3, Arbitraries.integers().between(0, 100).map(Refund::new)),
                Tuple.of(3, settle(100)),
                Tuple.of(1, asked.map(RefundOldest::new)),
                Tuple.of(1, Arbitraries.integers().between(5, 60).map(n -> new Permits(0, n))));
        return action.list().ofMinSize(50).ofMaxSize(250);
    }

    @Provide
    Arbitrary<List<Action>> emptyingTraffic() {
        Arbitrary<ChargeSpec> asked = Combinators.combine(
                        Arbitraries.integers().between(1, 7), Arbitraries.of(1L, 1L, 2L, 5L))
                .as((limits, cost) -> new ChargeSpec(0, limits, cost));
        Arbitrary<Long> ticks = Arbitraries.frequencyOf(
                Tuple.of(6, Arbitraries.longs().between(1, 60)),
                Tuple.of(2, Arbitraries.longs().between(100, 2_100)),
                Tuple.of(1, Arbitraries.longs().between(-3_000, -1)));
        Arbitrary<Action> action = Arbitraries.frequencyOf(
                Tuple.of(8, asked.map(one -> new Take(List.of(one)))),
                Tuple.of(1, asked.map(one -> new Peek(List.of(one)))),
                Tuple.of(2, together(asked.map(List::of))),
                Tuple.of(
                        1,
                        Combinators.combine(asked, Arbitraries.integers().between(1, 4))
                                .as(Lease::new)),
                Tuple.of(6, ticks.map(Tick::new)),
                Tuple.of(4, Arbitraries.integers().between(0, 30).map(Refund::new)),
                Tuple.of(2, Arbitraries.integers().between(0, 30).map(i -> new Settle(i, 0))),
                Tuple.of(3, asked.map(one -> new RefundOldest(new ChargeSpec(0, 7, 100)))),
                Tuple.of(3, asked.map(one -> new Reset(new ChargeSpec(0, 7, 1)))),
                Tuple.of(
                        1,
                        Combinators.combine(
                                        Arbitraries.integers().between(0, 2),
                                        Arbitraries.integers().between(1, 12))
                                .as(Permits::new)));
        return action.list().ofMinSize(5).ofMaxSize(80);
    }

    private static Arbitrary<Action> settle(int decisions) {
        return Combinators.combine(
                        Arbitraries.integers().between(0, decisions),
                        Arbitraries.frequencyOf(
                                Tuple.of(4, Arbitraries.longs().between(0, 8)),
                                Tuple.of(1, Arbitraries.longs().between(9, 300))))
                .as(Settle::new);
    }

    /** A few questions, each several times, in any order. */
    private static Arbitrary<Action> together(Arbitrary<List<ChargeSpec>> verdict) {
        Arbitrary<Action> few = Arbitraries.frequencyOf(
                Tuple.of(6, verdict.map(Take::new)),
                Tuple.of(1, verdict.map(Peek::new)),
                Tuple.of(
                        2,
                        Combinators.combine(verdict, Arbitraries.integers().between(1, 4))
                                .as((asked, parts) -> new Lease(asked.get(0), parts))));
        return Combinators.combine(
                        few.list().ofMinSize(1).ofMaxSize(4),
                        Arbitraries.integers().between(0, 3).list().ofMinSize(2).ofMaxSize(40))
                .as((asked, order) -> new Together(
                        order.stream().map(i -> asked.get(i % asked.size())).toList()));
    }

    @Provide
    Arbitrary<List<Action>> traffic() {
        Arbitrary<ChargeSpec> asked = Combinators.combine(
                        Arbitraries.integers().between(0, KEYS - 1),
                        Arbitraries.integers().between(1, 7),
                        Arbitraries.frequencyOf(
                                Tuple.of(1, Arbitraries.just(0L)),
                                Tuple.of(12, Arbitraries.just(1L)),
                                Tuple.of(4, Arbitraries.longs().between(2, 5)),
                                Tuple.of(1, Arbitraries.longs().between(6, 70))))
                .as(ChargeSpec::new);
        Arbitrary<List<ChargeSpec>> verdict = asked.list().ofMinSize(1).ofMaxSize(3);
        Arbitrary<Long> ticks = Arbitraries.frequencyOf(
                Tuple.of(6, Arbitraries.longs().between(1, 3)),
                Tuple.of(3, Arbitraries.longs().between(1, 60)),
                Tuple.of(2, Arbitraries.longs().between(100, 1_100)),
                Tuple.of(1, Arbitraries.longs().between(2_000, 100_000)),
                Tuple.of(1, Arbitraries.of(60_000L, 86_399_999L, 86_400_000L)),
                Tuple.of(1, Arbitraries.longs().between(-60, -1)),
                Tuple.of(1, Arbitraries.longs().between(-3_000, -500)));
        Arbitrary<Action> action = Arbitraries.frequencyOf(
                Tuple.of(12, verdict.map(Take::new)),
                Tuple.of(2, verdict.map(Peek::new)),
                Tuple.of(3, together(verdict)),
                Tuple.of(
                        4,
                        Combinators.combine(asked, Arbitraries.integers().between(1, 4))
                                .as(Lease::new)),
                Tuple.of(9, ticks.map(Tick::new)),
                Tuple.of(2, Arbitraries.integers().between(0, 30).map(Refund::new)),
                Tuple.of(2, settle(30)),
                Tuple.of(1, asked.map(RefundOldest::new)),
                Tuple.of(3, Arbitraries.integers().between(0, 30).map(Release::new)),
                Tuple.of(
                        3,
                        Combinators.combine(
                                        Arbitraries.integers().between(0, 30),
                                        Arbitraries.integers().between(1, 6))
                                .as(Renew::new)),
                Tuple.of(1, asked.map(ReleaseFirst::new)),
                Tuple.of(1, asked.map(Reset::new)),
                Tuple.of(
                        2,
                        Combinators.combine(asked, Arbitraries.of(true, false), Arbitraries.of(1L, 20L, 3_000L))
                                .as(Ban::new)),
                Tuple.of(1, asked.map(Pardon::new)),
                Tuple.of(
                        1,
                        Combinators.combine(
                                        Arbitraries.integers().between(0, 2),
                                        Arbitraries.integers().between(1, 12))
                                .as(Permits::new)));
        return action.list().ofMinSize(5).ofMaxSize(120);
    }

    /** A limit that can change its permits and stay the same count. */
    record Form(String kind, int permits, long window, long resolution, boolean denied, int number) {

        Form numbered(int number) {
            return new Form(kind, permits, window, resolution, denied, number);
        }

        Form withPermits(int permits) {
            return new Form(kind, permits, window, resolution, denied, number);
        }

        Limit limit() {
            if (kind.equals("holds")) {
                // The hold and retry times may change together with the permits.
                return Limit.concurrent(permits)
                        .hold(Duration.ofMillis(1_000 + window * (1 + permits % 2)))
                        .retryAfter(Duration.ofMillis(1_000 + 500 * (permits % 3)))
                        .named("limit-" + number);
            }
            if (kind.equals("ban")) {
                // The number of denials and the time may change together.
                Limit.Ban ban = Limit.ban(
                        Duration.ofMillis(window * (1 + permits % 3)),
                        1 + permits % 4,
                        Duration.ofMillis(window * resolution));
                return (denied ? ban.growing() : ban).named("limit-" + number);
            } else if (kind.equals("pause")) {
                return Limit.pausable().named("limit-" + number);
            }
            if (kind.equals("quota")) {
                // The mark may change together with the permits.
                Limit quota = Limit.daily(permits)
                        .at(SOON)
                        .near(30 * (1 + permits % 3))
                        .named("limit-" + number);
                return denied ? quota.countingDenied() : quota;
            }
            long millis = kind.startsWith("leased") ? Math.max(1_000, window) : window;
            Limit limit = Limit.of(permits, Duration.ofMillis(millis)).named("limit-" + number);
            limit = switch (kind) {
                case "leased" -> {
                    Limit log = limit.resolution(Duration.ofMillis(resolution));
                    // Some instances do not lease.
                    yield permits % 3 == 0 ? log : log.leased();
                }
                case "log" -> limit.resolution(Duration.ofMillis(resolution));
                case "counter" -> limit.counter();
                // More than the permits of a window, as many, or less.
                case "bucket" -> bucket(limit);
                case "leasedBucket" ->
                    permits % 3 == 0 ? bucket(limit) : bucket(limit).leased();
                default -> limit.counter().alignedToClock();
            };
            return denied && !limit.isLeased() ? limit.countingDenied() : limit;
        }

        private Limit bucket(Limit limit) {
            return limit.burst(resolution == 2 ? (permits + 1) / 2 : permits * resolution);
        }
    }

    sealed interface Action {}

    record Take(List<ChargeSpec> asked) implements Action {}

    record Peek(List<ChargeSpec> asked) implements Action {}

    /** Asked for all at once, so that what is decided in Redis leaves in few commands. */
    record Together(List<Action> actions) implements Action {}

    /** The permits of a lease can be refunded like those of a decision. */
    record Lease(ChargeSpec asked, int parts) implements Action {}

    record Refund(int decision) implements Action {}

    record Settle(int decision, long actual) implements Action {}

    record RefundOldest(ChargeSpec asked) implements Action {}

    record Release(int decision) implements Action {}

    /** Renews several holds in one command. */
    record Renew(int first, int number) implements Action {}

    /** Releases what is taken afterwards. */
    record ReleaseFirst(ChargeSpec asked) implements Action {}

    record Reset(ChargeSpec asked) implements Action {}

    record Ban(ChargeSpec asked, boolean isPause, long millis) implements Action {}

    record Pardon(ChargeSpec asked) implements Action {}

    record Tick(long millis) implements Action {}

    record Permits(int limit, int permits) implements Action {}

    /** A key, some of the limits as bits, and a cost. */
    record ChargeSpec(int key, int limits, long cost) {

        Charge charge(List<Limit> all) {
            List<Limit> some = new ArrayList<>();
            for (int i = 0; i < all.size(); i++) {
                if ((limits >> i & 1) == 1) {
                    some.add(all.get(i));
                }
            }
            return Charge.of("key-" + key, some.isEmpty() ? List.of(all.get(0)) : some)
                    .permits(cost);
        }
    }

    // What is done to each

    /** One store, the limiter on it, and what it has allowed so far. */
    static final class Subject {

        private static final Comparator<Decision> BY_KEY_AND_COST = Comparator.comparing(
                        (Decision decision) -> decision.limits().get(0).key())
                .thenComparing(decision -> decision.limits().get(0).limit().name())
                .thenComparing(decision -> decision.limits().get(0).cost());

        private final LimitStore store;
        private final RateLimiter limiter;
        private final List<Decision> allowed = Collections.synchronizedList(new ArrayList<>());
        private final InstantSource clock;

        /** The life of each count that has one. */
        private final Map<String, Integer> lives = new ConcurrentHashMap<>();

        private Instant resetAt = Instant.MIN;
        private int bansMade;

        Subject(String name, LimitStore store, InstantSource clock, double debt) {
            this.clock = clock;
            this.store = store;
            this.limiter = RateLimiter.builder(name)
                    .store(new Unprotected(store))
                    .debt(debt)
                    .build();
        }

        Mono<String> apply(Action action, List<Limit> limits) {
            if (action instanceof Take take) {
                return limiter.tryAcquire(charges(take.asked, limits)).map(decision -> {
                    // Where the clock has stepped back, Redis cannot tell what came before a reset from what came after
                    // it.
                    if (decision.isAllowed() && !clock.instant().isBefore(resetAt)) {
                        allowed.add(decision);
                    }
                    return textOf(decision);
                });
            } else if (action instanceof Peek peek) {
                return limiter.peek(charges(peek.asked, limits)).map(this::textOf);
            } else if (action instanceof Together together) {
                int before = allowed.size();
                return Flux.fromIterable(together.actions)
                        .concatMap(each -> prepare(each, limits))
                        .collectList()
                        .flatMapMany(all ->
                                Flux.fromIterable(all).flatMapSequential(Function.identity(), together.actions.size()))
                        .collect(Collectors.joining("\n"))
                        // Replies to leases arrive in any order, and later actions name a decision by its number.
                        .doOnNext(replies ->
                                allowed.subList(before, allowed.size()).sort(BY_KEY_AND_COST));
            } else if (action instanceof Lease lease) {
                return prepare(lease, limits).flatMap(Function.identity());
            } else if (action instanceof Refund refund && !allowed.isEmpty()) {
                return limiter.refund(allowed.get(refund.decision % allowed.size()))
                        .thenReturn("");
            } else if (action instanceof Settle settle && !allowed.isEmpty()) {
                // The store learns the time first: after a long tick, the deadline of the settlement has passed on it.
                return limiter.peek(Charge.of("key-0", limits.get(0)))
                        .then(limiter.settle(allowed.get(settle.decision % allowed.size()), settle.actual))
                        .thenReturn("");
            } else if (action instanceof Release release && !allowed.isEmpty()) {
                return limiter.release(allowed.get(release.decision % allowed.size()))
                        .thenReturn("");
            } else if (action instanceof Renew renew && !allowed.isEmpty()) {
                return renew(renew);
            } else if (action instanceof ReleaseFirst release) {
                return releaseFirst(limiter, store, release.asked.charge(limits));
            } else if (action instanceof RefundOldest refund && refund.asked.cost > 0) {
                return limiter.refund(refund.asked.charge(limits)).thenReturn("");
            } else if (action instanceof Ban ban) {
                return ban(ban, ban.asked.charge(limits));
            } else if (action instanceof Pardon pardon) {
                return limiter.pardon(pardon.asked.charge(limits)).thenReturn("");
            } else if (action instanceof Reset reset) {
                return limiter.reset(reset.asked.charge(limits)).then(Mono.fromSupplier(() -> {
                    allowed.removeIf(decision -> decision.at().isAfter(clock.instant()));
                    resetAt = resetAt.isAfter(clock.instant()) ? resetAt : clock.instant();
                    return "";
                }));
            }
            return Mono.just("");
        }

        /** Bans by the clock of the test, which that of a limiter is not. */
        private Mono<String> ban(Ban ban, Charge charge) {
            return limiter.peek(charge).flatMap(decision -> {
                long now = clock.millis();
                List<Reconciliation> bans = DecidedClaims.of(decision).stream()
                        .filter(claim -> claim.limit() instanceof Limit.Ban of && of.isPause() == ban.isPause)
                        .map(claim -> Reconciliation.of(
                                "call", ++bansMade, claim, List.of(new Grants(now, now, ban.millis)), List.of(), clock))
                        .toList();
                return bans.isEmpty()
                        ? Mono.just("")
                        : store.correct(bans)
                                .map(all -> all.stream()
                                        .map(one -> one.outcome().toString())
                                        .collect(Collectors.joining(" ")));
            });
        }

        private Mono<String> renew(Renew renew) {
            List<Claim> holds = IntStream.range(renew.first, renew.first + renew.number)
                    .mapToObj(i -> allowed.get(i % allowed.size()))
                    .distinct()
                    .flatMap(decision -> DecidedClaims.of(decision).stream())
                    .filter(claim -> claim.holdId() != null && claim.permits() > 0)
                    .toList();
            return holds.isEmpty()
                    ? Mono.just("")
                    : store.hold(holds, HoldAction.RENEW)
                            // They are in any order.
                            .map(renewals -> renewals.stream()
                                    .sorted(Comparator.comparing(renewal -> holds.indexOf(renewal.claim())))
                                    .map(renewal -> renewal.outcome().toString())
                                    .collect(Collectors.joining(" ")));
        }

        /** A release that overtakes its request wins; equal ids on different stores make no difference. */
        private static Mono<String> releaseFirst(RateLimiter limiter, LimitStore store, Charge charge) {
            return limiter.peek(charge).flatMap(decision -> {
                List<Claim> holds = DecidedClaims.of(decision).stream()
                        .filter(claim -> claim.limit().holdsPermits())
                        .map(claim -> claim.withHoldId(new UUID(1, 2)))
                        .toList();
                return holds.isEmpty()
                        ? Mono.just("")
                        : store.hold(holds, HoldAction.RELEASE)
                                .then(store.take(StoreRequest.take(holds)))
                                .map(DecisionText::of);
            });
        }

        /** Emits the request. A lease needs a claim, which the decision of a limiter has. */
        private Mono<Mono<String>> prepare(Action action, List<Limit> limits) {
            if (action instanceof Take take) {
                return Mono.just(limiter.tryAcquire(charges(take.asked, limits)).map(this::textOf));
            } else if (action instanceof Peek peek) {
                return Mono.just(limiter.peek(charges(peek.asked, limits)).map(this::textOf));
            } else if (action instanceof Lease lease) {
                Charge charge = lease.asked.charge(limits);
                Limit limit = charge.limits().get(0);
                if (limit.isLeased() && lease.asked.cost > 0) {
                    return limiter.peek(Charge.of(charge.key(), limit))
                            .map(peeked -> DecidedClaims.of(peeked).get(0).withPermits(lease.asked.cost))
                            .map(claim -> store.take(StoreRequest.lease(claim, lease.parts, Long.MAX_VALUE))
                                    .map(this::leased));
                }
            }
            return Mono.just(Mono.just(""));
        }

        /** The leased permits are spent by two decisions, each of which can be refunded. */
        private String leased(StoreDecision lease) {
            long leased = lease.claims().get(0).permits();
            if (leased > 0 && !clock.instant().isBefore(resetAt)) {
                allowed.add(spent(lease, 1));
            }
            if (leased > 1 && !clock.instant().isBefore(resetAt)) {
                allowed.add(spent(lease, leased - 1));
            }
            return leased + " charged " + (lease.usages().get(0).chargedAt() - clock.millis()) + textOf(lease);
        }

        /** Returns a decision as text, after checking that a count never changes its life. */
        private String textOf(Decision decision) {
            for (StoreUsage usage : ((StoreDecision) decision).usages()) {
                boolean isRateWithLife = (store instanceof RedisStore || store instanceof CompareAndWriteStore)
                        && !usage.limit().holdsPermits();
                assertThat(usage.life() > 0 || usage.used() == 0 || !isRateWithLife)
                        .as("whether a count that is used has a life")
                        .isTrue();
                if (usage.life() > 0) {
                    String count = usage.key() + " " + usage.limit().name();
                    int life = usage.life() / StoreUsage.RESETS;
                    Integer known = lives.putIfAbsent(count, life);
                    assertThat(life).as("life of %s", count).isEqualTo(known == null ? life : known);
                }
            }
            return DecisionText.of(decision);
        }

        private static Decision spent(StoreDecision lease, long permits) {
            StoreUsage usage = lease.usages().get(0);
            Reply reply = new Reply(Source.LEASE, lease.reply().at());
            StoreUsage mine = new StoreUsage(
                    reply,
                    usage.claim().withPermits(permits),
                    usage.used(),
                    false,
                    reply.at(),
                    usage.wholeAtMillis(),
                    usage.life(),
                    null,
                    false,
                    usage);
            return StoreDecision.ofTake(reply, List.of(mine));
        }

        private static Charge[] charges(List<ChargeSpec> asked, List<Limit> limits) {
            return asked.stream().map(one -> one.charge(limits)).toArray(Charge[]::new);
        }
    }
}
