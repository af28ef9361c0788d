package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.count.LimitKind;
import io.github.spillgate.internal.Time;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.LostPermits;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a ledger takes for a loss of data, and what it hands over then. */
@ParameterizedClass
@ValueSource(
        strings = {
            "100/1h",
            "100/1h resolution=1m",
            "100/1h counter",
            "100/1h counter aligned",
            "100/1h burst=100",
            "100 yearly"
        })
class LedgerLifeTest extends LocalFallbackFixture {

    private final LossyStore remote = new LossyStore(clock);
    private final Claim claim;

    LedgerLifeTest(String limit) {
        claim = claim(limiter(Limit.parse(limit)), "a");
    }

    // Losses

    @Test
    void whatIsLostIsHandedOver() {
        take(60);
        remote.loseAll();
        clock.advanceMillis(1);
        take(1);
        assertThat(lost(handOver())).isEqualTo(60);
        assertThat(used()).isEqualTo(61);
    }

    @Test
    void aLossShowsInAReplyWithoutACount() {
        take(60);
        remote.loseAll();
        clock.advanceMillis(1);
        peek();
        assertThat(lost(handOver())).isEqualTo(60);
        assertThat(used()).isEqualTo(60);
    }

    @Test
    void twoLossesBeforeAHandOverAddUp() {
        take(30);
        for (int permits : new int[] {20, 1}) {
            remote.loseAll();
            clock.advanceMillis(1);
            take(permits);
        }
        assertThat(lost(handOver())).isEqualTo(50);
        assertThat(used()).isEqualTo(51);
    }

    @Test
    void lostPermitsCountUntilTheyAreRestored() {
        take(60);
        remote.loseAll();
        clock.advanceMillis(1);
        peek();
        assertThat(take(41)).as("a grant of the store").isFalse();
        assertThat(store.take(StoreRequest.take(List.of(claim.withPermits(41))))
                        .block()
                        .isAllowed())
                .as("a grant of the fallback")
                .isFalse();
    }

    /** Another instance knows less, and has restored that. */
    @Test
    void whatTwoInstancesKnowIsRestoredOnce() {
        take(30);
        LocalFallback other = Fallback.local(1_000, clock);
        ManualWay otherWay = new ManualWay();
        other.bindTo(remote, otherWay);
        confirm(other, send(10));
        take(20);
        remote.loseAll();
        clock.advanceMillis(1);
        confirm(other, peeked());
        peek();
        execute(otherWay);
        handOver();
        assertThat(used()).isEqualTo(60);
    }

    // Hand-overs

    @Test
    void aLossAfterAHandOverIncludesItsGrants() {
        grant(10);
        handOver();
        remote.loseAll();
        clock.advanceMillis(1);
        peek();
        assertThat(lost(handOver())).isEqualTo(10);
        assertThat(used()).isEqualTo(10);
    }

    @Test
    void aHandOverThatIsSentAgainAfterALossIsChargedAgain() {
        grant(10);
        Reconciliation sent = way.handOver(10, any -> false).get(0);
        remote.correct(List.of(sent)).block();
        remote.lose("a");
        clock.advanceMillis(1);
        deliver(way, sent);
        assertThat(used()).isEqualTo(10);
        assertThat(way.handOver(10, any -> false)).isEmpty();
    }

    @Test
    void aHandOverThatWasExecutedInALostLifeIsMadeAgain() {
        take(5);
        grant(10);
        Reconciliation sent = way.handOver(10, any -> false).get(0);
        Corrected executed = remote.correct(List.of(sent)).block().get(0);
        remote.loseAll();
        clock.advanceMillis(1);
        take(1);
        way.charged(sent, executed);
        assertThat(handOver().permits()).isEqualTo(10);
        assertThat(lost(handOver())).isEqualTo(5);
        assertThat(used()).isEqualTo(16);
        assertThat(store.state().toReconcile()).isZero();
    }

    // Replies in any order

    @Test
    void aLateReplyOfALostLifeIsNotPassedOn() {
        take(5);
        Reply late = send(3);
        remote.loseAll();
        clock.advanceMillis(1);
        peek();
        assertThat(confirm(store, late)).isFalse();
    }

    @Test
    void aLateReplyOfAnEarlierLifeIsNoLoss() {
        take(5);
        Reply late = send(3);
        remote.loseAll();
        clock.advanceMillis(1);
        take(1);
        handOver();
        confirm(store, late);
        assertThat(way.handOver(10, any -> false)).isEmpty();
    }

    // No losses

    @Test
    void aResetByAnotherInstanceIsNoLoss() {
        take(60);
        remote.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        clock.advanceMillis(1);
        take(1);
        assertThat(way.handOver(10, any -> false)).isEmpty();
        assertThat(now(store.take(StoreRequest.peek(List.of(claim)))).remaining())
                .isEqualTo(99);
    }

    @Test
    void refundsByAnotherInstanceAreNoLoss() {
        take(60);
        Reply other = send(40);
        remote.correct(Refund.of(other.decision)).block();
        clock.advanceMillis(1);
        take(1);
        assertThat(way.handOver(10, any -> false)).isEmpty();
    }

    @Test
    void aClockOfTheStoreThatIsSetBackIsNoLoss() {
        take(60);
        clock.advanceMillis(-5_000);
        take(1);
        assertThat(way.handOver(10, any -> false)).isEmpty();
        clock.advanceMillis(-3_600_000);
        take(1);
        assertThat(way.handOver(10, any -> false)).isEmpty();
    }

    @Test
    void permitsThatHaveExpiredAreNotLost() {
        take(60);
        clock.advanceMillis(3 * LimitKind.reach(claim.limit()));
        remote.loseAll();
        take(1);
        assertThat(way.handOver(10, any -> false)).isEmpty();
    }

    /** A reset forgives what was lost before it. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void lostPermitsOfBeforeAResetAreNotRestored(boolean isOurs) {
        take(60);
        remote.loseAll();
        clock.advanceMillis(1);
        peek();
        clock.advanceMillis(1);
        remote.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        if (isOurs) {
            store.beginReset(List.of(claim)).accept(true);
        }
        way.handOver(10, any -> false).forEach(one -> deliver(way, one));
        assertThat(used()).isZero();
    }

    /** What is known and in flight then counts until it is in the store. */
    @Test
    void aRefusedResetForgetsNothing() {
        take(60);
        remote.loseAll();
        clock.advanceMillis(1);
        peek();
        grant(10);
        Reconciliation inFlight = way.handOver(10, any -> false).get(0);
        Consumer<Boolean> end = store.beginReset(List.of(claim));
        way.notCharged(inFlight);
        end.accept(false);
        assertThat(store.isReconciled()).isFalse();
        assertThat(lost(handOver())).isEqualTo(60);
        assertThat(used()).isEqualTo(70);
        assertThat(store.isReconciled()).isTrue();
        assertThat(store.mustHandOver(List.of(claim))).isFalse();
    }

    /** Its time is that at which it was sent itself, not that of the hand-over after a reset. */
    @Test
    void aLateReplyToAHandOverFromBeforeAResetSaysNothing() {
        grant(1);
        Reconciliation before = way.handOver(10, any -> false).get(0);
        Corrected late = remote.correct(List.of(before)).block().get(0);
        clock.advanceMillis(1);
        remote.reset(List.of(claim), LimitStore.NO_DEADLINE).block();
        store.beginReset(List.of(claim)).accept(true);
        take(90);
        grant(5);
        way.handOver(10, any -> false);
        way.charged(before, late);
        assertThat(now(store.take(StoreRequest.take(List.of(claim.withPermits(6)))))
                        .isAllowed())
                .isFalse();
    }

    // What happens

    private record Reply(StoreDecision decision, long sentAt) {}

    /** The store decides on a request; the reply is on its way. */
    private Reply send(int permits) {
        long sentAt = Time.nanos();
        return new Reply(now(remote.take(StoreRequest.take(List.of(claim.withPermits(permits))))), sentAt);
    }

    private Reply peeked() {
        long sentAt = Time.nanos();
        return new Reply(now(remote.take(StoreRequest.peek(List.of(claim)))), sentAt);
    }

    private static boolean confirm(LocalFallback fallback, Reply reply) {
        return fallback.confirm(reply.decision, reply.sentAt);
    }

    /** The store decides on a request; returns whether the reply is passed on. */
    private boolean take(int permits) {
        return confirm(store, send(permits));
    }

    private void peek() {
        confirm(store, peeked());
    }

    /** The fallback grants permits. */
    private void grant(int permits) {
        assertThat(now(store.take(StoreRequest.take(List.of(claim.withPermits(permits)))))
                        .isAllowed())
                .isTrue();
    }

    private Reconciliation handOver() {
        return execute(way);
    }

    private Reconciliation execute(ManualWay from) {
        Reconciliation one = from.handOver(10, any -> false).get(0);
        deliver(from, one);
        return one;
    }

    private void deliver(ManualWay from, Reconciliation one) {
        from.charged(one, remote.correct(List.of(one)).block().get(0));
    }

    private static long lost(Reconciliation handedOver) {
        return handedOver.lost().stream()
                .map(LostPermits::grants)
                .flatMap(List::stream)
                .mapToLong(Grants::permits)
                .sum();
    }

    private long used() {
        return now(remote.take(StoreRequest.peek(List.of(claim))))
                .usages()
                .get(0)
                .used();
    }
}
