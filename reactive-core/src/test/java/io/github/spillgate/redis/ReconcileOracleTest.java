package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.store.LastingMapStore;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.DecisionText;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The brute-force model, for which a reconciled grant is one that was recorded at its time, the scripts in Redis, and a
 * store that compares and writes are driven with the same random traffic, by the same clock, and have to say the same.
 * In the end what is stored in Redis is looked at, too.
 */
class ReconcileOracleTest {

    private static final List<String> LIMITS = List.of(
            "5/7ms",
            "9/50ms resolution=3ms",
            "20/1000ms",
            "40/1000ms resolution=10ms counting-denied",
            "6/50ms counting-denied",
            "5/50ms counter",
            "20/1000ms counter",
            "20/1000ms counter counting-denied",
            "7/50ms counter aligned",
            "20/1000ms counter aligned",
            "5/7ms burst=8",
            "20/1000ms burst=30",
            "20/1000ms burst=12 counting-denied",
            "7/50ms burst=7");

    private static final List<String> QUOTAS = List.of(
            "9 daily at=14:14",
            "20 daily zone=Asia/Tokyo at=23:15 counting-denied",
            "9 weekly at=14:14",
            "15 monthly zone=+05:13:27 from=21",
            "20 yearly zone=Europe/Berlin");

    RedisForTests redis = RedisForTests.first();

    private RedisClient client;

    /** How many histories each test drives. */
    int histories = 30;

    @BeforeEach
    void connect() {
        client = RedisClient.create(redis.uri());
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void modelAndLuaSayTheSame(boolean shortened) {
        for (int seed = 0; seed < histories; seed++) {
            Random random = new Random(seed);
            List<Limit> limits = new ArrayList<>();
            for (int i = 0; i < 1 + random.nextInt(3); i++) {
                limits.add(
                        Limit.parse(LIMITS.get(random.nextInt(LIMITS.size()))).named("limit-" + i));
            }
            new History(seed, random, limits, 5, shortened).run(60);
        }
    }

    /** Also with other calendars under the same name, and if what instances know of a lost life is restored. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void modelAndLuaSayTheSameOfQuotas(int others) {
        for (int seed = 0; seed < histories; seed++) {
            Random random = new Random(seed);
            List<Limit> limits = new ArrayList<>();
            for (int i = 0; i <= others; i++) {
                limits.add(
                        Limit.parse(QUOTAS.get(random.nextInt(QUOTAS.size()))).named("limit-" + i));
            }
            new History(seed, random, limits, 3, false).run(60);
        }
    }

    /** Logs of many entries, which are read in pieces and changed in place between one reconciliation and the next. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void modelAndLuaSayTheSameOfLongLogs(boolean shortened) {
        for (int seed = 0; seed < (histories + 7) / 8; seed++) {
            Random random = new Random(seed);
            String text = random.nextBoolean() ? "300/600ms" : "200/600ms counting-denied";
            new History(seed, random, List.of(Limit.parse(text)), 150, shortened).run(60);
        }
    }

    /** The traffic of one seed, and what has come of it so far. */
    private final class History {

        private final int seed;
        private final Random random;
        private final List<Limit> limits;
        private final int mostGrants;
        private final boolean shortened;
        private final ManualClock clock = new ManualClock();
        private final Keyspace keyspace = new Keyspace(client);
        private final List<Subject> subjects = new ArrayList<>();
        private int reconciliations;

        History(int seed, Random random, List<Limit> limits, int mostGrants, boolean shortened) {
            this.seed = seed;
            this.random = random;
            this.limits = limits;
            this.mostGrants = mostGrants;
            this.shortened = shortened;
        }

        void run(int steps) {
            ScriptedClock scripted = new ScriptedClock(client);
            try (RedisStore lua = scripted.store(client, keyspace.namespace(), shortened)) {
                subjects.add(new Subject("model", isQuota() ? new LossyStore(clock) : new StoreModel(clock)));
                subjects.add(new Subject("lua", lua));
                subjects.add(new Subject("java-on-values", new LastingMapStore(scripted::micros)));
                for (int step = 0; step < steps; step++) {
                    clock.advanceMillis(pause());
                    scripted.show(clock);
                    Function<Subject, String> action = action();
                    String expected = action.apply(subjects.get(0));
                    for (Subject subject : subjects.subList(1, subjects.size())) {
                        assertThat(action.apply(subject))
                                .as("%s, seed %d, step %d, at %d, of %s", subject, seed, step, clock.millis(), limits)
                                .isEqualTo(expected);
                    }
                }
                StoredLog.checkAll(keyspace);
            } finally {
                scripted.close();
            }
        }

        private boolean isQuota() {
            return limits.get(0) instanceof Limit.Quota;
        }

        private long pause() {
            if (isQuota()) {
                long boundary =
                        ((Limit.Quota) limits.get(0)).periodEnd(clock.instant()).toEpochMilli();
                return switch (random.nextInt(12)) {
                    case 0, 1 -> boundary - clock.millis() + random.nextInt(3) - 1;
                    case 2 -> random.nextLong(40 * 86_400_000L) - 10 * 86_400_000L;
                    case 3 -> -random.nextLong(86_400_000);
                    case 4 -> random.nextLong(86_400_000);
                    default -> random.nextLong(3);
                };
            }
            long window = limits.get(0).window().toMillis();
            return switch (random.nextInt(12)) {
                case 0 -> random.nextLong(2 * window);
                case 1, 2 -> random.nextLong(window);
                case 3 -> -random.nextLong(window);
                default -> random.nextLong(3);
            };
        }

        private Function<Subject, String> action() {
            int which = random.nextInt(1_000);
            Charge charge = Charge.of("key-" + random.nextInt(2), limits).permits(1 + random.nextInt(4));
            return switch (random.nextInt(9)) {
                case 0, 1, 2 -> subject -> subject.take(charge);
                case 3 -> subject -> subject.refund(which);
                case 4 -> subject -> subject.refundOldest(charge);
                case 5 -> subject -> subject.reconcileAgain(which);
                case 6 -> subject -> subject.refundCharged(which);
                default -> reconcile();
            };
        }

        private Function<Subject, String> reconcile() {
            Map<String, List<Grants>> parts = new HashMap<>();
            Map<String, List<LostPermits>> lost = new HashMap<>();
            List<Charge> charges = new ArrayList<>();
            for (int key = 0; key < 2; key++) {
                if (key == 0 || random.nextBoolean()) {
                    charges.add(Charge.of("key-" + key, limits));
                    for (Limit limit : limits) {
                        List<LostPermits> some = lost(limit);
                        lost.put("key-" + key + limit, some);
                        parts.put(
                                "key-" + key + limit,
                                some.isEmpty() || random.nextBoolean() ? grants(limit) : List.of());
                    }
                }
            }
            int number = reconciliations++;
            return subject -> subject.reconcile(charges, parts, lost, number);
        }

        /** Returns what an instance knew of a lost life, which others have restored in part. */
        private List<LostPermits> lost(Limit limit) {
            return isQuota() && random.nextBoolean()
                    ? List.of(new LostPermits(8 + 8 * random.nextInt(2), clock.millis(), List.of(period(limit))))
                    : List.of();
        }

        /** Returns permits of the present period, of a neighbour, or of another calendar. */
        private Grants period(Limit limit) {
            LimitKind.Numbers numbers = LimitKind.numbers(limit, clock.millis() + random.nextLong(-3, 3));
            boolean isFirst = random.nextBoolean();
            long other = random.nextInt(3) == 0 ? random.nextLong(-5, 5) : 0;
            return new Grants(
                    (isFirst ? numbers.first() : numbers.second()) + other,
                    (isFirst ? numbers.second() : numbers.third()) + other,
                    1 + random.nextInt(5));
        }

        /** Some that count, some that have left; the oldest first. */
        private List<Grants> grants(Limit limit) {
            if (isQuota()) {
                return Stream.generate(() -> period(limit))
                        .limit(1 + random.nextInt(mostGrants))
                        .sorted(Comparator.comparingLong(Grants::toMillis))
                        .toList();
            }
            long window = limit.window().toMillis();
            long reach = random.nextInt(5) == 0 ? 3 * window : window + window / 10 + 1;
            List<Long> times = random.longs(
                            2L * (1 + random.nextInt(mostGrants)), clock.millis() - reach, clock.millis() + 1)
                    .sorted()
                    .boxed()
                    .toList();
            List<Grants> grants = new ArrayList<>();
            for (int i = 0; i < times.size(); i += 2) {
                boolean sharp = random.nextBoolean();
                grants.add(new Grants(times.get(sharp ? i + 1 : i), times.get(i + 1), 1 + random.nextInt(3)));
            }
            return grants;
        }

        /** One store, the limiter on it, and what it has done so far. */
        private final class Subject {

            private final String name;
            private final LimitStore store;
            private final RateLimiter limiter;
            private final List<Decision> allowed = new ArrayList<>();
            private final List<List<Reconciliation>> reconciled = new ArrayList<>();
            private final List<List<Corrected>> charged = new ArrayList<>();

            Subject(String name, LimitStore store) {
                this.name = name;
                this.store = store;
                this.limiter =
                        RateLimiter.builder(name).store(new Unprotected(store)).build();
            }

            @Override
            public String toString() {
                return name;
            }

            String take(Charge charge) {
                Decision decision = limiter.tryAcquire(charge).block();
                if (decision.isAllowed()) {
                    allowed.add(decision);
                }
                return DecisionText.of(decision);
            }

            String refund(int which) {
                if (!allowed.isEmpty()) {
                    limiter.refund(allowed.get(which % allowed.size())).block();
                }
                return peek();
            }

            String refundOldest(Charge charge) {
                limiter.refund(charge).block();
                return peek();
            }

            String reconcile(
                    List<Charge> charges,
                    Map<String, List<Grants>> parts,
                    Map<String, List<LostPermits>> lost,
                    int number) {
                List<Reconciliation> reconciliations = new ArrayList<>();
                for (Claim claim : claims(charges)) {
                    String part = claim.key() + claim.limit();
                    reconciliations.add(Reconciliation.of("a", number, claim, parts.get(part), lost.get(part), clock));
                }
                reconciled.add(reconciliations);
                List<Corrected> results = store.correct(reconciliations).block();
                charged.add(results);
                return text(results) + peek();
            }

            /** Until one window after the charge, or the end of the period; the clock may have gone back since. */
            String refundCharged(int which) {
                if (charged.isEmpty()) {
                    return "";
                }
                store.correct(charged.get(which % charged.size()).stream()
                                .map(result -> refund(result, 1 + which % 4))
                                .toList())
                        .block();
                return peek();
            }

            private static RefundCharged refund(Corrected result, long permits) {
                StoreUsage usage = CorrectedForTests.usageOf(result);
                Claim claim = usage.claim();
                long until = claim.limit() instanceof Limit.Quota
                        ? usage.wholeAtMillis()
                        : usage.reply().at() + lifetime(claim.limit()).toMillis();
                return new RefundCharged(claim.withPermits(permits), usage.life(), until);
            }

            private static String text(List<Corrected> results) {
                return results.stream()
                        .map(result -> result.outcome() + " at "
                                + CorrectedForTests.usageOf(result).reply().at() + " " + usage(result))
                        .collect(Collectors.joining("; "));
            }

            private static String usage(Corrected result) {
                return DecisionText.of(CorrectedForTests.usageOf(result));
            }

            private static Duration lifetime(Limit limit) {
                return limit instanceof Limit.Bucket ? limit.quotaWindow() : limit.window();
            }

            String reconcileAgain(int which) {
                return reconciled.isEmpty()
                        ? ""
                        : text(store.correct(reconciled.get(which % reconciled.size()))
                                        .block())
                                + peek();
            }

            private List<Claim> claims(List<Charge> charges) {
                return DecidedClaims.of(
                        limiter.peek(charges.toArray(Charge[]::new)).block());
            }

            private String peek() {
                return DecisionText.of(limiter.peek(Charge.of("key-0", limits), Charge.of("key-1", limits))
                        .block());
            }
        }
    }
}
