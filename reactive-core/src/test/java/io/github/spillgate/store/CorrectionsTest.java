package io.github.spillgate.store;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal.RenewalOutcome;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.Settlement;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.store.MapStore.Stored;
import io.github.spillgate.testkit.CorrectedForTests;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Sinks;

/** What is decided already, resets, and the registration of instances. */
class CorrectionsTest {

    private static final String LOG = "5/1s";

    private final Map<String, Stored> rows = new ConcurrentHashMap<>();
    private final ManualClock clock = new ManualClock();
    private final HeldMapStore store = new HeldMapStore(rows, clock);

    // Settlements

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s counter aligned", "5/1s burst=5"})
    void aSettlementSentTwiceTakesEffectOnceAndSaysWhatItHasCharged(String limit) {
        StoreDecision taken = take("a", limit, 2);
        Settlement more = settlement("s-1", taken, 4, later());
        assertThat(CorrectedForTests.usages(correct(more)))
                .extracting(Usage::cost)
                .containsExactly(2L);
        List<Corrected> again = correct(more, more);
        assertThat(again).extracting(Corrected::outcome).containsOnly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(CorrectedForTests.usages(again)).extracting(Usage::cost).containsOnly(0L);
        assertThat(used("a", limit)).isEqualTo(4);
        // No more than 10 may be used, so it is not certain how many are charged now.
        assertThat(CorrectedForTests.usages(correct(settlement("s-2", taken, 100, later()))))
                .extracting(Usage::cost)
                .containsExactly(0L);
        assertThat(used("a", limit)).isEqualTo(10);
        Stored mark = requireNonNull(rows.get(claim("a", limit).identity() + "!s-1"));
        assertThat(mark.expiresAt() - clock.millis()).isEqualTo(60_000);
    }

    @Test
    void aSettlementAfterItsDeadlineIsNotPossible() {
        StoreDecision taken = take("a", LOG, 2);
        assertThat(correct(settlement("s-1", taken, 4, Time.nanos() - 1), settlement("s-2", taken, 1, later())))
                .extracting(Corrected::outcome)
                .containsExactly(CorrectionOutcome.NOT_POSSIBLE, CorrectionOutcome.APPLIED);
        assertThat(used("a", LOG)).isEqualTo(1);
    }

    @Test
    void nothingIsSettledOrRefundedAfterAResetAtTheSameTime() {
        StoreDecision before = take("a", LOG, 2);
        store.reset(List.of(claim("a", LOG)), LimitStore.NO_DEADLINE).block();
        clock.advanceMillis(1);
        take("a", LOG, 1);
        assertThat(correct(
                        settlement("s-1", before, 4, later()),
                        new Refund(claim("a", LOG), before.usages().get(0), 0)))
                .extracting(Corrected::outcome)
                .containsOnly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used("a", LOG)).isEqualTo(1);
    }

    /** The count is gone, and the reset writes its mark only: the change of a settlement has the row of that, too. */
    @Test
    void aResetBetweenTheReadAndTheWriteOfASettlementIsNoticed() {
        StoreDecision before = take("a", LOG, 2);
        rows.clear();
        MapStore other = new MapStore(rows, clock);
        Sinks.Empty<Void> gate = store.holdWrites();
        List<Corrected> results = new CopyOnWriteArrayList<>();
        store.correct(List.of(settlement("s-1", before, 4, later()))).subscribe(results::addAll);
        assertThat(store.writes).hasSize(1 + 1);
        other.reset(List.of(claim("a", LOG)), LimitStore.NO_DEADLINE).block();
        gate.tryEmitEmpty();
        await().until(() -> !results.isEmpty());
        assertThat(results).extracting(Corrected::outcome).containsExactly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used("a", LOG)).isZero();
    }

    /** All three wait for the same batch, and so have one time. */
    @Test
    void aDecisionAfterAResetInOneBatchCanBeSettled() {
        Sinks.Empty<Void> gate = store.holdReads();
        List<StoreDecision> decisions = new CopyOnWriteArrayList<>();
        Claim two = claim("a", LOG).withPermits(2);
        store.take(StoreRequest.take(List.of(claim("b", LOG)))).subscribe(decisions::add);
        store.take(StoreRequest.take(List.of(claim("c", LOG)))).subscribe(decisions::add);
        store.take(StoreRequest.take(List.of(two))).subscribe(decisions::add);
        store.reset(List.of(two), LimitStore.NO_DEADLINE).subscribe();
        store.take(StoreRequest.take(List.of(two))).subscribe(decisions::add);
        gate.tryEmitEmpty();
        await().until(() -> decisions.size() == 4);
        List<StoreDecision> ofA = decisions.stream()
                .filter(decision -> decision.claims().contains(two))
                .toList();
        assertThat(correct(settlement("s-1", ofA.get(0), 4, later()), settlement("s-2", ofA.get(1), 3, later())))
                .extracting(Corrected::outcome)
                .containsExactly(CorrectionOutcome.WITHOUT_EFFECT, CorrectionOutcome.APPLIED);
        assertThat(used("a", LOG)).isEqualTo(3);
    }

    // Refunds

    @Test
    void permitsOfALostLifeAreNotRefunded() {
        StoreDecision lost = take("a", LOG, 2);
        rows.clear();
        clock.advanceMillis(1);
        take("a", LOG, 3);
        Claim claim = claim("a", LOG);
        assertThat(correct(
                        new Refund(claim, lost.usages().get(0), 0),
                        new RefundCharged(claim, life(lost), clock.millis() + 500)))
                .extracting(Corrected::outcome)
                .containsOnly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used("a", LOG)).isEqualTo(3);
    }

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s burst=5"})
    void chargedPermitsAreRefundedUntilTheyMayHaveLeftTheWindow(String limit) {
        StoreDecision taken = take("a", limit, 3);
        Claim one = claim("a", limit);
        long until = clock.millis() + LimitKind.reach(one.limit());
        assertThat(correct(new RefundCharged(one, life(taken), until)))
                .containsExactly(Corrected.of(CorrectionOutcome.APPLIED));
        assertThat(used("a", limit)).isEqualTo(2);
        assertThat(correct(new RefundCharged(one, life(taken), clock.millis())))
                .containsExactly(Corrected.of(CorrectionOutcome.WITHOUT_EFFECT));
        assertThat(used("a", limit)).isEqualTo(2);
    }

    // Holds

    @Test
    void aReconciliationRenewsHoldsAndRestoresUnknownOnes() {
        Claim known = claim("a", "3 concurrent").withHoldId(UUID.randomUUID());
        Claim unknown = known.withHoldId(UUID.randomUUID()).withPermits(2);
        store.take(StoreRequest.take(List.of(known))).block();
        clock.advanceMillis(1_000);
        List<Claim> holds = new ArrayList<>(List.of(known, unknown));
        Reconciliation both = Reconciliation.ofHolds("r-1", 1, known, holds, clock);
        StoreUsage usage = requireNonNull(correct(both).get(0).usage());
        assertThat(usage.used()).isEqualTo(3);
        assertThat(usage.wholeAt().toEpochMilli())
                .isEqualTo(clock.millis() + known.limit().holdTime().toMillis());
        holds.clear();
        assertThat(correct(both)).containsExactly(Corrected.of(CorrectionOutcome.WITHOUT_EFFECT));
    }

    // Reconciliations of rate limits

    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s burst=5"})
    void aReconciliationIsChargedOnceInALife(String limit) {
        Claim claim = claim("a", limit);
        List<Grants> grants = List.of(new Grants(clock.millis() - 10, clock.millis() - 10, 7));
        Reconciliation one = Reconciliation.of("s-1", 3, claim, grants, List.of(), clock);
        assertThat(outcomes(one)).containsExactly(CorrectionOutcome.APPLIED);
        long used = used("a", limit);
        assertThat(used).isEqualTo(7);
        assertThat(outcomes(one)).containsExactly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(outcomes(Reconciliation.of("s-1", 2, claim, grants, List.of(), clock)))
                .containsExactly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used("a", limit)).isEqualTo(used);
        assertThat(outcomes(Reconciliation.of("s-2", 1, claim, grants, List.of(), clock)))
                .containsExactly(CorrectionOutcome.APPLIED);
        rows.remove(claim.identity());
        clock.advanceMillis(1);
        assertThat(outcomes(one)).containsExactly(CorrectionOutcome.APPLIED);
        assertThat(used("a", limit)).isEqualTo(7);
    }

    /** Two instances know of the same lost permits. */
    @ParameterizedTest
    @ValueSource(strings = {"5/1s", "5/1s counter", "5/1s burst=5"})
    void lostPermitsAreRestoredOnceAndNotAfterAReset(String limit) {
        StoreDecision taken = take("a", limit, 3);
        Claim claim = claim("a", limit);
        List<Grants> known = List.of(new Grants(clock.millis(), clock.millis(), 3));
        List<LostPermits> lost = List.of(new LostPermits(life(taken), clock.millis(), known));
        rows.clear();
        clock.advanceMillis(1);
        take("a", limit, 1);
        assertThat(outcomes(Reconciliation.of("s-1", 1, claim, List.of(), lost, clock)))
                .containsExactly(CorrectionOutcome.APPLIED);
        assertThat(outcomes(Reconciliation.of("s-2", 1, claim, List.of(), lost, clock)))
                .containsExactly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used("a", limit)).isEqualTo(4);
        rows.clear();
        clock.advanceMillis(1);
        store.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        take("a", limit, 1);
        assertThat(outcomes(Reconciliation.of("s-1", 2, claim, List.of(), lost, clock)))
                .containsExactly(CorrectionOutcome.WITHOUT_EFFECT);
        assertThat(used("a", limit)).isEqualTo(1);
    }

    // Foreign values

    @Test
    void aForeignValueIsLeftAloneUntilAReset() {
        StoreDecision taken = take("a", LOG, 1);
        Claim claim = claim("a", LOG);
        Claim hold = claim("a", "3 concurrent").withHoldId(UUID.randomUUID());
        Stored foreign = new Stored(new byte[] {1, 2, 3}, 99, Long.MAX_VALUE);
        rows.put(claim.identity(), foreign);
        rows.put(hold.identity(), foreign);
        assertThatThrownBy(() -> store.take(StoreRequest.take(List.of(claim("b", LOG), claim)))
                        .block())
                .is(kind(Kind.FOREIGN_VALUE))
                .hasMessageContainingAll(claim.identity(), "HeldMapStore", "not written by Spillgate", "delete it");
        assertThat(used("b", LOG)).isZero();
        assertThat(correct(new Refund(claim, taken.usages().get(0), 0), settlement("s-1", taken, 3, later())))
                .extracting(Corrected::outcome)
                .containsOnly(CorrectionOutcome.NOT_POSSIBLE);
        assertThat(store.hold(List.of(hold), HoldAction.RENEW).block())
                .extracting(renewal -> renewal.outcome())
                .containsExactly(RenewalOutcome.FOREIGN);
        assertThat(rows).containsEntry(claim.identity(), foreign).containsEntry(hold.identity(), foreign);
        store.reset(List.of(claim, hold), LimitStore.NO_DEADLINE).block();
        assertThat(rows).doesNotContainKeys(claim.identity(), hold.identity());
    }

    // Resets

    @Test
    void aResetAfterItsDeadlineClearsNothing() {
        take("a", LOG, 2);
        assertThatThrownBy(() ->
                        store.reset(List.of(claim("a", LOG)), Time.nanos() - 1).block())
                .is(kind(Kind.LATE));
        assertThat(used("a", LOG)).isEqualTo(2);
    }

    @Test
    void aResetOfNothingCompletes() {
        assertThat(store.reset(List.of(), LimitStore.NO_DEADLINE).block()).isNull();
        assertThat(store.reads).isEmpty();
    }

    @Test
    void aResetKeepsTheLifeAndTheExpiryOfACount() {
        StoreDecision taken = take("a", LOG, 2);
        Claim claim = claim("a", LOG);
        long expiresAt = requireNonNull(rows.get(claim.identity())).expiresAt();
        store.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        assertThat(requireNonNull(rows.get(claim.identity())).expiresAt()).isEqualTo(expiresAt);
        assertThat(life(take("a", LOG, 1))).isEqualTo(life(taken) + 1);
    }

    // Helpers

    private static int life(StoreDecision decision) {
        return decision.usages().get(0).life();
    }

    private static long later() {
        return Time.nanos() + Duration.ofSeconds(50).toNanos();
    }

    private static Settlement settlement(String id, StoreDecision taken, long actual, long deadline) {
        Claim claim = taken.claims().get(0);
        return new Settlement(
                id, claim, taken.usages().get(0), 0, actual, 2 * claim.limit().capacity(), deadline);
    }

    private static Claim claim(String key, String limit) {
        return DecidedClaims.of(requireNonNull(Unprotected.limiter(LocalStore.bounded(16))
                        .peek(Charge.of(key, Limit.parse(limit)))
                        .block()))
                .get(0);
    }

    private List<Corrected> correct(Correction... corrections) {
        return requireNonNull(store.correct(Arrays.asList(corrections)).block());
    }

    private List<CorrectionOutcome> outcomes(Correction correction) {
        return correct(correction).stream().map(Corrected::outcome).toList();
    }

    private StoreDecision take(String key, String limit, long permits) {
        StoreDecision taken = requireNonNull(
                store.take(StoreRequest.take(List.of(claim(key, limit).withPermits(permits))))
                        .block());
        assertThat(taken.isAllowed()).isTrue();
        return taken;
    }

    private long used(String key, String limit) {
        return requireNonNull(new MapStore(rows, clock)
                        .take(StoreRequest.peek(List.of(claim(key, limit))))
                        .block())
                .usages()
                .get(0)
                .used();
    }
}
