package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The life of a count, by which instances tell that data was lost. */
class CountLifeTest extends ScriptedFixture {

    private static final int OTHER_LIFE = 8;

    /** An expiry seems later if the server pauses while it is read, which takes two readings of its clock. */
    private static final int LONGEST_PAUSE = 50;

    @ParameterizedTest
    @ValueSource(
            strings = {
                "9/1s",
                "9/1s resolution=10ms",
                "9/1s leased",
                "9/1s counter",
                "9/1s counter aligned",
                "9/1s burst=9",
                "9/10s burst=30",
                "9/1s burst=9 leased",
                "9/1s counting-denied"
            })
    void allRepliesHaveTheSameLifeWhateverIsDoneWithTheCount(String text) {
        Limit limit = Limit.parse(text);
        Claim claim = claim("a", limit);
        Claim second = claim("a", Limit.perHour(100));
        int life = life(store.take(StoreRequest.take(List.of(claim))));
        assertThat(life).isPositive();
        for (int round = 0; round < 30; round++) {
            StoreDecision taken =
                    store.take(StoreRequest.take(List.of(claim.withPermits(2)))).block();
            assertThat(life(taken)).as("of a take").isEqualTo(life);
            assertThat(life(store.take(StoreRequest.take(List.of(claim, second)))))
                    .as("beside another limit")
                    .isEqualTo(life);
            assertThat(life(store.take(StoreRequest.take(List.of(claim.withPermits(9))))))
                    .as("of a denial")
                    .isEqualTo(life);
            assertThat(life(store.take(StoreRequest.peek(List.of(claim)))))
                    .as("of a peek")
                    .isEqualTo(life);
            if (limit.isLeased()) {
                assertThat(life(store.take(StoreRequest.lease(claim, 1, Long.MAX_VALUE))))
                        .as("of a lease")
                        .isEqualTo(life);
            }
            assertThat(life(settle(taken, 3, "m-" + round)))
                    .as("of a settlement upwards")
                    .isEqualTo(life);
            assertThat(life(settle(taken, 0, "l-" + round)))
                    .as("of a settlement downwards")
                    .isEqualTo(life);
            store.correct(Refund.of(taken)).block();
            assertThat(life(reconcile(claim, "r-" + round)))
                    .as("of a reconciliation")
                    .isEqualTo(life);
            assertThat(life(restore(claim))).as("of a restoration").isEqualTo(life);
            store.correct(List.of(new RefundCharged(claim, life, clock.millis() + 500)))
                    .block();
            switch (round % 4) {
                case 0 ->
                    store.correct(RefundOldest.of(List.of(claim.withPermits(1_000))))
                            .block();
                case 1 -> {
                    store.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
                    life += (life + 1) % StoreUsage.RESETS - life % StoreUsage.RESETS;
                }
                default -> {}
            }
            assertThat(life(store.take(StoreRequest.peek(List.of(claim)))))
                    .as("of an empty count")
                    .isEqualTo(life);
            // The key lives on: the scripted clock lengthens its time to live.
            pass(List.of(0, 1, 130, 990, 2_100, -40).get(round % 6));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"9/1s", "9/1s counter", "9/1s burst=9", "9/10s burst=30"})
    void anEmptyCountIsUsedLikeAnAbsentOne(String text) {
        Limit limit = Limit.parse(text);
        Claim claim = claim("a", limit);
        StoreDecision taken =
                store.take(StoreRequest.take(List.of(claim.withPermits(9)))).block();
        pass(10);
        for (Runnable emptying : List.<Runnable>of(
                () -> store.correct(Refund.of(taken)).block(),
                () -> store.correct(RefundOldest.of(List.of(claim.withPermits(9))))
                        .block(),
                () -> store.reset(List.of(claim), LimitStore.NO_DEADLINE).block())) {
            emptying.run();
            StoreUsage empty =
                    usage(store.take(StoreRequest.peek(List.of(claim))).block());
            StoreUsage absent = usage(store.take(StoreRequest.peek(List.of(claim("never-" + text, limit))))
                    .block());
            assertThat(empty.used()).isZero();
            assertThat(empty.wholeAt()).isEqualTo(absent.wholeAt());
            assertThat(empty.fitsAt()).isEqualTo(absent.fitsAt());
            assertThat(empty.windows()).isEqualTo(absent.windows());
            assertThat(absent.life()).isZero();
            assertThat(store.take(StoreRequest.take(List.of(claim.withPermits(9))))
                            .block()
                            .isAllowed())
                    .isTrue();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"9/1s", "9/1s counter", "9/1s burst=9", "9/10s burst=30"})
    void aCountThatWasDeletedHasAnotherLife(String text) {
        Claim claim = claim("a", Limit.parse(text));
        int first = life(store.take(StoreRequest.take(List.of(claim))));
        keyspace.commands().del(keyOf(claim));
        pass(1);
        int next = life(store.take(StoreRequest.take(List.of(claim))));
        assertThat(next).isPositive().isNotEqualTo(first);
        assertThat(life(store.take(StoreRequest.take(List.of(claim))))).isEqualTo(next);
    }

    @ParameterizedTest
    @ValueSource(strings = {"9/1s", "9/1s counter", "9/1s burst=9"})
    void peeksDenialsAndRefundsGiveNoLife(String text) {
        Claim claim = claim("a", Limit.parse(text));
        Claim full = claim("a", Limit.perHour(1));
        store.take(StoreRequest.take(List.of(full))).block();
        assertThat(life(store.take(StoreRequest.peek(List.of(claim))))).isZero();
        assertThat(life(store.take(StoreRequest.take(List.of(claim, full))))).isZero();
        assertThat(life(store.take(StoreRequest.take(List.of(claim.withPermits(0))))))
                .isZero();
        store.correct(RefundOldest.of(List.of(claim))).block();
        assertThat(keyspace.onlyKey()).isEqualTo(keyOf(full));
    }

    /** Of two groups in a command, the peek comes first. */
    @Test
    void aPeekBeforeTheFirstTakeInACommandHasNoLife() {
        Claim claim = claim("a", Limit.perHour(9));
        List<Integer> lives = Flux.just(
                        store.take(StoreRequest.peek(List.of(claim))), store.take(StoreRequest.take(List.of(claim))))
                .flatMapSequential(decision -> decision)
                .map(CountLifeTest::life)
                .collectList()
                .block();
        assertThat(lives.get(0)).isZero();
        assertThat(lives.get(1)).isPositive();
    }

    @Test
    void aConcurrencyLimitHasNoLife() {
        Claim claim = claim("a", Limit.concurrent(3));
        assertThat(life(store.take(StoreRequest.take(List.of(claim.withHoldId(new UUID(1, 2)))))))
                .isZero();
        assertThat(life(store.take(StoreRequest.peek(List.of(claim))))).isZero();
    }

    /** Of a decision that several nodes of a cluster have made, and of leased permits. */
    @Test
    void partsOfADecisionKeepTheLife() {
        StoreDecision lease = store.take(StoreRequest.lease(
                        claim("a", Limit.parse("9/1s leased")).withPermits(3), 1, Long.MAX_VALUE))
                .block();
        StoreDecision other = store.take(StoreRequest.take(List.of(claim("b", Limit.perHour(9)))))
                .block();
        assertThat(life(lease)).isPositive();
        assertThat(CombinedDecision.of(
                                List.of(other.claims().get(0), lease.claims().get(0)), List.of(lease, other))
                        .usages())
                .extracting(StoreUsage::life)
                .containsExactly(life(other), life(lease));
    }

    @Test
    void otherStoresHaveNoLives() {
        assertThat(life(LocalStore.bounded(16).take(StoreRequest.take(List.of(claim("a", Limit.perHour(9)))))))
                .isZero();
    }

    /** Microseconds of one remainder each, so that neither is 0 or needs more than 13 bits. */
    @ParameterizedTest
    @CsvSource({"0, 8", "1, 16", "8190, 65528"})
    void theLifeIsTheMicrosecondOfBirth(int remainder, int life) {
        int micros = (int) ((remainder - 1_000 * clock.millis() % 8_191 + 8_191) % 8_191);
        clock.advanceMillis(micros / 1_000);
        scripted.show(clock, micros % 1_000);
        for (String text : List.of("9/1s", "9/1s counter", "9/1s burst=9", "9/10s burst=30")) {
            assertThat(life(store.take(StoreRequest.take(List.of(claim("a", Limit.parse(text)))))))
                    .isEqualTo(life);
            List<Claim> two = List.of(claim("b", Limit.parse(text)), claim("b", Limit.perHour(9)));
            assertThat(store.take(StoreRequest.take(two)).block().usages())
                    .extracting(StoreUsage::life)
                    .containsOnly(life);
        }
    }

    /** Otherwise other instances would take the new life for a loss of data. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "20/1h",
                "20/1h resolution=1m",
                "20/1h leased",
                "20/1h counter",
                "20/1h counter aligned",
                "20/1h burst=20",
                "20/1h burst=3 leased",
                "100000/1h burst=20"
            })
    void noWriteShortensTheTimeToLive(String text) {
        Limit limit = Limit.parse(text);
        for (boolean isFast : new boolean[] {true, false}) {
            try (RedisStore real = RedisStore.builder(client)
                    .namespace(keyspace.namespace() + isFast)
                    .scripts(script -> isFast ? script : ScriptedClock.withoutFastPath(script))
                    .build()) {
                Claim claim = claim("a", limit);
                for (int seed = 0; seed < 15; seed++) {
                    new TimeToLive(real, claim, isFast, new Random(seed)).holds(30);
                    keyspace.commands().del(keyOf(claim, keyspace.namespace() + isFast));
                }
            }
        }
    }

    /** What the key of a count does in random histories. */
    private final class TimeToLive {

        private final RedisStore real;
        private final Claim claim;
        private final String key;
        private final Random random;
        private final List<StoreDecision> taken = new ArrayList<>();

        TimeToLive(RedisStore real, Claim claim, boolean isFast, Random random) {
            this.real = real;
            this.claim = claim;
            this.key = keyOf(claim, keyspace.namespace() + isFast);
            this.random = random;
        }

        void holds(int steps) {
            int life = life(real.take(StoreRequest.take(List.of(claim))));
            long expiry = keyspace.expiryOf(key);
            for (int step = 0; step < steps; step++) {
                String what = change();
                long next = keyspace.expiryOf(key);
                assertThat(next).as(what).isGreaterThanOrEqualTo(expiry - LONGEST_PAUSE);
                expiry = next;
                assertThat(life(real.take(StoreRequest.peek(List.of(claim)))) / StoreUsage.RESETS)
                        .as(what)
                        .isEqualTo(life / StoreUsage.RESETS);
            }
        }

        private String change() {
            Claim some = claim.withPermits(1 + random.nextInt(3));
            int which = random.nextInt(14);
            switch (which) {
                case 0 -> real.correct(RefundOldest.of(List.of(some))).block();
                case 1 ->
                    real.correct(RefundOldest.of(List.of(claim.withPermits(1_000))))
                            .block();
                case 2 -> real.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
                case 3, 4, 5 -> {
                    if (!taken.isEmpty()) {
                        real.correct(Refund.of(taken.remove(random.nextInt(taken.size()))))
                                .block();
                    }
                }
                case 6 -> {
                    Grants ages = new Grants(1_000L * random.nextInt(4_000), 0, 3);
                    reconcile(real, claim, "r-" + random.nextLong(1L << 60), ages);
                }
                case 7 -> {
                    long age = 1_000L * random.nextInt(4_000);
                    long since = keyspace.now() - age;
                    restore(real, claim, "l-" + random.nextLong(1L << 60), since, new Grants(age, age, 4));
                }
                case 8 -> {
                    if (claim.limit().isLeased()) {
                        real.take(StoreRequest.lease(some, 1, Long.MAX_VALUE)).block();
                    }
                }
                default -> {
                    Claim asked = random.nextInt(3) == 0 ? faster(some) : some;
                    StoreDecision decision = Objects.requireNonNull(
                            real.take(StoreRequest.take(List.of(asked))).block());
                    if (decision.isAllowed()) {
                        taken.add(decision);
                    }
                }
            }
            return "after step " + which + " on " + claim.limit();
        }

        /** At a higher rate, a bucket is empty earlier. */
        private Claim faster(Claim some) {
            Limit limit = claim.limit();
            return limit instanceof Limit.Bucket
                    ? claim("a", Limit.bucket(50 * limit.permits(), limit.window(), limit.capacity()))
                            .withPermits(some.permits())
                    : some;
        }
    }

    @Test
    void aResetOfALongLogFreesItsMemory() {
        Claim claim = claim("a", Limit.perHour(1_000));
        for (int i = 0; i < 100; i++) {
            store.take(StoreRequest.take(List.of(claim))).block();
            pass(1);
        }
        assertThat(keyspace.bytes(keyOf(claim))).hasSizeGreaterThan(900);
        store.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        assertThat(keyspace.bytes(keyOf(claim))).hasSize(44);
    }

    /** Redis refuses an empty value as well, so the count is deleted. Its mark is written nevertheless. */
    @ParameterizedTest
    @ValueSource(strings = {"9/1h", "9/1h counter", "9/1h burst=9"})
    void aResetWithoutFreeMemoryDeletesTheCount(String text) {
        try (RedisForTests own = RedisForTests.startOwn();
                RedisStore ownStore = RedisStore.builder(own.uri())
                        .namespace(keyspace.namespace())
                        .build()) {
            RedisClient admin = RedisClient.create(own.uri());
            Keyspace server = new Keyspace(admin);
            Claim claim = claim("a", Limit.parse(text));
            Claim absent = claim("b", Limit.parse(text));
            StoreDecision before = ownStore.take(StoreRequest.take(List.of(claim.withPermits(3))))
                    .block();
            server.commands().configSet("maxmemory", "1");
            ownStore.reset(List.of(absent), LimitStore.NO_DEADLINE).block();
            ownStore.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
            assertThat(server.commands().keys("*")).containsExactlyInAnyOrder(keyOf(claim) + "!", keyOf(absent) + "!");
            server.commands().configSet("maxmemory", "0");
            StoreDecision after =
                    ownStore.take(StoreRequest.take(List.of(claim))).block();
            assertThat(life(after)).isPositive().isNotEqualTo(life(before));
            ownStore.correct(Refund.of(before)).block();
            assertThat(usage(ownStore.take(StoreRequest.peek(List.of(claim))).block())
                            .used())
                    .isOne();
            admin.shutdown();
        }
    }

    private StoreDecision settle(StoreDecision taken, long actual, String id) {
        long deadline = Schedulers.parallel().now(TimeUnit.NANOSECONDS) + 50_000_000_000L;
        return replyOf(store.correct(
                List.of(new Settlement(id, taken.claims().get(0), usage(taken), 0, actual, 1_000, deadline))));
    }

    private StoreDecision reconcile(Claim claim, String id) {
        return reconcile(store, claim, id, new Grants(0, 0, 1));
    }

    private static StoreDecision reconcile(RedisStore store, Claim claim, String id, Grants ages) {
        InstantSource now = InstantSource.system();
        Grants grants = new Grants(now.millis() - ages.fromMillis(), now.millis() - ages.toMillis(), ages.permits());
        return replyOf(store.correct(List.of(Reconciliation.of(id, 1, claim, List.of(grants), List.of(), now))));
    }

    private StoreDecision restore(Claim claim) {
        return restore(store, claim, "l-1", clock.millis(), new Grants(0, 0, 4));
    }

    private static StoreDecision restore(RedisStore store, Claim claim, String id, long since, Grants ages) {
        InstantSource now = InstantSource.system();
        Grants lost = new Grants(now.millis() - ages.fromMillis(), now.millis() - ages.toMillis(), ages.permits());
        return replyOf(store.correct(List.of(Reconciliation.of(
                id, 1, claim, List.of(), List.of(new LostPermits(OTHER_LIFE, since, List.of(lost))), now))));
    }

    /** Returns the reply of a correction, as a decision. */
    private static StoreDecision replyOf(Mono<List<Corrected>> corrected) {
        return CorrectedForTests.asDecision(corrected.block().get(0));
    }

    private static int life(Mono<StoreDecision> decision) {
        return life(decision.block());
    }

    private static int life(@Nullable StoreDecision decision) {
        return usage(decision).life();
    }

    private static StoreUsage usage(@Nullable StoreDecision decision) {
        return Objects.requireNonNull(decision).usages().get(0);
    }
}
