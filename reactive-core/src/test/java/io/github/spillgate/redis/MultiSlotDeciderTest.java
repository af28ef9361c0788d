package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Refund;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.ClaimForTests;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Decisions of several servers, each by its own clock. */
class MultiSlotDeciderTest {

    private static final Limit TEN = Limit.perMinute(10);

    @Test
    void ifAllServersAllowTheResultIsAllowedByTheLatestClockInTheOrderOfTheClaims() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision ofB = ofTake(1_000, usage(b, 4, 1_000));
        StoreDecision ofA = ofTake(5_000, usage(a, 7, 5_000));
        StoreDecision both = MultiSlotDecider.combined(List.of(a, b), List.of(ofB, ofA));
        assertThat(both.isAllowed()).isTrue();
        assertThat(both.isCharged()).isTrue();
        assertThat(both.source()).isEqualTo(Source.OTHER);
        assertThat(both.at()).isEqualTo(Instant.ofEpochMilli(5_000));
        assertThat(both.limits()).extracting(Decision.Usage::key).containsExactly("a", "b");
        assertThat(both.limits()).extracting(Decision.Usage::used).containsExactly(7L, 4L);
        assertThat(both.limits())
                .extracting(Decision.Usage::wholeAt)
                .as("a minute after the decision of each server")
                .containsOnly(Instant.ofEpochMilli(65_000));
        assertThat(both.usages())
                .extracting(StoreUsage::inStore)
                .containsExactly(ofA.usages().get(0), ofB.usages().get(0));
        assertThat(Refund.of(both))
                .extracting(refund -> refund.usage().reply().at())
                .containsExactly(5_000L, 1_000L);
    }

    @Test
    void ifOneServerDeniesTheOthersAreShownAsRefunded() {
        Claim a = claim("a", 2);
        Claim faded = claim("b", 2);
        Claim c = claim("c", 2);
        StoreDecision taken = ofTake(1_000, usage(a, 7, 1_000), usage(faded, 1, 1_000));
        StoreDecision denied = ofTake(5_000, violated(c, 10, 5_300));
        StoreDecision all = MultiSlotDecider.combined(List.of(a, faded, c), List.of(taken, denied));
        assertThat(all.isAllowed()).isFalse();
        assertThat(all.isCharged()).isFalse();
        assertThat(all.limits()).extracting(Decision.Usage::used).containsExactly(5L, 0L, 10L);
        assertThat(all.retryAfter()).hasValue(Duration.ofMillis(300));
        assertThat(all.violated()).hasSize(1);
        assertThat(all.usages())
                .extracting(StoreUsage::inStore)
                .as("what each server has replied, and the ledger compares with later replies")
                .containsExactly(
                        taken.usages().get(0),
                        taken.usages().get(1),
                        denied.usages().get(0));
    }

    @Test
    void theWaitIsConvertedIfTheClockOfTheServerIsBehind() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision behind = ofTake(1_000, violated(a, 10, 1_900));
        StoreDecision ahead = ofTake(5_000, violated(b, 10, 5_200));
        StoreDecision both = MultiSlotDecider.combined(List.of(a, b), List.of(behind, ahead));
        assertThat(both.retryAfter()).hasValue(Duration.ofMillis(900));
        assertThat(both.limits())
                .extracting(Decision.Usage::fitsAt)
                .containsExactly(Instant.ofEpochMilli(5_900), Instant.ofEpochMilli(5_200));
    }

    @Test
    void limitsThatCountDeniedRequestsAreNotRefunded() {
        Limit counting = TEN.countingDenied();
        Claim a = claim("a", 2, counting);
        Claim b = claim("b", 2);
        StoreDecision taken = ofTake(1_000, usage(a, 7, 1_000));
        StoreDecision denied = ofTake(1_000, violated(b, 10, 1_300));
        StoreDecision both = MultiSlotDecider.combined(List.of(a, b), List.of(taken, denied));
        assertThat(both.limits()).extracting(Decision.Usage::used).containsExactly(7L, 10L);
        assertThat(both.usages().get(0).inStore().used()).isEqualTo(7);
    }

    @Test
    void peekedPartsAreNeitherRefundedNorCharged() {
        Claim a = claim("a", 2);
        Claim b = claim("b", 2);
        Claim unknown = claim("c", 2);
        StoreDecision ofA = ofPeek(1_000, usage(a, 7, 1_000));
        StoreDecision ofB = ofPeek(1_000, violated(b, 9, 1_300));
        StoreDecision both = MultiSlotDecider.combined(List.of(a, unknown, b), List.of(ofA, ofB));
        assertThat(both.limits()).extracting(Decision.Usage::used).containsExactly(7L, 9L);
        assertThat(both.usages().get(0).inStore().used()).isEqualTo(7);
        StoreDecision allowed = MultiSlotDecider.combined(List.of(a), List.of(ofA));
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isFalse();
    }

    @Test
    void aChargeByOneServerIsACharge() {
        Claim nothing = claim("a", 0);
        Claim one = claim("b", 1);
        StoreDecision ofNothing = ofTake(1_000, usage(nothing, 7, 1_000));
        StoreDecision ofOne = ofTake(1_000, usage(one, 7, 1_000));
        assertThat(MultiSlotDecider.combined(List.of(nothing, one), List.of(ofNothing, ofOne))
                        .isCharged())
                .isTrue();
    }

    private static StoreDecision ofTake(long at, Usage... usages) {
        Reply reply = new Reply(Source.OTHER, at);
        return StoreDecision.ofTake(
                reply, Stream.of(usages).map(one -> one.in(reply)).toList());
    }

    private static StoreDecision ofPeek(long at, Usage... usages) {
        Reply reply = new Reply(Source.OTHER, at);
        return StoreDecision.ofPeek(
                reply, Stream.of(usages).map(one -> one.in(reply)).toList());
    }

    private static Claim claim(String key, long permits) {
        return claim(key, permits, TEN);
    }

    private static Claim claim(String key, long permits, Limit limit) {
        return ClaimForTests.of(key, limit).withPermits(permits);
    }

    /** Returns a usage with all permits available again one minute later. */
    private static Usage usage(Claim claim, long used, long at) {
        return reply -> StoreUsage.of(reply, claim, used, false, at, at + 60_000);
    }

    private static Usage violated(Claim claim, long used, long fitsAt) {
        return reply -> StoreUsage.of(reply, claim, used, true, fitsAt, fitsAt + 60_000);
    }

    private interface Usage {

        StoreUsage in(Reply reply);
    }
}
