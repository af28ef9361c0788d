package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Restoring permits that Redis has lost and that several instances know in part. */
class RestoreTest extends ScriptedFixture {

    private static final int HISTORIES = 50;
    private static final int LOST_LIFE = 8;

    private int restorations;

    /**
     * All instances know the usage of all, so the most of it counts. What was restored counts as taken now, so it has
     * neither returned nor expired.
     */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "100/1s",
                "100/1s resolution=10ms",
                "100/1s counter",
                "100/1s counter aligned",
                "100/1s burst=100"
            })
    void permitsThatTwoInstancesKnowAreRestoredOnceEvenIfTheClockStepsBackBetween(String limit) {
        for (int step : new int[] {0, -5, -100, -700, -1_500}) {
            Claim claim = claim("key" + step, Limit.parse(limit));
            assertThat(restore(claim, 14)).as("first").isEqualTo(14);
            pass(step);
            assertThat(restore(claim, 22)).as("after a step of %d ms", step).isEqualTo(22);
            assertThat(restore(claim, 14)).as("once more").isEqualTo(22);
            pass(10_000 - clock.millis() % 1_000);
        }
    }

    /** Otherwise the permits of the other instance, which are still in use, could be granted again. */
    @ParameterizedTest
    @CsvSource({"100/1s, 1001", "100/1s burst=100, 140"})
    void restoredPermitsThatHaveExpiredSinceHideNoOthers(String limit, int passed) {
        Claim claim = claim(limit);
        long since = clock.millis() - 10;
        restore(claim, 14, since);
        pass(passed);
        assertThat(restore(claim, 22, since)).isEqualTo(22);
    }

    /** Of one window an instance may know more than another, and of the next one less. The sums would be equal. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1s counter", "100/1s counter aligned"})
    void eachWindowOfACounterHasTheMostThatAnInstanceKnew(String limit) {
        Claim claim = claim(limit);
        pass(1_000 - clock.millis() % 1_000 + 200);
        restore(claim, new Grants(1_200, 700, 40), new Grants(200, 0, 10));
        assertThat(counter(claim)).isEqualTo(new CounterState(clock.millis() - 200, 40, 10));
        pass(300);
        // The message was under way for some milliseconds.
        restore(claim, new Grants(1_503, 1_003, 30), new Grants(503, 3, 33));
        assertThat(counter(claim).previous()).isEqualTo(40);
        assertThat(counter(claim).current()).isEqualTo(33);
        store.take(StoreRequest.take(List.of(claim.withPermits(5)))).block();
        pass(600);
        restore(claim, new Grants(1_100, 600, 36));
        assertThat(counter(claim).previous()).isEqualTo(5 + 36);
        assertThat(counter(claim).current()).isZero();
    }

    private CounterState counter(Claim claim) {
        StoreDecision peeked = store.take(StoreRequest.peek(List.of(claim))).block();
        return Objects.requireNonNull(CounterState.of(peeked.usages().get(0).windows()));
    }

    /** Otherwise those of each life would return at the rate of the whole bucket. */
    @Test
    void lostPermitsOfABucketReturnOnceTheyAreRestored() {
        Claim claim = claim("100/1s burst=100");
        assertThat(restore(claim, 16, clock.millis() - 100, new Grants(100, 100, 20)))
                .isEqualTo(20);
        assertThat(restore(claim, 24, clock.millis() - 100, new Grants(100, 100, 5)))
                .isEqualTo(25);
        pass(100);
        assertThat(used(claim)).isEqualTo(15);
    }

    /** The histories of the failover use a model of Redis. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "1000/1s resolution=10ms",
                "1000/1s counter",
                "1000/999ms counter",
                "1000/1s counter aligned",
                "1000/1s burst=1000"
            })
    void theModelRestoresTheSame(String limit) {
        for (int seed = 0; seed < HISTORIES; seed++) {
            Random random = new Random(seed);
            LossyStore model = new LossyStore(clock);
            Claim claim = claim("key-" + seed, Limit.parse(limit));
            long lostAt = clock.millis();
            for (int step = 0; step < 12; step++) {
                pass(random.nextInt(random.nextInt(4) == 0 ? 900 : 50));
                Reconciliation some = lostPermits(claim, random, clock.millis() - lostAt);
                StoreRequest take = StoreRequest.take(List.of(claim.withPermits(1 + random.nextInt(9))));
                boolean isRestored = random.nextBoolean();
                for (LimitStore one : List.of(store, model)) {
                    if (isRestored) {
                        one.correct(List.of(some)).block();
                    } else {
                        one.take(take).block();
                    }
                }
                StoreUsage expected = model.take(StoreRequest.peek(List.of(claim)))
                        .block()
                        .usages()
                        .get(0);
                StoreUsage actual = store.take(StoreRequest.peek(List.of(claim)))
                        .block()
                        .usages()
                        .get(0);
                assertThat(actual.used()).as("seed %d, step %d", seed, step).isEqualTo(expected.used());
                assertThat(actual.windows()).as("seed %d, step %d", seed, step).isEqualTo(expected.windows());
            }
        }
    }

    /** Returns permits of up to two windows before a loss, in the way of an instance: of a bucket at one time. */
    private Reconciliation lostPermits(Claim claim, Random random, long sinceLoss) {
        List<Grants> ages = new ArrayList<>();
        long age = sinceLoss + random.nextInt(800);
        boolean isBucket = claim.limit() instanceof Limit.Bucket;
        for (int i = isBucket ? 1 : 0; i < 2; i++) {
            ages.add(0, new Grants(age + random.nextInt(500), age, 1 + random.nextInt(90)));
            age += 500 + random.nextInt(500);
        }
        return reconciliation(claim, 8 * (1 + random.nextInt(2)), clock.millis() - sinceLoss, ages);
    }

    /** What was granted since the other restoration is in addition to the permits of both. */
    @ParameterizedTest
    @CsvSource({"100/1s, 1001", "100/1s counter, 2000", "100/1s burst=100, 140"})
    void permitsThatWereGrantedSinceDoNotStandForRestoredOnes(String limit, int passed) {
        Claim claim = claim(limit);
        long since = clock.millis() - 10;
        restore(claim, 14, since);
        pass(passed);
        store.take(StoreRequest.take(List.of(claim.withPermits(5)))).block();
        assertThat(restore(claim, 22, since)).isEqualTo(27);
    }

    /** Whatever the times of those that were granted since. */
    @ParameterizedTest
    @ValueSource(
            strings = {"100/1h", "100/1h resolution=1m", "100/1h counter", "100/1h counter aligned", "100/1h burst=100"
            })
    void allPermitsOfALostLifeCountInAddition(String text) {
        Claim claim = claim(text);
        StoreUsage before = take(claim, 20);
        long since = clock.millis();
        keyspace.commands().flushall();
        pass(1);
        take(claim, 5);
        assertThat(restore(claim, before.life(), since, new Grants(1, 1, 20))).isEqualTo(25);
        assertThat(restore(claim, before.life(), since, new Grants(1, 1, 20))).isEqualTo(25);
    }

    /** An instance may know both of them, and another one only the first. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h", "100/1h counter", "100/1h burst=100"})
    void permitsOfTwoLostLivesAddUp(String text) {
        Claim claim = claim(text);
        assertThat(restore(claim, 16, clock.millis(), new Grants(0, 0, 20))).isEqualTo(20);
        assertThat(restore(claim, 24, clock.millis(), new Grants(0, 0, 5))).isEqualTo(25);
        assertThat(restore(claim, 16, clock.millis(), new Grants(0, 0, 20))).isEqualTo(25);
        assertThat(restore(claim, 24, clock.millis(), new Grants(0, 0, 5))).isEqualTo(25);
    }

    /** Then what was restored is lost, too, and the mark says nothing about the next life. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h", "100/1h counter", "100/1h burst=100"})
    void permitsAreRestoredAgainAfterTheCountIsDeleted(String text) {
        Claim claim = claim(text);
        restore(claim, 20);
        keyspace.commands().del(keyspace.countKey());
        pass(1);
        assertThat(restore(claim, 20)).isEqualTo(20);
    }

    private StoreUsage take(Claim claim, long permits) {
        StoreDecision decision = store.take(StoreRequest.take(List.of(claim.withPermits(permits))))
                .block();
        return decision.usages().get(0);
    }

    /** Each instance knows when its own permits were taken, and of those of the others only that they are in use. */
    @Test
    void permitsOfSeveralInstancesExpireAsTheyWereTaken() {
        Claim claim = claim("100/1s");
        for (int others : new int[] {10, 5, 8}) {
            restore(
                    claim,
                    new Grants(900, 900, 1),
                    new Grants(700, 700, 1),
                    new Grants(500, 500, 1),
                    new Grants(300, 300, 1),
                    new Grants(others, others, 4));
        }
        assertThat(used(claim)).isEqualTo(8);
        pass(550);
        assertThat(used(claim)).isEqualTo(5);
    }

    /** Of an instance that has replied last, the permits are later ones, and must not expire with those of another. */
    @Test
    void restoredPermitsMoveToTheLatestTimeThatAnInstanceKnows() {
        Claim claim = claim("100/1s");
        assertThat(restore(claim, new Grants(900, 900, 49))).isEqualTo(49);
        assertThat(restore(claim, new Grants(900, 900, 9), new Grants(100, 100, 36)))
                .isEqualTo(49);
        pass(200);
        assertThat(used(claim)).isEqualTo(36);
    }

    /** A fallback may have granted them before the restoration, but after the restored permits. */
    @Test
    void permitsThatWereReconciledSinceDoNotStandForRestoredOnes() {
        Claim claim = claim("100/1s");
        assertThat(restore(claim, new Grants(900, 900, 14))).isEqualTo(14);
        reconcile(claim, new Grants(500, 500, 5));
        long since = clock.millis() - 300;
        pass(200);
        assertThat(restore(claim, 22, since)).isEqualTo(27);
    }

    /** Whatever their time is among those of the restored ones. */
    @ParameterizedTest
    @CsvSource({"950, 4", "700, 9"})
    void olderPermitsThatWereReconciledSinceDoNotStandForRestoredOnes(int age, long left) {
        Claim claim = claim("100/1s");
        restore(claim, new Grants(900, 900, 10), new Grants(500, 500, 4));
        reconcile(claim, new Grants(age, age, 5));
        assertThat(restore(claim, new Grants(900, 900, 22))).isEqualTo(27);
        pass(101);
        assertThat(used(claim)).isEqualTo(left);
    }

    @Test
    void permitsThatWereGrantedInTheSlotOfTheLatestDoNotStandForRestoredOnes() {
        Claim claim = claim("100/1s resolution=100ms");
        pass(1_050 - clock.millis() % 100);
        restore(claim, new Grants(500, 500, 13), new Grants(20, 20, 20));
        take(claim, 5);
        assertThat(restore(claim, new Grants(20, 20, 25))).isEqualTo(38);
        pass(700);
        assertThat(used(claim)).isEqualTo(30);
    }

    /** It holds what was granted since, also in the window before the present one. */
    @ParameterizedTest
    @CsvSource({"100/1s counter, 0, 0", "100/1s burst=100, 0, 0", "100/1s counter, 10, 1000", "100/1s counter, 0, 300"})
    void aCountThatBeganSinceTheLastReplyIsInAddition(String limit, int untilTaken, int untilRestored) {
        Claim claim = claim(limit);
        long since = clock.millis();
        pass(untilTaken);
        store.take(StoreRequest.take(List.of(claim.withPermits(5)))).block();
        pass(untilRestored);
        assertThat(restore(claim, 22, since)).isEqualTo(27);
    }

    /** A reply in the same microsecond may be of before the reset. */
    @Test
    void nothingIsRestoredAfterAReset() {
        Claim claim = claim("100/1s");
        scripted.show(clock, 0);
        store.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        assertThat(restore(claim, 22, clock.millis())).isZero();
    }

    /** Otherwise another instance could restore the same permits again. */
    @ParameterizedTest
    @CsvSource({"100/1s, 1001", "100/1s counter, 2000", "100/1s burst=200, 2000"})
    void theMarkLivesAsLongAsThePermitsMayBeInUse(String limit, long reach) {
        Claim claim = claim(limit);
        restore(claim, 14);
        // The scripted clock makes everything live for as many seconds as production does milliseconds, and a thousand
        // more.
        assertThat(keyspace.commands().ttl(keyspace.keyEndingWith("!!"))).isBetween(1_000 + reach - 60, 1_000 + reach);
    }

    /** Several instances restore a log in any order, each what it knew at another time, while permits are granted. */
    @ParameterizedTest
    @ValueSource(strings = {"1000/1s", "1000/1s resolution=10ms", "1000/1s resolution=100ms"})
    void atNoTimeAreFewerPermitsInUseThanAnInstanceKnew(String limit) {
        try (RedisStore shortened = scripted.store(client, true)) {
            for (int seed = 0; seed < HISTORIES; seed++) {
                Claim claim = claim("key-" + seed, Limit.parse(limit));
                restoreAtRandom(seed % 2 == 0 ? store : shortened, claim, new Random(seed));
            }
        }
    }

    private void restoreAtRandom(RedisStore store, Claim claim, Random random) {
        Slots granted = new Slots(claim.limit());
        List<Slots> known = new ArrayList<>();
        long lostAt = clock.millis();
        // All that is granted since the loss is in later slots.
        pass(100);
        int steps = 2 + random.nextInt(8);
        for (int step = 0; step < steps; step++) {
            pass(random.nextInt(random.nextInt(3) == 0 ? 400 : 20));
            if (random.nextBoolean()) {
                store.take(StoreRequest.take(List.of(claim.withPermits(3)))).block();
                granted.add(clock.millis(), 3);
                continue;
            }
            Slots before = new Slots(claim.limit());
            List<Grants> ages = new ArrayList<>();
            long since = lostAt - random.nextInt(600);
            for (long time = since - random.nextInt(500); time <= since; time += 1 + random.nextInt(200)) {
                long permits = 1L + random.nextInt(20);
                ages.add(new Grants(clock.millis() - time, clock.millis() - time, permits));
                before.add(time, permits);
            }
            long restored = used(store, claim) - granted.used(clock.millis());
            long used = permitsIn(store.correct(List.of(reconciliation(claim, LOST_LIFE, since, ages)))
                    .block());
            assertThat(used - granted.used(clock.millis())).isEqualTo(Math.max(restored, before.used(clock.millis())));
            known.add(before);
        }
        while (!granted.isEmptyAt(clock.millis()) || !known.stream().allMatch(one -> one.isEmptyAt(clock.millis()))) {
            long most = known.stream()
                    .mapToLong(one -> one.used(clock.millis()))
                    .max()
                    .orElse(0);
            assertThat(used(store, claim)).isGreaterThanOrEqualTo(granted.used(clock.millis()) + most);
            pass(23);
        }
        assertThat(used(store, claim)).isZero();
    }

    private Claim claim(String limit) {
        return claim("a", Limit.parse(limit));
    }

    private void reconcile(Claim claim, Grants ages) {
        long now = clock.millis();
        Grants grants = new Grants(now - ages.fromMillis(), now - ages.toMillis(), ages.permits());
        store.correct(List.of(Reconciliation.of("a", 1, claim, List.of(grants), List.of(), clock)))
                .block();
    }

    private long used(Claim claim) {
        return used(store, claim);
    }

    private static long used(RedisStore store, Claim claim) {
        StoreDecision peeked = store.take(StoreRequest.peek(List.of(claim))).block();
        return Objects.requireNonNull(peeked).usages().get(0).used();
    }

    private static long permitsIn(@Nullable List<Corrected> results) {
        return used(results).get(0);
    }

    private long restore(Claim claim, long permits) {
        return restore(claim, permits, clock.millis() - 10);
    }

    /** Restores permits as of the youngest of them, and returns the usage then. */
    private long restore(Claim claim, Grants... ages) {
        long since = clock.millis() - ages[ages.length - 1].toMillis();
        return restore(claim, LOST_LIFE, since, ages);
    }

    /** Returns the usage in the reply, which is that of the stored count. */
    private long restore(Claim claim, int life, long since, Grants... ages) {
        List<Corrected> results = store.correct(List.of(reconciliation(claim, life, since, List.of(ages))))
                .block();
        StoreDecision stored = store.take(StoreRequest.peek(List.of(claim))).block();
        StoreUsage replied = CorrectedForTests.usages(results).get(0);
        StoreUsage usage = stored.usages().get(0);
        assertThat(List.of(replied.used(), replied.wholeAt())).isEqualTo(List.of(usage.used(), usage.wholeAt()));
        assertThat(replied.windows()).isEqualTo(usage.windows());
        return permitsIn(results);
    }

    /** Restores permits that were just taken, and returns the usage then. */
    private long restore(Claim claim, long permits, long since) {
        return restore(claim, LOST_LIFE, since, new Grants(0, 0, permits));
    }

    private Reconciliation reconciliation(Claim claim, int life, long since, List<Grants> ages) {
        long now = clock.millis();
        List<Grants> grants = ages.stream()
                .map(one -> new Grants(now - one.fromMillis(), now - one.toMillis(), one.permits()))
                .toList();
        return Reconciliation.of(
                "r", restorations++, claim, List.of(), List.of(new LostPermits(life, since, grants)), clock);
    }

    /** The permits of each slot of a log. */
    private static final class Slots {

        private final Limit limit;
        private final TreeMap<Long, Long> permits = new TreeMap<>();

        Slots(Limit limit) {
            this.limit = limit;
        }

        void add(long time, long some) {
            permits.merge(time / limit.resolution().toMillis(), some, Long::sum);
        }

        long used(long now) {
            long slot = (now - limit.window().toMillis()) / limit.resolution().toMillis();
            return permits.tailMap(slot).values().stream()
                    .mapToLong(Long::longValue)
                    .sum();
        }

        boolean isEmptyAt(long now) {
            return used(now) == 0;
        }
    }
}
