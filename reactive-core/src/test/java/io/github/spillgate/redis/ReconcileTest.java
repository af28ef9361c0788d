package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.DecidedClaims;
import io.lettuce.core.cluster.SlotHash;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What was admitted elsewhere is charged once, at its time, and each reconciliation for itself. {@link
 * ReconcileOracleTest} compares each reply with a model.
 */
class ReconcileTest extends ScriptedFixture {

    private static final Limit LOG = Limit.parse("5/1s");
    private static final Limit COUNTER = Limit.parse("5/1s counter");
    private static final Limit HOLDS = Limit.parse("10 concurrent");

    /** A message that was stuck must not be charged again after a later one, and one source needs one mark. */
    @ParameterizedTest
    @ValueSource(strings = {"9/1s", "9/1s counter", "9/1s burst=9"})
    void anEarlierNumberOfTheSameSourceIsNotChargedAgain(String text) {
        Limit limit = Limit.parse(text);
        Reconciliation first = reconciliation("a-1", limit, ago(0, 1));
        reconcile(first);
        reconcile(reconciliation("a-2", limit, ago(0, 2)));
        assertThat(keyspace.keys()).hasSize(2);
        assertThat(charge(first).outcome()).isEqualTo(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used(reconcile(reconciliation("b-1", limit, ago(0, 4))))).containsExactly(7L);
        assertThat(keyspace.keys()).hasSize(3);
    }

    @Test
    void theMarkLivesForAnHourAtMost() {
        reconcile(reconciliation("a-1", Limit.parse("5/1d"), ago(0, 1)));
        reconcile(reconciliation("b-1", Limit.parse("5/1d burst=100"), ago(0, 1)));
        assertThat(ttl("!a")).isBetween(1_000L + 3_599_000, 1_000L + 3_600_000);
        assertThat(ttl("!b")).isBetween(1_000L + 3_599_000, 1_000L + 3_600_000);
    }

    @Test
    void theHoldsOfEachCountAreReconciledAlthoughAnotherCountIsForeign() {
        Claim one = claim("a", HOLDS);
        Claim other = claim("b", HOLDS);
        Claim foreign = claim("c", HOLDS);
        keyspace.commands().set(keyOf(foreign), "foreign");
        List<Corrected> results = store.correct(
                        List.of(holds("a-1", one, 1, 2), holds("c-1", foreign, 1), holds("b-1", other, 3, 4, 5)))
                .block();
        assertThat(results)
                .extracting(Corrected::outcome)
                .containsExactly(CorrectionOutcome.APPLIED, CorrectionOutcome.NOT_POSSIBLE, CorrectionOutcome.APPLIED);
        assertThat(used(results)).containsExactly(3L, 12L);
        assertThat(List.of(used("a", HOLDS), used("b", HOLDS))).containsExactly(3L, 12L);
        assertThat(keyspace.commands().get(keyOf(foreign))).isEqualTo("foreign");
    }

    @Test
    void theAgesThatWereSentAreRemembered() {
        Reconciliation one = reconciliation("a-1", LOG, ago(100, 2));
        charge(one);
        pass(50);
        assertThat(one.ages(one.grants())).containsExactly(new Grants(150, 150, 2));
        assertThat(one.sentAges()).containsExactly(new Grants(100, 100, 2));
    }

    /** Otherwise sending it again would charge it again. The scripted clock makes seconds of milliseconds. */
    @Test
    void theMarkLivesUntilTheSlotOfTheNewestHitExpires() {
        List<Corrected> reconciled = reconcile(reconciliation("a-1", Limit.parse("5/30m resolution=5m"), ago(0, 3)));
        long counts = CorrectedForTests.usages(reconciled).get(0).wholeAt().toEpochMilli() - clock.millis();
        assertThat(ttl("!a")).isBetween(1_000 + counts - 60, 1_000 + counts);
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned"})
    void expiredGrantsAndThoseOfNoPermitsWriteNothing(String text) {
        Limit limit = Limit.parse(text);
        assertThat(used(reconcile(reconciliation("a-1", limit, ago(5_000, 2), ago(2_001, 3)))))
                .containsExactly(0L);
        assertThat(used(reconcile(reconciliation("a-2", limit, ago(5, 0), ago(0, 0)))))
                .containsExactly(0L);
        assertThat(keyspace.keys()).isEmpty();
    }

    /** Else a client would be kept out until the clock has caught up. */
    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned"})
    void futureHitsMoveToNowEvenIfNothingIsCharged(String text) {
        Limit limit = Limit.parse(text);
        take(limit, 3);
        Reconciliation hasLeft = reconciliation("a-1", limit, ago(15_000, 1));
        pass(-10_000);
        assertThat(used(reconcile(hasLeft))).containsExactly(3L);
        pass(2_000);
        assertThat(used(limit)).isZero();
    }

    @Test
    void theMarkLivesAsLongAsItsGrantsCount() {
        reconcile(reconciliation("a-1", LOG, ago(700, 2), ago(300, 1)));
        reconcile(reconciliation("b-1", COUNTER, ago(300, 1)));
        // The scripted clock makes everything live for as many seconds as production does milliseconds, and a thousand
        // more.
        assertThat(ttl("!a")).isBetween(1_000L + 600, 1_000L + 701);
        assertThat(ttl("!b")).isBetween(1_000L + 1_900, 1_000L + 2_000);
        assertThat(keyspace.keys())
                .hasSize(4)
                .allMatch(key -> keyspace.commands().ttl(key) > 0);
    }

    @Test
    void theMarkLiesInTheSlotOfItsCount() {
        reconcile(reconciliation("a-1", LOG, ago(0, 1)));
        assertThat(keyspace.keys().stream().map(SlotHash::getSlot).distinct()).hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter"})
    void aForeignValueIsLeftAsItIsAndItsNeighboursAreCharged(String text) {
        Limit limit = Limit.parse(text);
        take(limit, 1);
        String key = keyspace.onlyKey();
        for (Runnable foreign : List.<Runnable>of(
                () -> keyspace.commands().set(key, "hello"),
                () -> keyspace.commands().set(key, "sgL" + "\1".repeat(5_000)),
                () -> keyspace.commands().rpush(key, "a"))) {
            keyspace.commands().del(key);
            foreign.run();
            byte[] before = keyspace.commands().dump(key);
            Reconciliation one = Reconciliation.of("f", 1, claim("b", limit), List.of(ago(0, 1)), List.of(), clock);
            Reconciliation other = Reconciliation.of("f", 3, claim("c", limit), List.of(ago(0, 2)), List.of(), clock);
            keyspace.keys().stream().filter(each -> !each.equals(key)).forEach(keyspace.commands()::del);
            List<Corrected> reconciled = reconcile(one, foreignClaim("f-2", limit), other);
            assertThat(reconciled)
                    .extracting(Corrected::outcome)
                    .containsExactly(
                            CorrectionOutcome.APPLIED, CorrectionOutcome.NOT_POSSIBLE, CorrectionOutcome.APPLIED);
            assertThat(used(reconciled)).containsExactly(1L, 2L);
            assertThat(keyspace.commands().dump(key)).isEqualTo(before);
            assertThat(keyspace.keys()).noneMatch(each -> each.endsWith("!f-2"));
        }
    }

    @Test
    void aFullLogGetsNoMoreEntriesAndErrsTowardsDenying() {
        Limit limit = Limit.parse("10000/24h counting-denied");
        List<Grants> grants = new ArrayList<>();
        for (long ago = 20_002; ago > 0; ago -= 2) {
            grants.add(ago(ago + 1, 3));
        }
        reconcile(reconciliation("a-1", limit, grants.toArray(Grants[]::new)));
        assertThat(log().slots()).hasSize(9_999);
        reconcile(reconciliation("a-2", limit, ago(30_000, 1), ago(20_001, 1), ago(20_000, 1), ago(2, 1), ago(0, 1)));
        StoredLog.checkAll(keyspace);
        StoredLog log = log();
        assertThat(log.slots()).hasSize(9_999);
        assertThat(log.used()).isEqualTo(30_008);
        assertThat(log.slots().get(0)).isEqualTo(clock.millis() - 20_003);
        assertThat(log.counts().subList(0, 3)).containsExactly(4L, 4L, 4L);
        assertThat(log.newest()).isEqualTo(clock.millis());
        assertThat(log.count()).isEqualTo(8);
        pass(1);
        for (int i = 0; i < 3; i++) {
            pass(1);
            assertThat(limiter.tryAcquire(Charge.of("a", limit)).block().isAllowed())
                    .isFalse();
        }
        StoredLog.checkAll(keyspace);
        assertThat(log().slots()).hasSizeLessThan(10_000);
        assertThat(log().newest()).isEqualTo(clock.millis());
        assertThat(log().used()).isEqualTo(30_008);
    }

    @Test
    void grantsBeyondTheCapacityOfALogDropTheOldest() {
        Limit limit = Limit.parse("4294967295/1s resolution=1ms");
        reconcile(reconciliation("a-1", limit, ago(500, 4_000_000_000L), ago(400, 9)));
        assertThat(used(reconcile(reconciliation("a-2", limit, ago(450, 1_000_000_000L), ago(0, 6)))))
                .containsExactly(4_294_967_295L);
        StoredLog.checkAll(keyspace);
        assertThat(log().counts()).containsExactly(4_294_967_295L - 9 - 1_000_000_000L - 6, 1_000_000_000L, 9L);
        assertThat(used(reconcile(reconciliation("a-3", limit, ago(0, 90_000_000_000L)))))
                .containsExactly(4_294_967_295L);
        assertThat(log().count()).isEqualTo(4_294_967_295L);
    }

    /** A bucket has a thousand units for each permit. */
    @ParameterizedTest
    @CsvSource({"1000000000000000/1s counter, 9007199254740991", "5/1s burst=5, 9007199254741"})
    void aCountHoldsNoMoreThanDoublesCanTell(String text, long expected) {
        Limit limit = Limit.parse(text);
        long most = (1L << 53) - 1;
        for (String id : List.of("a-1", "a-2")) {
            assertThat(used(reconcile(reconciliation(id, limit, ago(0, most), ago(0, most)))))
                    .containsExactly(expected);
        }
        pass(1_000);
        assertThat(used(reconcile(reconciliation("a-3", limit, ago(1, most))))).containsExactly(expected);
    }

    @Test
    void agesAreComputedOnSubscription() {
        var later = store.correct(List.of(reconciliation("a-1", LOG, ago(0, 2))));
        pass(1_001);
        assertThat(used(later.block())).containsExactly(0L);
    }

    // Refunds of what was charged

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned"})
    void permitsChargedBeforeAResetAreNotRefunded(String text) {
        Limit limit = Limit.parse(text);
        Corrected charged = charge(reconciliation("a-1", limit, ago(0, 3)));
        limiter.reset(Charge.of("a", limit)).block();
        take(limit, 4);
        refund(charged, 2, 1_000);
        assertThat(used(limit)).isEqualTo(4);
    }

    @Test
    void permitsChargedAfterAResetAreRefunded() {
        limiter.reset(Charge.of("a", LOG)).block();
        pass(1);
        Corrected charged = charge(reconciliation("a-1", LOG, ago(0, 3)));
        refund(charged, 2, 1_000);
        assertThat(used(LOG)).isEqualTo(1);
    }

    @Test
    void permitsAreNotRefundedOnceTheyMayHaveExpired() {
        Corrected charged = charge(reconciliation("a-1", LOG, ago(900, 2)));
        pass(99);
        take(LOG, 3);
        refund(charged, 1, 100);
        assertThat(used(LOG)).isEqualTo(4);
        pass(1);
        refund(charged, 1, 100);
        assertThat(used(LOG)).isEqualTo(4);
        pass(1);
        assertThat(used(LOG)).isEqualTo(3);
    }

    // What is done and asked

    private Corrected charge(Reconciliation reconciliation) {
        return store.correct(List.of(reconciliation)).block().get(0);
    }

    private void refund(Corrected charged, long permits, long millis) {
        StoreUsage usage = CorrectedForTests.usageOf(charged);
        Claim claim = usage.claim().withPermits(permits);
        store.correct(List.of(
                        new RefundCharged(claim, usage.life(), usage.reply().at() + millis)))
                .block();
    }

    private Grants ago(long millis, long permits) {
        return new Grants(clock.millis() - millis, clock.millis() - millis, permits);
    }

    private static String source(String id) {
        return id.substring(0, 1);
    }

    private static long number(String id) {
        return Long.parseLong(id.substring(2));
    }

    private Reconciliation reconciliation(String id, Limit limit, Grants... grants) {
        return Reconciliation.of(source(id), number(id), claim("a", limit), List.of(grants), List.of(), clock);
    }

    private Reconciliation holds(String id, Claim claim, long... permits) {
        List<Claim> holds = LongStream.of(permits)
                .mapToObj(each -> claim.withPermits(each).withHoldId(UUID.randomUUID()))
                .toList();
        return Reconciliation.ofHolds(source(id), number(id), claim, holds, clock);
    }

    private Reconciliation foreignClaim(String id, Limit limit) {
        RateLimiter other = RateLimiter.builder("api")
                .store(scripted.store(client, keyspace.namespace() + "-elsewhere", false))
                .build();
        Claim claim =
                DecidedClaims.of(other.peek(Charge.of("a", limit)).block()).get(0);
        return Reconciliation.of(source(id), number(id), claim, List.of(ago(0, 1)), List.of(), clock);
    }

    private List<Corrected> reconcile(Reconciliation... reconciliations) {
        return store.correct(Arrays.asList(reconciliations)).block();
    }

    private void take(Limit limit, long permits) {
        assertThat(limiter.tryAcquire(Charge.of("a", limit).permits(permits))
                        .block()
                        .isAllowed())
                .isTrue();
    }

    private long used(Limit limit) {
        return used("a", limit);
    }

    private long ttl(String end) {
        return keyspace.commands().ttl(keyspace.keyEndingWith(end));
    }

    private StoredLog log() {
        return StoredLog.parse(keyspace.bytes(keyspace.countKey()));
    }
}
