package io.github.spillgate.failover.lease;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.ClaimForTests;
import io.github.spillgate.testkit.ManualClock;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** A lease of 10 of 1,000 permits a minute, which were charged at 0, 3 ms after the request was sent. */
class LeaseTest {

    private static final Limit LIMIT = Limit.perMinute(1_000).leased();
    private static final long SENT = 7_000_000_000L;
    private static final long WALL = 1_800_000_000_000L;
    private static final long MILLI = 1_000_000;

    private final ManualClock clock = new ManualClock();
    private final Claim one = ClaimForTests.of("a", LIMIT);
    private final long chargedAt = clock.millis();
    private final Lease lease = new Lease(charge(), SENT, WALL);

    @Test
    void permitsAreSpentOneAfterAnother() {
        for (int left = 9; left >= 0; left--) {
            StoreUsage spent = requireNonNull(spend(one, 5 * MILLI));
            assertThat(spent.used()).isEqualTo(10 - left);
            assertThat(spent.remaining()).isEqualTo(990 + left);
            assertThat(spent.fitsAt()).isEqualTo(clock.instant().plusMillis(5));
        }
        assertThat(spend(one, 5 * MILLI)).isNull();
    }

    /** The time of a decision is at most the time at which the permits are charged. */
    @Test
    void theLeaseTimeCountsFromTheRequest() {
        assertThat(requireNonNull(spend(one, 100 * MILLI - 1)).fitsAt())
                .isEqualTo(clock.instant().plusMillis(99));
        assertThat(spend(one, 100 * MILLI)).isNull();
        assertThat(lease.has(9, SENT + 100 * MILLI - 1)).isTrue();
        assertThat(lease.has(10, SENT + 100 * MILLI - 1)).isFalse();
        assertThat(lease.has(0, SENT + 100 * MILLI)).isFalse();
    }

    /** Of two resets at the same time, the earlier may be noted last. */
    @Test
    void theLatestResetCounts() {
        LeasedKey key = new LeasedKey("a", 0);
        key.reset(20);
        key.reset(10);
        assertThat(key.isResetSince(15)).isTrue();
        assertThat(key.isResetSince(20)).isFalse();
    }

    @Test
    void aRefundOfADecisionIsOneOfItsLease() {
        Reply reply = new Reply(Source.LEASE, chargedAt);
        StoreDecision made = StoreDecision.ofTake(reply, List.of(requireNonNull(spend(one.withPermits(3), MILLI))));
        Refund refund = Refund.of(made).get(0);
        assertThat(refund.claim().permits()).isEqualTo(3);
        assertThat(refund.usage()).isEqualTo(lease.refund(3).usage());
        assertThat(refund.usage().chargedAt()).isEqualTo(chargedAt + 100);
        assertThat(refund.usage().reply().stamp()).isEqualTo(1);
    }

    /** The monotonic clock may stand still while a machine is suspended. */
    @Test
    void theWallClockMustAgree() {
        assertThat(lease.spend(one, SENT + 5 * MILLI, WALL + 102)).isNull();
        assertThat(lease.spend(one, SENT + 5 * MILLI, WALL - 1)).isNull();
        assertThat(lease.spend(one, SENT + 5 * MILLI, WALL + 101)).isNotNull();
    }

    /** A limit that was lowered has to be checked by the store. */
    @Test
    void anotherLimitSpendsNothing() {
        assertThat(spend(ClaimForTests.of("a", Limit.perMinute(999).leased()), MILLI))
                .isNull();
        assertThat(spend(ClaimForTests.of("a", Limit.perMinute(1_000)), MILLI)).isNull();
    }

    @Test
    void aCostAboveTheRestSpendsNothing() {
        assertThat(spend(one.withPermits(11), MILLI)).isNull();
        assertThat(spend(one.withPermits(8), MILLI)).isNotNull();
        assertThat(spend(one.withPermits(3), MILLI)).isNull();
        assertThat(spend(one.withPermits(2), MILLI)).isNotNull();
    }

    /** A request without a cost is not granted by a lease without permits: the limit may be exceeded. */
    @Test
    void aRequestWithoutACostNeedsAPermit() {
        assertThat(spend(one.withPermits(0), MILLI)).isNotNull();
        assertThat(spend(one.withPermits(10), MILLI)).isNotNull();
        assertThat(spend(one.withPermits(0), MILLI)).isNull();
    }

    @Test
    void theEndReturnsWhatIsLeftOnce() {
        spend(one.withPermits(4), MILLI);
        assertThat(lease.unspend(1)).isTrue();
        assertThat(lease.end()).isEqualTo(7);
        assertThat(lease.end()).isZero();
        assertThat(spend(one, MILLI)).isNull();
        assertThat(lease.unspend(1)).isFalse();
    }

    private @Nullable StoreUsage spend(Claim claim, long nanos) {
        return lease.spend(claim, SENT + nanos, WALL + nanos / MILLI);
    }

    private StoreDecision charge() {
        Reply reply = new Reply(Source.REDIS, chargedAt, 1);
        StoreUsage usage = StoreUsage.of(
                reply,
                one.withPermits(10),
                10,
                false,
                chargedAt,
                chargedAt + Duration.ofMinutes(1).toMillis() + 101);
        return StoreDecision.ofLease(reply, usage);
    }
}
