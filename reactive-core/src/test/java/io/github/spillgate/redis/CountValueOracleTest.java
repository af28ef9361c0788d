package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.Count;
import io.github.spillgate.count.HoldCount;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.count.RateCount;
import io.github.spillgate.count.RestoredMark;
import io.github.spillgate.internal.LittleEndian;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.StoreOracleTest.Form;
import io.github.spillgate.redis.lane.CountKeys;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/**
 * Random steps on one count, by the scripts in Redis and by the rules in Java, at the same times. Java reads the value,
 * decides and writes it, as a store does that compares and writes. After each step, both must have the same bytes and
 * marks. In some of the steps the data is lost, or two instances hand over grants, or what they knew of a lost life.
 *
 * <p>The scripts change a long log in place, and Java does not. So in one of the Redis stores they rewrite each log,
 * and all bytes are equal. In the others, three things may differ: of a log, where the entries begin, the space for
 * more, and the expiry, which is late enough in both; of a log with one entry or none, the slot from which entries
 * count; of a bucket with an older mark of zero, the age of that mark. The fast path sets the last two otherwise.
 */
class CountValueOracleTest {

    /** In milliseconds. From the year 2255 on, Lua has no exact microseconds. */
    private static final long LATEST = 7_000_000_000_000L;

    private static final List<String> KINDS = List.of(
            "log",
            "log",
            "leased",
            "leased",
            "counter",
            "clock",
            "bucket",
            "leasedBucket",
            "anyBucket",
            "holds",
            "holds",
            "quota",
            "quota",
            "ban",
            "ban");

    /** A limit that denies each request beside a ban. */
    private static final Limit DENYING = Limit.perDay(1);

    private static final long[] WINDOWS = {1, 2, 7, 50, 1_000};

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final ScriptedClock scripted = new ScriptedClock(client);
    private final ManualClock clock = new ManualClock();
    private final long start = clock.millis();
    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(new Unprotected(LocalStore.bounded(100, clock)))
            .build();
    private final Twin rewriting = new Twin(true, scripted::storeThatRewritesLogs);
    private final Twin production = new Twin(false, (client, name) -> scripted.store(client, name, false));
    private final Twin shortened = new Twin(false, (client, name) -> scripted.store(client, name, true));
    private final List<Twin> twins = List.of(rewriting, production, shortened);

    /** How many corrections changed a count, by their kind and that of the count. */
    private final Map<String, Integer> corrections = new HashMap<>();

    @AfterEach
    void shutdown() {
        twins.forEach(twin -> twin.store.close());
        scripted.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void javaAndLuaWriteTheSameBytes() {
        writeTheSameBytes(0, 75);
        assertThat(corrections)
                .containsOnlyKeys(
                        "charge Log",
                        "charge Counter",
                        "charge Bucket",
                        "charge Quota",
                        "charge Ban",
                        "restore Log",
                        "restore Counter",
                        "restore Bucket",
                        "restore Quota",
                        "restore Ban")
                .allSatisfy((correction, times) -> assertThat(times).isGreaterThan(50));
    }

    @Test
    @Thorough
    void javaAndLuaWriteTheSameBytesInManyRuns() {
        writeTheSameBytes(75, 1_500);
    }

    @Test
    @Proof
    void javaAndLuaWriteTheSameBytesInVeryManyRuns() {
        writeTheSameBytes(1_500, 8_000);
    }

    @ParameterizedTest
    @ValueSource(strings = {"log", "leased", "counter", "clock", "bucket", "leasedBucket", "quota"})
    void javaAndLuaWriteTheSameBytesIfACountIsEmptiedAfterAClockStepBack(String kind) {
        for (Function<Claim, Consumer<Twin>> emptying : List.<Function<Claim, Consumer<Twin>>>of(
                claim -> twin -> twin.refundOldest(claim),
                claim -> twin -> twin.refund(0),
                claim -> twin -> twin.reset(claim))) {
            for (int step : new int[] {-10_000, -40, 0, 30}) {
                Run run = new Run(new Random(step), new Form(kind, 3, 50, 1, false, 0));
                twins.forEach(twin -> twin.decide(run.claim(2), true));
                run.pass(step);
                twins.forEach(emptying.apply(run.claim(3)));
                assertSame("an emptied " + kind);
                run.pass(1);
                twins.forEach(twin -> twin.decide(run.claim(1), true));
                assertSame("a take from an emptied " + kind);
            }
        }
    }

    /** A denial removes expired hits if there are many. */
    @Test
    void javaAndLuaWriteTheSameBytesOfManyExpiredHits() {
        for (int hits : new int[] {64, 65}) {
            Run run = new Run(new Random(hits), new Form("log", 200, 1_000, 1, false, 0));
            for (int i = 0; i < hits; i++) {
                twins.forEach(twin -> twin.decide(run.claim(1), true));
                run.pass(1);
            }
            run.pass(100);
            twins.forEach(twin -> twin.decide(run.claim(1), true));
            run.pass(1_000 - 99);
            twins.forEach(twin -> twin.decide(run.claim(1), false));
            assertSame("peek after " + hits + " hits");
            byte[] left = rewriting.value;
            assertThat(left.length < 100).as("whether the hits were removed").isEqualTo(hits > 64);
        }
    }

    /** Several instances restore one life in any order, each what it knew at another time, while permits are taken. */
    @ParameterizedTest
    @ValueSource(strings = {"log", "counter", "clock", "bucket", "quota"})
    void javaAndLuaWriteTheSameBytesOfRestorations(String kind) {
        for (int seed = 0; seed < 15; seed++) {
            Run run = new Run(new Random(seed), new Form(kind, 60, 1_000, kind.equals("log") ? 50 : 1, false, 0));
            for (int step = 0; step < 60; step++) {
                String done = run.restoringStep();
                assertSame("seed " + seed + ", step " + step + ", " + done);
            }
        }
    }

    /** Grants that find no free entry are added to the next later one, or the newest entry moves to their slot. */
    @Test
    void javaAndLuaWriteTheSameBytesOfAFullLog() {
        Run run = new Run(new Random(9), new Form("log", 10_000, 86_400_000, 1, true, 0));
        List<Grants> grants = new ArrayList<>();
        for (long ago = 19_990; ago > 0; ago -= 2) {
            grants.add(new Grants(clock.millis() - ago, clock.millis() - ago, 3));
        }
        Reconciliation filling = Reconciliation.of("a", 1, run.claim(1), grants, List.of(), clock);
        twins.forEach(twin -> twin.reconcile(filling));
        for (int i = 2; i < 30; i++) {
            run.pass(run.random.nextInt(3));
            Reconciliation some = run.reconciliation("a", i, 20_100);
            twins.forEach(twin -> twin.reconcile(some));
            assertSame("charge " + i);
        }
        assertThat(StoredLog.parse(rewriting.value).slots()).hasSize(9_999);
    }

    /** More permits than a count can hold. */
    @ParameterizedTest
    @ValueSource(strings = {"log", "leased", "counter", "clock", "bucket", "leasedBucket"})
    void javaAndLuaWriteTheSameBytesAfterAVastCharge(String kind) {
        Run run = new Run(new Random(4), new Form(kind, 4, 1_000, 1, false, 0));
        for (int i = 1; i < 6; i++) {
            run.pass(7);
            long now = clock.millis();
            List<Grants> grants = List.of(new Grants(now - 6, now - 3, 5), new Grants(now, now, (1L << 53) - 2));
            Reconciliation some = Reconciliation.of("a", i, run.claim(1), grants, List.of(), clock);
            twins.forEach(twin -> twin.reconcile(some));
            assertSame("charge " + i);
            twins.forEach(twin -> twin.refundOldest(run.claim(1)));
            assertSame("refund " + i);
        }
    }

    /** Only so many are kept. */
    @Test
    void javaAndLuaWriteTheSameBytesOfManyTombstones() {
        Run run = new Run(new Random(7), new Form("holds", 2, 1_000, 1, false, 0));
        for (int i = 0; i < 70; i++) {
            UUID id = new UUID(7, i);
            twins.forEach(twin -> twin.hold(run.claim(1).withHoldId(id), HoldAction.RELEASE));
            assertSame("release " + i);
        }
    }

    /** A store that compares and writes has to keep a value as long as Redis keeps the key. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "9/1m",
                "9/1m counter",
                "9/1m counter aligned",
                "9/1m burst=9",
                "9/1s burst=1",
                "9 concurrent",
                "9 daily",
                "ban 9m after 2/1m",
                "ban 9m after 1/1m growing"
            })
    void aValueExpiresWithItsKey(String text) {
        Limit limit = Limit.parse(text);
        Keyspace keyspace = new Keyspace(client);
        try (RedisStore store =
                RedisStore.builder(client).namespace(keyspace.namespace()).build()) {
            Claim claim = DecidedClaims.of(limiter.peek(Charge.of("k", limit)).block())
                    .get(0);
            Claim held = limit.holdsPermits() ? claim.withHoldId(new UUID(1, 2)) : claim;
            Claim denied = DecidedClaims.of(
                            limiter.peek(Charge.of("k", DENYING)).block())
                    .get(0)
                    .withPermits(2);
            store.take(StoreRequest.take(limit.takesPermits() ? List.of(held.withPermits(1)) : List.of(claim, denied)))
                    .block();
            String key = keyspace.onlyKey();
            long expiresAt = Count.read(limit, keyspace.bytes(key)).expiresAt();
            // The key may live a little longer: Redis counts from when it runs the command, in a script that has begun.
            assertThat(keyspace.expiryOf(key) - expiresAt).isBetween(0L, 500L);
        }
    }

    /** A bit is changed, and perhaps a byte added or missing. A refund checks the length of a log, as Java does. */
    @Test
    void javaAndLuaRecognizeTheSameForeignValues() {
        Random random = new Random(5);
        int foreign = 0;
        for (int seed = 0; seed < 60; seed++) {
            Run run = new Run(random, form(random, KINDS.get(seed % KINDS.size())));
            for (int step = 0; step < 15; step++) {
                run.step();
            }
            byte[] value = rewriting.value.length > 0 ? rewriting.value : new byte[] {0};
            for (int i = 0; i < 20; i++) {
                byte[] changed = changed(value, random);
                Claim claim = run.claim(1);
                boolean isOurs = Count.read(claim.limit(), changed) != null;
                assertThat(isOurs)
                        .as("whether %s is a value of %s", HexFormat.of().formatHex(changed), claim.limit())
                        .isEqualTo(isOursInRedis(claim, changed));
                foreign += isOurs ? 0 : 1;
            }
        }
        assertThat(foreign).isBetween(200, 1_000);
    }

    /** Not before its newest hit, and not longer than a refund of that hit can explain. */
    @Test
    void javaAndLuaRecognizeTheSameExpiriesOfALog() {
        Run run = new Run(new Random(3), new Form("log", 3, 50, 1, false, 0));
        twins.forEach(twin -> twin.decide(run.claim(1), true));
        long gone = clock.millis() + 51;
        for (long expires : new long[] {gone - 1, gone, gone + 4 * 50, gone + 4 * 50 + 1}) {
            byte[] value = rewriting.value.clone();
            LittleEndian.put(value, 38, expires, 6);
            boolean isOurs = Count.read(run.limit, value) != null;
            assertThat(isOurs)
                    .isEqualTo(expires >= gone && expires <= gone + 200)
                    .isEqualTo(isOursInRedis(run.claim(1), value));
        }
    }

    private boolean isOursInRedis(Claim claim, byte[] value) {
        rewriting.put(value);
        Mono<?> use = claim.limit().holdsPermits()
                ? rewriting.store.take(StoreRequest.peek(List.of(claim)))
                : rewriting.store.correct(RefundOldest.of(List.of(claim)));
        return use.thenReturn(true)
                .onErrorReturn(Kind.FOREIGN_VALUE::isOf, false)
                .block();
    }

    private static byte[] changed(byte[] value, Random random) {
        int longer = random.nextInt(8);
        byte[] changed = Arrays.copyOf(value, Math.max(1, value.length + (longer == 0 ? -1 : longer == 1 ? 1 : 0)));
        // The head is changed most often.
        int most = random.nextInt(4) == 0 ? changed.length : Math.min(changed.length, 44);
        changed[random.nextInt(most)] ^= (byte) (1 << random.nextInt(8));
        return changed;
    }

    private static Form form(Random random, String kind) {
        long window = WINDOWS[random.nextInt(WINDOWS.length)];
        int permits = random.nextInt(3) == 0 ? 7 + random.nextInt(200) : 1 + random.nextInt(6);
        boolean isCountingDenied = random.nextInt(3) == 0;
        return new Form(kind, permits, window, Math.min(window, 1 + random.nextInt(3)), isCountingDenied, 0);
    }

    private void writeTheSameBytes(int from, int to) {
        for (int seed = from; seed < to; seed++) {
            Random random = new Random(seed);
            Run run = new Run(random, form(random, KINDS.get(random.nextInt(KINDS.size()))));
            for (int step = 0; step < 80; step++) {
                String done = run.step();
                assertSame("seed " + seed + ", step " + step + ", " + done + ", of " + run.limit);
                for (Twin twin : twins) {
                    if (!twin.isExact && random.nextInt(8) == 0) {
                        twin.exchange(random);
                    }
                }
            }
        }
    }

    private void assertSame(String after) {
        twins.forEach(twin -> twin.assertSame(after + ", at " + clock.millis()));
    }

    /** A limit, and random steps on a count of it. */
    private final class Run {

        private final Random random;
        private final Form form;
        private final String key = "k-" + System.nanoTime();
        private final List<LostPermits> lost = new ArrayList<>();
        private int reconciliations = 1;
        private Limit limit;

        Run(Random random, Form form) {
            this.random = random;
            this.form = form;
            if (clock.millis() > LATEST) {
                clock.set(start);
            }
            limit = form.kind().equals("anyBucket") ? BucketOracleTest.anyBucket(random) : form.limit();
            pass(
                    limit instanceof Limit.Quota quota
                            ? quota.periodEnd(clock.instant()).toEpochMilli() - clock.millis() - 50
                            : 1_000_000);
            twins.forEach(twin -> twin.begin(claim(1)));
            lost.add(lostNow(8));
            lost.add(lostNow(17));
        }

        /** Returns permits that were in use when a life was lost. */
        private LostPermits lostNow(int life) {
            return new LostPermits(life, clock.millis(), grants(6, LimitKind.reach(limit)));
        }

        /** Returns what an instance may have granted, and in one of many cases more than a count can hold. */
        private List<Grants> grants(int most, long reach) {
            long now = clock.millis();
            if (limit instanceof Limit.Quota quota) {
                return periods(most, quota, now);
            }
            if (!limit.takesPermits()) {
                long at = now - random.nextInt(1_000);
                return List.of(new Grants(at, at, 1 + random.nextLong(now - at + 2_000)));
            }
            boolean isBucket = limit instanceof Limit.Bucket;
            boolean isVast = !isBucket && random.nextInt(50) == 0;
            List<Grants> grants = new ArrayList<>();
            long from = now - random.nextLong(reach + reach / 8 + 2);
            for (int i = random.nextInt(most); i >= 0 && from <= now; i--) {
                long to = random.nextBoolean() ? from : Math.min(now, from + random.nextLong(reach / 3 + 2));
                long permits =
                        random.nextLong(1 + Math.min(limit.capacity() / 4 + 1, random.nextInt(4) == 0 ? 1L << 50 : 3));
                long vast = limit instanceof Limit.Log ? 3_000_000_000L : (1L << 53) - 2;
                grants.add(new Grants(from, to, isVast ? vast : permits));
                from = to + random.nextLong(reach / 4 + 2);
            }
            return grants;
        }

        /** Returns permits in the present period, in the one before, and in those of another calendar. */
        private List<Grants> periods(int most, Limit.Quota quota, long now) {
            List<Grants> grants = new ArrayList<>();
            for (int i = random.nextInt(most); i >= 0; i--) {
                LimitKind.Numbers numbers = LimitKind.numbers(quota, now - random.nextInt(100));
                long other = random.nextInt(3) == 0 ? random.nextInt(200) - 100 : 0;
                long permits = random.nextInt(20) == 0 ? (1L << 53) - 2 : random.nextInt(9);
                grants.add(new Grants(numbers.first() + other, other == 0 ? numbers.second() : now + other, permits));
            }
            return grants;
        }

        /** Returns what an instance knew of a lost life at some time. */
        private LostPermits known(LostPermits all) {
            int last = random.nextInt(all.grants().size());
            List<Grants> known = new ArrayList<>(
                    all.grants().subList(random.nextInt(3) == 0 ? random.nextInt(1 + last) : 0, 1 + last));
            if (random.nextInt(3) == 0) {
                Grants latest = known.remove(known.size() - 1);
                known.add(new Grants(
                        latest.fromMillis(),
                        latest.toMillis(),
                        random.nextLong(1 + 2 * latest.permits() % (1L << 50))));
            }
            return new LostPermits(all.life() + random.nextInt(2), all.since() - random.nextInt(50), known);
        }

        private Reconciliation reconciliation(String source, int number, long reach) {
            List<Grants> grants = random.nextInt(3) == 0 ? List.of() : grants(5, reach);
            List<LostPermits> some = new ArrayList<>();
            for (int i = random.nextInt(3); i > 0 || (grants.isEmpty() && some.isEmpty()); i--) {
                int which = random.nextInt(lost.size());
                if (random.nextInt(3) == 0) {
                    lost.set(which, lostNow(lost.get(which).life()));
                }
                some.add(known(lost.get(which)));
            }
            return Reconciliation.of(source, number, claim(1), grants, some, clock);
        }

        /** Takes permits, or restores some of a life. */
        String restoringStep() {
            int longest = random.nextInt(3) == 0 ? 600 : 20;
            pass(random.nextInt(longest) - (random.nextInt(12) == 0 ? longest : 0));
            if (random.nextInt(12) == 0) {
                lost.set(0, lostNow(8 * (1 + random.nextInt(3))));
            }
            Claim claim = claim(1 + random.nextInt(3));
            Reconciliation some =
                    Reconciliation.of("a", ++reconciliations, claim, List.of(), List.of(known(lost.get(0))), clock);
            boolean isTake = random.nextInt(3) == 0;
            twins.forEach(twin -> {
                if (isTake) {
                    twin.decide(claim, true);
                } else {
                    twin.reconcile(some);
                }
            });
            return isTake ? "take " + claim.permits() : "restore " + some.lost();
        }

        void pass(long millis) {
            clock.advanceMillis(millis);
            scripted.show(clock, random.nextInt(1_000));
        }

        Claim claim(long permits) {
            return DecidedClaims.of(Objects.requireNonNull(
                            limiter.peek(Charge.of(key, limit)).block()))
                    .get(0)
                    .withPermits(permits);
        }

        /** Makes one step on all twins; returns its description. */
        String step() {
            pass(pause());
            if (random.nextInt(30) == 0 && !form.kind().equals("anyBucket")) {
                limit = form.withPermits(1 + random.nextInt(12)).limit();
            }
            Claim claim = claim(
                    1 + random.nextLong(random.nextInt(4) == 0 ? limit.capacity() : Math.min(3, limit.capacity())));
            boolean isHold = limit.holdsPermits();
            int which = random.nextInt(1_000);
            int parts = 1 + random.nextInt(4);
            UUID id = new UUID(random.nextLong(), random.nextLong());
            String done;
            Consumer<Twin> step;
            switch (random.nextInt(isHold ? 10 : 17)) {
                case 0 -> {
                    done = "peek";
                    step = twin -> twin.decide(claim, false);
                }
                case 1 -> {
                    done = "reset";
                    step = twin -> twin.reset(claim);
                }
                case 2, 3 -> {
                    done = isHold ? "release " + which : "refund " + which;
                    step = isHold ? twin -> twin.hold(which, HoldAction.RELEASE) : twin -> twin.refund(which);
                }
                case 4 -> {
                    done = isHold ? "renew " + which : "refund oldest " + claim.permits();
                    step = isHold ? twin -> twin.hold(which, HoldAction.RENEW) : twin -> twin.refundOldest(claim);
                }
                case 5 -> {
                    done = isHold ? "release before its request " + id : "settle " + which;
                    step = isHold
                            ? twin -> twin.hold(claim.withHoldId(id), HoldAction.RELEASE)
                            : twin -> twin.settle(which, claim.permits());
                }
                case 10, 11 -> {
                    done = "lease " + claim.permits();
                    step = limit.isLeased() ? twin -> twin.lease(claim, parts) : twin -> twin.decide(claim, true);
                }
                case 12, 13, 14, 15 -> {
                    int number = random.nextInt(4) == 0 ? reconciliations : ++reconciliations;
                    Reconciliation some =
                            reconciliation(random.nextBoolean() ? "a" : "b", number, LimitKind.reach(limit));
                    done = "reconcile " + number + " of " + some.source() + ", " + some.ages(some.grants()) + ", "
                            + some.lost();
                    step = twin -> twin.reconcile(some);
                }
                case 16 -> {
                    // In one of three cases, the life that others want to restore is not lost.
                    int what = random.nextInt(3);
                    done = List.of("lose nothing", "lose the count", "lose all").get(what);
                    lost.add(lostNow(rewriting.life()));
                    step = what == 0 ? twin -> {} : twin -> twin.lose(what == 2);
                }
                default -> {
                    done = "take " + claim.permits();
                    step = twin -> twin.decide(isHold ? claim.withHoldId(id) : claim, true);
                }
            }
            twins.forEach(step);
            return done;
        }

        private long pause() {
            if (form.kind().equals("anyBucket")) {
                return random.nextInt(5) < 2 ? BucketOracleTest.pause(random, limit) : 0;
            }
            return switch (random.nextInt(24)) {
                case 0 -> -1 - random.nextInt(60);
                case 1 -> random.nextInt(4) == 0 ? -500 - random.nextInt(2_500) : 0;
                case 2, 3 -> 100 + random.nextInt(1_000);
                case 4 ->
                    limit instanceof Limit.Quota
                            ? 86_300_000 + random.nextInt(100_000)
                            : 2_000 + random.nextInt(100_000);
                case 5, 6, 7 -> random.nextInt(60);
                default -> random.nextInt(4);
            };
        }
    }

    /** A count in a Redis store, and the value that Java has of it. */
    private final class Twin {

        private final boolean isExact;
        private final Keyspace keyspace = new Keyspace(client);
        private final RedisStore store;
        private final List<StoreDecision> taken = new ArrayList<>();
        private final List<Claim> held = new ArrayList<>();
        private String key = "";
        private byte[] value = {};
        private final Map<String, String> charged = new HashMap<>();
        private String restored = "";
        private String replied = "";
        private String reconciled = "";
        private long resetAt;
        private long resetMicros;
        private int settlements;
        private Limit limit = Limit.perSecond(1);

        Twin(boolean isExact, BiFunction<RedisClient, String, RedisStore> store) {
            this.isExact = isExact;
            this.store = store.apply(client, keyspace.namespace());
        }

        void begin(Claim claim) {
            key = new String(new CountKeys(keyspace.namespace()).counts(List.of(claim))[0], StandardCharsets.US_ASCII);
            value = new byte[0];
            taken.clear();
            held.clear();
            resetAt = Long.MIN_VALUE;
            charged.clear();
            restored = "";
            resetMicros = -1;
        }

        /** Does a step in Java: reads the value, and writes it if it has changed. */
        private void inJava(Claim claim, Consumer<Count> step) {
            limit = claim.limit();
            Count count = Count.read(limit, value);
            assertThat(count).as("the value, which is ours").isNotNull();
            count.advance(claim, clock.millis());
            step.accept(count);
            if (count.isChanged()) {
                value = count.write(scripted.micros());
                assertThat(count.expiresAt() > clock.millis() || value.length == 0)
                        .as("whether the value lives on")
                        .isTrue();
            }
        }

        void decide(Claim claim, boolean isTake) {
            if (!claim.limit().takesPermits()) {
                decideBan(claim.withPermits(0), isTake);
                return;
            }
            StoreDecision decision = store.take(
                            isTake ? StoreRequest.take(List.of(claim)) : StoreRequest.peek(List.of(claim)))
                    .block();
            StoreUsage usage = decision.usages().get(0);
            inJava(claim, count -> {
                boolean fits = count.fits(claim.permits());
                if (isTake && fits) {
                    count.take(claim.permits());
                } else if (isTake && limit.isCountingDenied()) {
                    count.recordDenied(claim.permits());
                }
                assertThat(decision.isAllowed()).isEqualTo(fits);
                assertThat(usage.used()).isEqualTo(count.used());
                assertThat(usage.wholeAt().toEpochMilli()).isEqualTo(count.wholeAt());
                assertThat(usage.fitsAt().toEpochMilli())
                        .isEqualTo(fits ? clock.millis() : count.fitsAt(claim.permits()));
            });
            note(decision);
        }

        /** Another limit of the key denies the request. */
        private void decideBan(Claim ban, boolean isTake) {
            Claim denied = DecidedClaims.of(
                            limiter.peek(Charge.of(ban.key(), DENYING)).block())
                    .get(0)
                    .withPermits(2);
            List<Claim> both = List.of(ban, denied);
            StoreDecision decision = store.take(isTake ? StoreRequest.take(both) : StoreRequest.peek(both))
                    .block();
            StoreUsage usage = decision.usages().get(0);
            inJava(ban, count -> {
                boolean fits = count.fits(0);
                count.decide(ban, false, isTake && Count.isStruck(ban, both, new boolean[] {fits, false}));
                assertThat(usage.isViolated()).isNotEqualTo(fits);
                assertThat(usage.used()).isEqualTo(count.used());
                assertThat(usage.wholeAt().toEpochMilli()).isEqualTo(count.wholeAt());
                assertThat(usage.fitsAt().toEpochMilli()).isEqualTo(count.fitsAt(0));
            });
        }

        /** Where the clock has stepped back, Redis cannot tell what came before a reset from what came after it. */
        private void note(StoreDecision decision) {
            if (decision.isCharged() && decision.at().toEpochMilli() > resetAt) {
                taken.add(decision);
                held.addAll(decision.claims());
            }
        }

        void lease(Claim claim, int parts) {
            StoreDecision lease = store.take(StoreRequest.lease(claim, parts, LimitStore.NO_DEADLINE))
                    .block();
            inJava(
                    claim,
                    count -> assertThat(count.lease(claim.permits(), parts))
                            .isEqualTo(lease.claims().get(0).permits()));
            note(lease);
        }

        void refund(int which) {
            if (!taken.isEmpty()) {
                StoreDecision decision = taken.get(which % taken.size());
                Claim claim = decision.claims().get(0);
                store.correct(Refund.of(decision)).block();
                inJava(
                        claim,
                        count -> ((RateCount) count)
                                .refund(decision.usages().get(0).chargedAt(), claim.permits()));
            }
        }

        void refundOldest(Claim claim) {
            store.correct(RefundOldest.of(List.of(claim))).block();
            inJava(claim, count -> ((RateCount) count).refundOldest(claim.permits()));
        }

        void settle(int which, long actual) {
            if (!taken.isEmpty()) {
                StoreDecision decision = taken.get(which % taken.size());
                Claim claim = decision.claims().get(0);
                long most = claim.limit().capacity() + which % 7;
                String id = "s-" + ++settlements;
                StoreUsage usage = decision.usages().get(0);
                Settlement one = new Settlement(id, claim, usage, 0, actual, most, LimitStore.NO_DEADLINE);
                if (limit instanceof Limit.Quota) {
                    // The store learns the time first: a settlement with boundaries of another time is not possible.
                    store.take(StoreRequest.peek(List.of(claim))).block();
                }
                store.correct(List.of(one)).block();
                inJava(claim, count -> {
                    if (one.toCharge() > 0) {
                        count.takeBeyond(one.toCharge(), one.most());
                    } else if (one.toRefund() > 0) {
                        ((RateCount) count).refund(usage.chargedAt(), one.toRefund());
                    }
                });
            }
        }

        void reconcile(Reconciliation one) {
            Corrected result = store.correct(List.of(one)).block().get(0);
            replied =
                    result.outcome() + ", " + CorrectedForTests.usageOf(result).used() + " used";
            inJava(one.claim(), count -> {
                CorrectionOutcome outcome = reconcile((RateCount) count, one)
                        ? CorrectionOutcome.APPLIED
                        : CorrectionOutcome.WITHOUT_EFFECT;
                reconciled = outcome + ", " + count.used() + " used";
            });
        }

        /** Reconciles in Java, with the marks of this twin; returns whether the count has changed. */
        private boolean reconcile(RateCount count, Reconciliation one) {
            long micros = scripted.micros();
            String[] last = charged.getOrDefault(one.source(), "0 0").split(" ", -1);
            boolean isRepeated = Long.parseLong(last[1]) == count.life() / StoreUsage.RESETS
                    && one.number() <= Long.parseLong(last[0]);
            boolean isPardoned = !one.claim().limit().takesPermits()
                    && resetMicros / 1_000 <= micros / 1_000
                    && one.grants().stream().allMatch(ban -> ban.toMillis() < resetMicros / 1_000);
            long counts = isRepeated || isPardoned ? 0 : count.charge(one.ages(one.grants()));
            if (counts > 0) {
                charged.put(one.source(), one.number() + " " + count.lifeAt(micros) / StoreUsage.RESETS);
                long lives = 1_000 + Math.min(counts, 3_600_000);
                assertThat(keyspace.commands().ttl(key + "!" + one.source())).isBetween(lives - 60, lives);
                corrections.merge("charge " + limit.getClass().getSimpleName(), 1, Integer::sum);
            }
            boolean isChanged = counts > 0;
            for (LostPermits lost : one.lost()) {
                RestoredMark before = RestoredMark.parse(restored);
                RestoredMark after = 1_000 * lost.since() <= resetMicros
                        ? before
                        : count.restore(lost.life(), one.ages(lost.grants()), before, micros);
                if (after != before) {
                    restored = after.text();
                    isChanged = true;
                    corrections.merge("restore " + limit.getClass().getSimpleName(), 1, Integer::sum);
                }
            }
            return isChanged;
        }

        private void assertSameReplyAndMarks(String after) {
            assertThat(reconciled).as("the reply of Java after %s", after).isEqualTo(replied);
            List<String> stored = keyspace.commands().mget(key + "!a", key + "!b", key + "!!").stream()
                    .map(mark -> mark.getValueOrElse(""))
                    .toList();
            assertThat(List.of(charged.getOrDefault("a", ""), charged.getOrDefault("b", ""), restored))
                    .as("the marks of Java after %s", after)
                    .isEqualTo(stored);
        }

        private int life() {
            return value.length == 0 ? 8 : (int) LittleEndian.get(value, 3, 2);
        }

        /** Loses the count, or its marks as well. */
        void lose(boolean isAll) {
            put(new byte[0]);
            value = new byte[0];
            taken.clear();
            if (isAll) {
                keyspace.commands().del(key + "!", key + "!!", key + "!a", key + "!b");
                charged.clear();
                restored = "";
                resetMicros = -1;
            }
        }

        void hold(int which, HoldAction action) {
            if (!held.isEmpty()) {
                hold(held.get(which % held.size()), action);
            }
        }

        void hold(Claim claim, HoldAction action) {
            held.add(claim);
            HoldRenewal renewal = store.hold(List.of(claim), action).block().get(0);
            inJava(claim, count -> {
                if (action == HoldAction.RENEW) {
                    assertThat(((HoldCount) count).renew(claim.permits())).isEqualTo(renewal.outcome());
                } else {
                    count.release();
                }
            });
        }

        void reset(Claim claim) {
            store.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
            value = Count.emptied(claim.limit(), value);
            taken.clear();
            resetAt = Math.max(resetAt, clock.millis());
            resetMicros = scripted.micros();
        }

        /** Java goes on with the value in Redis, or Redis with that of Java. */
        void exchange(Random random) {
            if (random.nextBoolean()) {
                value = stored();
            } else {
                put(value);
            }
        }

        void put(byte[] bytes) {
            keyspace.put(key, bytes);
        }

        private byte[] stored() {
            byte[] bytes = keyspace.bytes(key);
            return bytes == null ? new byte[0] : bytes;
        }

        /** The age of a mark that is zero means nothing. */
        private byte[] withoutAgeOfNoMark(byte[] value) {
            boolean hasNoMark = !isExact && value.length == 36 && LittleEndian.get(value, 24, 7) == 0;
            return hasNoMark ? Arrays.copyOf(value, 31) : value;
        }

        void assertSame(String after) {
            if (!replied.isEmpty()) {
                assertSameReplyAndMarks(after);
                replied = "";
            }
            byte[] stored = stored();
            if (isExact || !(limit instanceof Limit.Log) || stored.length == 0 || value.length == 0) {
                assertThat(hex(withoutAgeOfNoMark(value)))
                        .as("the bytes of Java after %s", after)
                        .isEqualTo(hex(withoutAgeOfNoMark(stored)));
                return;
            }
            assertThat(hex(Arrays.copyOf(value, 5))).as(after).isEqualTo(hex(Arrays.copyOf(stored, 5)));
            assertThat(entries(value)).as("the entries of Java after %s", after).isEqualTo(entries(stored));
        }

        private List<Object> entries(byte[] log) {
            StoredLog read = StoredLog.parse(log);
            long base = read.slots().isEmpty() ? 0 : read.base();
            return read.used() == 0
                    ? List.of()
                    : List.of(read.used(), read.newest(), read.count(), base, read.slots(), read.counts());
        }

        private static String hex(byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        }
    }
}
