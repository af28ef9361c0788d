package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a ledger restores if the primary store has lost data, and then charges grants of the fallback. For the store,
 * the time of a grant is that of the request less the age in it. If that is after the last reply from before the loss,
 * the store has the grant in addition to what is restored. Otherwise the grant has to be restored as well.
 */
class LedgerLossTest extends LocalFallbackFixture {

    private static final long HOUR = 3_600_000;
    private static final long LOST = 10;
    private static final long GRANTED = 3;

    private final List<LostPermits> restored = new ArrayList<>();

    /** The usage that was lost last. */
    private @Nullable ConfirmedUsage missing;

    @ParameterizedTest
    @ValueSource(strings = {"100/1h", "100/1h burst=100"})
    void aLateReplyDoesNotMakeGrantsOlder(String limit) {
        RateLedger ledger = ledger(limit);
        confirmUsage(ledger);
        clock.advanceMillis(5);
        ledger.take(GRANTED);
        Reconciliation sent = handOver(ledger);
        sent.agesToSend();
        clock.advanceMillis(1);
        long executedAt = clock.millis();
        clock.advanceMillis(50);
        reply(ledger, sent, executedAt, 1);
        assertThat(restoredPermits()).isEqualTo(LOST);
    }

    /** A server that does not know the script executes nothing, and the request is sent again. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h", "100/1h burst=100"})
    void ofRepeatedRequestsTheLastOneCounts(String limit) {
        RateLedger ledger = ledger(limit);
        ledger.take(GRANTED);
        Reconciliation sent = handOver(ledger);
        clock.advanceMillis(1);
        confirmUsage(ledger);
        sent.agesToSend();
        clock.advanceMillis(50);
        sent.agesToSend();
        reply(ledger, sent, clock.millis(), 1);
        assertThat(restoredPermits()).isEqualTo(LOST + GRANTED);
    }

    /** The first request was executed at once, and its reply lost. The second one took 50 ms. */
    @ParameterizedTest
    @ValueSource(strings = {"100/1h", "100/1h burst=100"})
    void grantsThatAnEarlierRequestHasChargedCountFromTheEarliestTime(String limit) {
        RateLedger ledger = ledger(limit);
        ledger.take(GRANTED);
        Reconciliation sent = handOver(ledger);
        clock.advanceMillis(1);
        confirmUsage(ledger);
        sent.agesToSend();
        clock.advanceMillis(1_000);
        sent.agesToSend();
        clock.advanceMillis(50);
        reply(ledger, sent, clock.millis(), 0);
        assertThat(restoredPermits()).isEqualTo(LOST + GRANTED);
    }

    /** The oldest permits are those of the time of the refund, not of the last reply. */
    @Test
    void aRefundOfTheOldestPermitsIsNoLoss() {
        RateLedger ledger = ledger("100/1m");
        confirmUsage(ledger, LOST);
        clock.advanceMillis(50_000);
        confirmUsage(ledger, 2 * LOST);
        // The first ones have expired.
        clock.advanceMillis(20_000);
        ledger.advanceTo(clock.millis());
        ledger.refundedOldestInPrimary(LOST);
        clock.advanceMillis(1);
        confirmUsage(ledger, LOST);
        assertThat(restored).isEmpty();
    }

    /** The store subtracts both numbers. Which permits the first refund has removed here makes no difference. */
    @ParameterizedTest
    @CsvSource({"100/1h counter, 30, 20, 0", "1/1h burst=100, 20, 30, 1"})
    void aRefundOfPermitsThatAnotherRefundHasRemovedIsNoLoss(String limit, long oldest, long ofGrant, int number) {
        RateLedger ledger = ledger(limit);
        long[] grantedAt = {clock.millis(), 0};
        grant(ledger, 20, 20);
        clock.advanceMillis(Limit.parse(limit).reach().toMillis() / 8);
        grantedAt[1] = clock.millis();
        grant(ledger, 30, 50);
        ledger.refundedOldestInPrimary(oldest);
        ledger.refundedInPrimary(ofGrant, grantedAt[number]);
        clock.advanceMillis(1);
        grant(ledger, 1, 1);
        assertThat(restored).isEmpty();
    }

    @ParameterizedTest
    @CsvSource({"100/1m, 100/1m leased", "100/1m leased, 100/1m"})
    void aLossIsNoticedIfLeasesBeginOrEnd(String before, String after) {
        RateLedger ledger = ledger(before);
        confirmUsage(ledger);
        clock.advanceMillis(1);
        ledger.advance(claim(limiter(Limit.parse(after)), "a"), clock.millis());
        grant(ledger, 1, 1);
        assertThat(restoredPermits()).isEqualTo(LOST);
    }

    /** A coarse slot then has the larger of the two numbers, not their sum. */
    @Test
    void grantsThatARestorationAbsorbsAreNoSecondLoss() {
        RateLedger ledger = ledger("100/1h resolution=1m");
        confirmUsage(ledger);
        clock.advanceMillis(1);
        grant(ledger, GRANTED, GRANTED);
        assertThat(restoredPermits()).isEqualTo(LOST);
        ledger.restored(
                requireNonNull(missing),
                StoreDecision.ofPeek(Source.OTHER, clock.millis(), 1, List.of(usage(ledger, 0, LOST))));
        clock.advanceMillis(1);
        grant(ledger, GRANTED, LOST + GRANTED);
        clock.advanceMillis(1);
        grant(ledger, GRANTED, LOST + 2 * GRANTED);
        assertThat(restored).hasSize(1);
    }

    private RateLedger ledger(String limit) {
        HandOvers handOvers = new HandOvers(clock, new AtomicLong()::incrementAndGet);
        handOvers.bindTo(new ManualWay());
        RateLedger ledger = new RateLedger(
                claim(limiter(Limit.parse(limit)), "a"), handOvers, new OutageShare(), null, (permits, usage) -> {
                    restored.add(permits);
                    missing = usage;
                });
        ledger.advanceTo(clock.millis());
        return ledger;
    }

    /** The primary store grants permits, which it loses afterwards. */
    private void confirmUsage(RateLedger ledger) {
        confirmUsage(ledger, LOST);
    }

    private void confirmUsage(RateLedger ledger, long used) {
        grant(ledger, LOST, used);
    }

    private void grant(RateLedger ledger, long permits, long used) {
        long at = clock.millis();
        ledger.advanceTo(at);
        StoreUsage usage = usage(ledger, permits, used);
        StoreDecision reply = StoreDecision.ofTake(Source.OTHER, at, List.of(usage));
        ledger.confirm(usage, reply);
        ledger.grantedInPrimary(usage, reply);
    }

    private StoreUsage usage(RateLedger ledger, long permits, long used) {
        long at = clock.millis();
        return StoreUsage.of(ledger.claim().withPermits(permits), used, false, at, at + HOUR);
    }

    private Reconciliation handOver(RateLedger ledger) {
        return Objects.requireNonNull(ledger.take()).message();
    }

    /** The reply to a reconciliation; the stamp is 0 if it was not charged by this request. */
    private void reply(RateLedger ledger, Reconciliation sent, long executedAt, long stamp) {
        ledger.advanceTo(clock.millis());
        StoreUsage usage = StoreUsage.of(ledger.claim().withPermits(0), GRANTED, false, executedAt, executedAt + HOUR);
        ledger.charged(sent, StoreDecision.ofPeek(Source.OTHER, executedAt, stamp, List.of(usage)));
    }

    private long restoredPermits() {
        assertThat(restored).hasSize(1);
        return restored.get(0).ages().stream().mapToLong(Grants::permits).sum();
    }
}
