package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.postgres.SqlClock;
import io.github.spillgate.redis.StoreOracleTest.Action;
import io.github.spillgate.redis.StoreOracleTest.ChargeSpec;
import io.github.spillgate.redis.StoreOracleTest.Peek;
import io.github.spillgate.redis.StoreOracleTest.Refund;
import io.github.spillgate.redis.StoreOracleTest.RefundOldest;
import io.github.spillgate.redis.StoreOracleTest.Reset;
import io.github.spillgate.redis.StoreOracleTest.Settle;
import io.github.spillgate.redis.StoreOracleTest.Subject;
import io.github.spillgate.redis.StoreOracleTest.Take;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.store.LastingMapStore;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.PostgresForTests;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import java.time.DayOfWeek;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.temporal.ChronoUnit;
import java.time.temporal.TemporalAdjusters;
import java.time.zone.ZoneOffsetTransition;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.LongFunction;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Random sequences of steps on quotas of any calendar, of which the limit changes on the way. The brute-force model,
 * the local store, two instances on one Redis, and stores that compare and write, in a map and in PostgreSQL, must
 * agree in every field of every decision. Many sequences share a clock, which steps forward and back, and often to a
 * boundary.
 *
 * <p>An instance knows the clock of Redis by its last reply. Between two of them, that may have gone any time.
 */
class QuotaOracleTest {

    /** Sequences on one clock. Each has a count of its own. */
    private static final int TOGETHER = 100;

    private static final int STEPS = 20;
    private static final long DAY = Duration.ofDays(1).toMillis();
    private static final List<String> ZONES =
            ZoneId.getAvailableZoneIds().stream().sorted().toList();

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final ScriptedClock scripted = new ScriptedClock(client);
    private final String namespace = new Keyspace(client).namespace();
    private final Instances instances =
            new Instances(scripted.store(client, namespace, false), scripted.store(client, namespace, false));
    private final SqlClock sql = new SqlClock(PostgresForTests.shared());
    private final ManualClock clock = new ManualClock();

    @AfterEach
    void close() {
        instances.close();
        scripted.close();
        sql.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void allStoresAgree() {
        runSequences(0, 200);
    }

    @Test
    @Thorough
    void allStoresAgreeInManySequences() {
        runSequences(200, 5_000);
    }

    @Test
    @Proof
    void allStoresAgreeInVeryManySequences() {
        runSequences(5_000, 105_000);
    }

    private void runSequences(int from, int to) {
        show(0);
        instances.prepare();
        for (int seed = from; seed < to; seed += TOGETHER) {
            run(seed);
        }
    }

    private void run(int seed) {
        Random random = new Random(seed);
        ZoneId zone = zone(random);
        clock.set(start(random, zone).toEpochMilli());
        show(500);
        StoreModel model = new StoreModel(clock);
        LimitStore local = LocalStore.bounded(10 * TOGETHER, clock);
        LimitStore values = new LastingMapStore(scripted::micros);
        List<Sequence> sequences = new ArrayList<>();
        for (int i = 0; i < TOGETHER; i++) {
            String name = "quota-" + seed + "-" + i;
            sequences.add(new Sequence(
                    random,
                    zone,
                    List.of(
                            new Subject(name, model, clock, i % 3),
                            new Subject(name, local, clock, i % 3),
                            new Subject(name, instances, clock, i % 3),
                            new Subject(name, values, clock, i % 3),
                            new Subject(name, sql.store(), clock, i % 3))));
        }
        for (int step = 0; step < STEPS; step++) {
            clock.advanceMillis(sequences.get(random.nextInt(TOGETHER)).pause());
            // Only so that a reset has another time than a decision before it.
            show(500 + step);
            instances.useFirst(random.nextBoolean());
            List<Step> steps = sequences.stream().map(Sequence::next).toList();
            Flux.fromIterable(steps)
                    .flatMapSequential(Step::take, TOGETHER)
                    .then()
                    .block();
            for (int i = 0; i < TOGETHER; i++) {
                steps.get(i)
                        .assertSame("seed " + seed + ", step " + step + ", sequence " + i + ", at " + clock.instant());
            }
        }
    }

    private void show(int micros) {
        scripted.show(clock, micros);
        sql.show(scripted.micros());
    }

    // What is generated

    private static ZoneId zone(Random random) {
        return random.nextInt(4) == 0
                ? ZoneOffset.ofTotalSeconds(random.nextInt(2 * 64_800 + 1) - 64_800)
                : ZoneId.of(ZONES.get(random.nextInt(ZONES.size())));
    }

    /** Returns a time at which periods of a week, a month or a year may begin, or near a change of the clocks. */
    private static Instant start(Random random, ZoneId zone) {
        ZonedDateTime any = Instant.ofEpochSecond(random.nextLong(978_307_200L, 3_786_912_000L))
                .atZone(zone);
        return switch (random.nextInt(5)) {
            case 0 -> any.with(TemporalAdjusters.nextOrSame(DayOfWeek.MONDAY)).toInstant();
            case 1 -> any.with(TemporalAdjusters.lastDayOfMonth()).toInstant();
            case 2 -> any.with(TemporalAdjusters.firstDayOfYear()).toInstant();
            case 3 -> {
                ZoneOffsetTransition next = zone.getRules().nextTransition(any.toInstant());
                yield next == null ? any.toInstant() : next.getInstant().minusSeconds(random.nextInt(90_000));
            }
            default -> any.toInstant();
        };
    }

    /** Returns a calendar of which a period begins within a few minutes, if its unit has a boundary on this day. */
    private LongFunction<Limit.Quota> calendar(Random random, ZoneId any, String unit) {
        ZoneId zone = random.nextInt(3) > 0 ? any : zone(random);
        LocalTime soon = clock.instant()
                .plus(Duration.ofMinutes(random.nextInt(6) - 2))
                .atZone(zone)
                .toLocalTime()
                .truncatedTo(ChronoUnit.MINUTES);
        LocalTime at = random.nextInt(3) > 0 ? soon : LocalTime.MIDNIGHT;
        int today = clock.instant().atZone(zone).getDayOfMonth();
        int from = random.nextBoolean() ? today : 1 + random.nextInt(31);
        return permits -> switch (unit) {
            case "weekly" -> Limit.weekly(permits).in(zone).at(at);
            case "monthly" -> Limit.monthly(permits).in(zone).at(at).from(from);
            case "yearly" -> Limit.yearly(permits).in(zone).at(at);
            default -> Limit.daily(permits).in(zone).at(at);
        };
    }

    /** The steps of one count in all stores. */
    private final class Sequence {

        private final Random random;
        private final ZoneId zone;
        private final List<Subject> subjects;
        private final String unit;
        private final boolean isNamed;
        private final boolean isCountingDenied;
        private LongFunction<Limit.Quota> calendar;
        private Limit.Quota quota;
        private Limit limit;

        Sequence(Random random, ZoneId zone, List<Subject> subjects) {
            this.random = random;
            this.zone = zone;
            this.subjects = subjects;
            unit = List.of("daily", "daily", "weekly", "monthly", "monthly", "yearly")
                    .get(random.nextInt(6));
            isNamed = random.nextInt(4) > 0;
            isCountingDenied = random.nextInt(3) == 0;
            change();
        }

        /** Changes the permits, and in some cases the calendar, as while old and new instances run side by side. */
        private void change() {
            calendar = calendar == null || (isNamed && random.nextBoolean()) ? calendar(random, zone, unit) : calendar;
            quota = calendar.apply(1 + random.nextInt(9));
            Limit changed = isNamed ? quota.named("plan") : quota;
            changed = random.nextInt(3) > 0 ? changed.near(1 + random.nextInt(100)) : changed;
            limit = isCountingDenied ? changed.countingDenied() : changed;
        }

        /** Returns for how long the clock goes on, or back. */
        long pause() {
            long boundary = quota.periodEnd(clock.instant()).toEpochMilli() - clock.millis();
            return switch (random.nextInt(16)) {
                case 0, 1, 2 -> boundary + random.nextInt(3) - 1;
                case 3 -> boundary / 2 + random.nextInt(3) - 1;
                case 4 -> random.nextLong(DAY) - DAY / 2;
                case 5 -> random.nextLong(40 * DAY) - 10 * DAY;
                case 6 -> -random.nextInt(120_000);
                case 7, 8, 9 -> random.nextInt(120_000);
                default -> random.nextInt(4);
            };
        }

        Step next() {
            if (random.nextInt(8) == 0) {
                change();
            }
            long cost = random.nextInt(8) == 0 ? random.nextInt(40) : random.nextInt(4);
            ChargeSpec some = new ChargeSpec(0, 1, cost);
            int which = random.nextInt(STEPS);
            Action action = switch (random.nextInt(16)) {
                case 0 -> new Peek(List.of(some));
                case 1, 2 -> new Refund(which);
                case 3, 4 -> new Settle(which, random.nextInt(12));
                case 5 -> new RefundOldest(some);
                case 6 -> random.nextInt(3) == 0 ? new Reset(some) : new Peek(List.of(some));
                default -> new Take(List.of(some));
            };
            return new Step(action, limit, subjects);
        }
    }

    /** A step, and the answers of all stores. */
    private static final class Step {

        private final Action action;
        private final Limit limit;
        private final List<Subject> subjects;
        private List<String> answers = List.of();

        Step(Action action, Limit limit, List<Subject> subjects) {
            this.action = action;
            this.limit = limit;
            this.subjects = subjects;
        }

        Mono<Void> take() {
            return Flux.fromIterable(subjects)
                    .flatMapSequential(subject -> subject.apply(action, List.of(limit)))
                    .collectList()
                    .doOnNext(all -> answers = all)
                    .then();
        }

        void assertSame(String when) {
            assertThat(answers)
                    .as("%s: %s of %s, by the model, Java, Lua, Java on values, and SQL", when, action, limit)
                    .hasSameSizeAs(subjects)
                    .containsOnly(answers.get(0));
        }
    }

    /** Two instances on one Redis, of which one decides, and the other does not learn the time of Redis. */
    private static final class Instances extends ForwardingLimitStore {

        private final RedisStore first;
        private final RedisStore second;
        private RedisStore used;

        Instances(RedisStore first, RedisStore second) {
            super(first);
            this.first = first;
            this.second = second;
            this.used = first;
        }

        /** Loads the scripts: a request that finds none is sent again, behind others. */
        void prepare() {
            first.prepare("").retry(3).block();
            second.prepare("").retry(3).block();
        }

        void useFirst(boolean isFirst) {
            used = isFirst ? first : second;
        }

        @Override
        public Mono<StoreDecision> take(StoreRequest request) {
            return used.take(request);
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            return used.correct(corrections);
        }

        @Override
        public Mono<Void> reset(List<Claim> claims, long deadline) {
            return used.reset(claims, deadline);
        }

        void close() {
            first.close();
            second.close();
        }
    }
}
