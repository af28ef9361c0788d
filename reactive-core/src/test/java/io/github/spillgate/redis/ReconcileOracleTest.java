package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.Collectors;
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
                subjects.add(new Subject("model", new StoreModel(clock)));
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

        private long pause() {
            long window = limits.get(0).period().toMillis();
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
            List<Charge> charges = new ArrayList<>();
            for (int key = 0; key < 2; key++) {
                if (key == 0 || random.nextBoolean()) {
                    charges.add(Charge.of("key-" + key, limits));
                    for (Limit limit : limits) {
                        parts.put("key-" + key + limit, grants(limit));
                    }
                }
            }
            int number = reconciliations++;
            return subject -> subject.reconcile(charges, parts, number);
        }

        /** Some that count, some that have left; the oldest first. */
        private List<Grants> grants(Limit limit) {
            long window = limit.period().toMillis();
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

            String reconcile(List<Charge> charges, Map<String, List<Grants>> parts, int number) {
                List<Reconciliation> reconciliations = new ArrayList<>();
                for (Claim claim : claims(charges)) {
                    List<Grants> grants = parts.get(claim.key() + claim.limit());
                    reconciliations.add(Reconciliation.of("a", number, claim, grants, List.of(), clock));
                }
                reconciled.add(reconciliations);
                List<Corrected> results = store.correct(reconciliations).block();
                charged.add(results);
                return text(results) + peek();
            }

            /** Until one window after the charge; the clock may have gone back since. */
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
                return new RefundCharged(
                        claim.withPermits(permits),
                        usage.life(),
                        usage.reply().at() + lifetime(claim.limit()).toMillis());
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
                return limit instanceof Limit.Bucket ? limit.reach() : limit.period();
            }

            String reconcileAgain(int which) {
                return reconciled.isEmpty()
                        ? ""
                        : text(store.correct(reconciled.get(which % reconciled.size()))
                                        .block())
                                + peek();
            }

            private List<Claim> claims(List<Charge> charges) {
                return DecidedClaims.of(limiter.peek(charges).block());
            }

            private String peek() {
                return DecisionText.of(limiter.peek(List.of(Charge.of("key-0", limits), Charge.of("key-1", limits)))
                        .block());
            }
        }
    }
}
