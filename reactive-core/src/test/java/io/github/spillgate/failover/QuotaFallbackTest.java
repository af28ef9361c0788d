package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.store.LastingMapStore;
import io.github.spillgate.testkit.ClaimForTests;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A quota during an outage and after it. The clock of the store is five seconds ahead of that of the instance. */
class QuotaFallbackTest extends LocalFallbackFixture {

    private static final Instant START = Instant.parse("2026-09-30T00:00:00Z");
    private static final Instant BOUNDARY = Instant.parse("2026-10-01T00:00:00Z");
    private static final long AHEAD = 5_000;

    private final Limit plan = Limit.daily(10).named("plan");

    /** At 15:00 UTC, which is midnight there, another period would begin. */
    private final Limit inTokyo = Limit.daily(10).in(ZoneId.of("Asia/Tokyo")).named("plan");

    private LastingMapStore primary = newPrimary();

    private LastingMapStore newPrimary() {
        return new LastingMapStore(() -> 1_000 * (clock.millis() + AHEAD));
    }

    private void storeIsAt(Instant time) {
        clock.set(time.toEpochMilli() - AHEAD);
    }

    private static Claim claim(Limit limit, long permits) {
        return ClaimForTests.of("k", limit).withPermits(permits);
    }

    private void takeInPrimary(Limit limit, long permits) {
        long sentAt = Time.nanos();
        store.confirm(now(primary.take(StoreRequest.take(List.of(claim(limit, permits))))), sentAt);
    }

    private StoreDecision take(Limit limit, long permits) {
        return now(store.take(StoreRequest.take(List.of(claim(limit, permits)))));
    }

    private List<Reconciliation> handOver() {
        return way.handOver(10, any -> false);
    }

    private RefundCharged deliver(Reconciliation one) {
        Corrected result = requireNonNull(primary.correct(List.of(one)).block()).get(0);
        return way.charged(one, result);
    }

    private Usage usageInPrimary(Limit limit) {
        return now(primary.take(StoreRequest.peek(List.of(claim(limit, 0)))))
                .limits()
                .get(0);
    }

    @Test
    void theBoundaryIsThatOfTheClockOfTheStore() {
        storeIsAt(BOUNDARY.minusSeconds(10));
        takeInPrimary(plan, 10);
        storeIsAt(BOUNDARY.minusMillis(1));
        StoreDecision denied = take(plan, 1);
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).contains(Duration.ofMillis(1));
        storeIsAt(BOUNDARY);
        assertThat(take(plan, 10).isAllowed()).isTrue();
        assertThat(take(plan, 1).isAllowed()).isFalse();
    }

    /** Also on a key that the store has not replied about. */
    @Test
    void theGrantsEndAtTheBoundaryOfTheStore() {
        storeIsAt(BOUNDARY.minusSeconds(10));
        takeInPrimary(Limit.daily(10).named("other"), 1);
        assertThat(take(plan, 10).isAllowed()).isTrue();
        storeIsAt(BOUNDARY.minusMillis(1));
        assertThat(take(plan, 1).retryAfter()).contains(Duration.ofMillis(1));
        storeIsAt(BOUNDARY);
        assertThat(take(plan, 10).isAllowed()).isTrue();
    }

    @Test
    void grantsFromBeforeABoundaryAreDropped() {
        storeIsAt(BOUNDARY.minusSeconds(10));
        takeInPrimary(plan, 1);
        take(plan, 4);
        storeIsAt(BOUNDARY);
        assertThat(handOver()).isEmpty();
        assertThat(usageInPrimary(plan).used()).isZero();
    }

    @Test
    void grantsThatCrossTheBoundaryOnTheirWayAreDropped() {
        storeIsAt(BOUNDARY.minusMillis(1));
        takeInPrimary(plan, 1);
        take(plan, 4);
        Reconciliation sent = handOver().get(0);
        storeIsAt(BOUNDARY);
        deliver(sent);
        assertThat(usageInPrimary(plan).used()).isZero();
        assertThat(take(plan, 10).isAllowed()).isTrue();
    }

    /** Although the calendar of the instance has another boundary in between. */
    @Test
    void aHandOverHasThePeriodOfTheStore() {
        storeIsAt(START.plus(Duration.ofHours(14)));
        takeInPrimary(plan, 3);
        takeInPrimary(inTokyo, 1);
        take(inTokyo, 2);
        storeIsAt(START.plus(Duration.ofHours(16)));
        assertThat(take(inTokyo, 5).isAllowed()).isFalse();
        Reconciliation handOver = handOver().get(0);
        assertThat(handOver.grants()).containsExactly(new Grants(START.toEpochMilli(), BOUNDARY.toEpochMilli(), 2));
        deliver(handOver);
        assertThat(usageInPrimary(inTokyo).used()).isEqualTo(6);
    }

    @Test
    void aRestorationHasThePeriodOfTheStore() {
        storeIsAt(START.plus(Duration.ofHours(14)));
        takeInPrimary(plan, 6);
        primary = newPrimary();
        storeIsAt(START.plus(Duration.ofHours(16)));
        takeInPrimary(inTokyo, 0);
        Reconciliation restoring = handOver().get(0);
        assertThat(restoring.lost())
                .flatExtracting(LostPermits::grants)
                .containsExactly(new Grants(START.toEpochMilli(), BOUNDARY.toEpochMilli(), 6));
        deliver(restoring);
        assertThat(usageInPrimary(inTokyo).used()).isEqualTo(6);
        assertThat(usageInPrimary(inTokyo).wholeAt()).isEqualTo(BOUNDARY);
    }

    @Test
    void aChargedGrantIsRefundedWithinItsPeriodOnly() {
        storeIsAt(BOUNDARY.minusSeconds(10));
        StoreDecision granted = take(plan, 4);
        deliver(handOver().get(0));
        RefundCharged refund = LocalFallbackFixture.refundGrants(store, granted).get(0);
        assertThat(refund.until()).isEqualTo(BOUNDARY.toEpochMilli());
        storeIsAt(BOUNDARY);
        now(primary.take(StoreRequest.take(List.of(claim(plan, 4)))));
        primary.correct(List.of(refund)).block();
        assertThat(usageInPrimary(plan).used()).isEqualTo(4);
    }

    @Test
    void aGrantThatIsRefundedOnItsWayIsRefundedInTheStore() {
        storeIsAt(BOUNDARY.minusSeconds(10));
        StoreDecision granted = take(plan, 4);
        Reconciliation sent = handOver().get(0);
        assertRefundedInThePrimary(granted);
        RefundCharged refund = requireNonNull(deliver(sent));
        primary.correct(List.of(refund)).block();
        assertThat(usageInPrimary(plan).used()).isZero();
    }
}
