package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Decisions of one store and of several servers, and denials of waiters.
 */
class DecisionTest {

    private static final LimitStore STORE = LocalStore.bounded(16);
    private static final Limit TEN = Limit.perMinute(10);

    // Decisions of one store

    @Test
    void everyLimitMustAllowAndTheLongestRetryTimeApplies() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision allowed =
                StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(a, 3, 1_000), usage(b, 9, 1_000)));
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isTrue();
        assertThat(allowed.violated()).isEmpty();
        assertThat(allowed.retryAfter()).isEmpty();
        assertThat(allowed.remaining()).isEqualTo(1);
        StoreDecision denied =
                StoreDecision.ofTake(Source.OTHER, 1_000, List.of(violated(a, 10, 1_700), usage(b, 9, 1_200)));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.isCharged()).isFalse();
        assertThat(denied.violated()).containsExactly(TEN);
        assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(700));
        assertThat(denied.remaining()).isZero();
    }

    @Test
    void aDecisionIsImmutable() {
        StoreUsage usage = violated(claim("a", 1), 10, 1_700);
        StoreDecision denied = StoreDecision.ofTake(Source.OTHER, 1_000, new ArrayList<>(List.of(usage)));
        assertThat(denied.violated()).isUnmodifiable();
        assertThat(denied.limits()).isUnmodifiable();
    }

    @Test
    void theTextOfAUsageContainsNoKey() {
        assertThat(usage(claim("secret", 1), 3, 0)).hasToString("Usage[10/1m, used=3, wholeAt=1970-01-01T00:01:00Z]");
    }

    @Test
    void aCostOfZeroAndAPeekChargeNothing() {
        StoreUsage nothing = usage(claim("a", 0), 3, 1_000);
        StoreUsage one = usage(claim("b", 1), 3, 1_000);
        assertThat(StoreDecision.ofTake(Source.OTHER, 1_000, List.of(nothing)).isCharged())
                .isFalse();
        assertThat(StoreDecision.ofTake(Source.OTHER, 1_000, List.of(nothing, one))
                        .isCharged())
                .isTrue();
        assertThat(StoreDecision.ofPeek(Source.OTHER, 1_000, List.of(nothing, one))
                        .isCharged())
                .isFalse();
    }

    @Test
    void aLimitLoweredBelowItsUsageHasNothingRemaining() {
        StoreDecision decision = StoreDecision.ofPeek(Source.OTHER, 1_000, List.of(usage(claim("a", 0), 11, 1_000)));
        assertThat(decision.remaining()).isZero();
        assertThat(decision.limits().get(0).remaining()).isZero();
    }

    @Test
    void aSettingAllowsOrDeniesUntilTheRetryTime() {
        StoreDecision allowed = StoreDecision.uncharged(Source.FALLBACK, true, 1_000, 3_000, List.of(), List.of());
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isFalse();
        assertThat(allowed.retryAfter()).isEmpty();
        assertThat(allowed.remaining()).isEqualTo(Long.MAX_VALUE);
        StoreDecision denied = StoreDecision.uncharged(Source.FALLBACK, false, 1_000, 3_000, List.of(), List.of());
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).hasValue(Duration.ofSeconds(2));
        assertThat(denied.remaining()).isZero();
    }

    @Test
    void eachUsageOfADecisionIsRedeemedOnce() {
        StoreDecision charged = onAAndB(Source.OTHER);
        assertThat(charged.redeem(usage -> false)).isNull();
        assertThat(charged.redeem(usage -> usage.key().equals("a")).claims())
                .extracting(Claim::key)
                .containsExactly("a");
        assertThat(charged.redeem(usage -> true).claims())
                .extracting(Claim::key)
                .containsExactly("b");
        assertThat(charged.redeem(usage -> true)).isNull();
    }

    @Test
    void onlyAChargedDecisionIsRedeemed() {
        StoreDecision peek = StoreDecision.ofPeek(Source.OTHER, 1_000, List.of(usage(claim("a", 1), 1, 1_000)));
        assertThat(peek.redeem(usage -> true)).isNull();
    }

    @Test
    void whatHasMovedIsRedeemedOnceFromTheOtherDecision() {
        StoreDecision granted = onAAndB(Source.LOCAL);
        StoreDecision charged = onAAndB(Source.OTHER);
        assertThat(granted.redeem(usage -> usage.key().equals("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(granted.moveTo(charged)).extracting(Claim::key).containsExactly("b");
        StoreDecision redeemed = granted.redeem(usage -> true);
        assertThat(redeemed.source()).isEqualTo(Source.OTHER);
        assertThat(redeemed.claims()).extracting(Claim::key).containsExactly("b");
        assertThat(granted.redeem(usage -> true)).isNull();
    }

    @Test
    void nothingMovesFromADecisionThatIsRedeemed() {
        StoreDecision granted = onAAndB(Source.LOCAL);
        granted.redeem(usage -> true);
        assertThat(granted.moveTo(onAAndB(Source.OTHER))).isEmpty();
        assertThat(granted.redeem(usage -> true)).isNull();
    }

    @Test
    void whatASettlementHasLeftMoves() {
        Claim lower = claim("lower", 5);
        Claim higher = claim("higher", 5);
        Claim refunded = claim("refunded", 5);
        Claim whole = claim("whole", 5);
        StoreDecision granted = StoreDecision.ofTake(
                Source.LOCAL,
                1_000,
                Stream.of(lower, higher, refunded, whole)
                        .map(claim -> usage(claim, 5, 1_000))
                        .toList());
        granted.redeem(usage -> usage.claim().equals(refunded));
        granted.redeem(usage -> !usage.claim().equals(whole), Map.of(lower.handle(), 2L, higher.handle(), 7L));
        assertThat(granted.moveTo(granted))
                .extracting(Claim::key, Claim::permits)
                .containsExactly(tuple("lower", 2L), tuple("higher", 5L), tuple("whole", 5L));
    }

    /** Otherwise a late reply would cancel a grant that is refunded at the same time. */
    @Test
    void atTheSameTimeAUsageIsEitherRedeemedOrMovesFirst() {
        AtomicInteger started = new AtomicInteger();
        AtomicInteger moved = new AtomicInteger();
        List<StoreDecision> granted = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) {
            granted.add(onAAndB(Source.LOCAL));
        }
        StoreDecision charged = onAAndB(Source.OTHER);
        CompletableFuture<List<List<Claim>>> moving = CompletableFuture.supplyAsync(() -> {
            List<List<Claim>> left = new ArrayList<>();
            for (StoreDecision one : granted) {
                awaitAtLeast(started, left.size() + 1);
                left.add(one.moveTo(charged));
                moved.incrementAndGet();
            }
            return left;
        });
        List<StoreDecision> redeemed = new ArrayList<>();
        for (StoreDecision one : granted) {
            started.incrementAndGet();
            redeemed.add(one.redeem(usage -> true));
            awaitAtLeast(moved, redeemed.size());
        }
        List<List<Claim>> left = moving.join();
        for (int i = 0; i < redeemed.size(); i++) {
            Source holder = left.get(i).isEmpty() ? Source.LOCAL : Source.OTHER;
            assertThat(redeemed.get(i).source()).isEqualTo(holder);
            assertThat(redeemed.get(i).usages()).hasSize(2);
        }
    }

    private static void awaitAtLeast(AtomicInteger number, int least) {
        // Spins first, so that both continue at the same time.
        for (int spins = 0; number.get() < least; spins++) {
            if (spins > 10_000) {
                LockSupport.parkNanos(1_000);
            }
        }
    }

    private static StoreDecision onAAndB(Source source) {
        return StoreDecision.ofTake(
                source, 1_000, List.of(usage(claim("a", 1), 1, 1_000), usage(claim("b", 1), 1, 1_000)));
    }

    // Decisions of several servers

    @Test
    void ifAllServersAllowTheResultIsAllowedByTheLatestClockInTheOrderOfTheClaims() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision ofB = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(b, 4, 1_000)));
        StoreDecision ofA = StoreDecision.ofTake(Source.OTHER, 5_000, List.of(usage(a, 7, 5_000)));
        StoreDecision both = StoreDecision.ofParts(List.of(a, b), List.of(ofB, ofA));
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
        assertThat(both.parts()).containsExactly(ofB, ofA);
        assertThat(ofA.parts()).containsExactly(ofA);
    }

    @Test
    void ifOneServerDeniesTheOthersAreShownAsRefunded() {
        Claim a = claim("a", 2);
        Claim faded = claim("b", 2);
        Claim c = claim("c", 2);
        StoreDecision taken =
                StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(a, 7, 1_000), usage(faded, 1, 1_000)));
        StoreDecision denied = StoreDecision.ofTake(Source.OTHER, 5_000, List.of(violated(c, 10, 5_300)));
        StoreDecision all = StoreDecision.ofParts(List.of(a, faded, c), List.of(taken, denied));
        assertThat(all.isAllowed()).isFalse();
        assertThat(all.isCharged()).isFalse();
        assertThat(all.limits()).extracting(Decision.Usage::used).containsExactly(5L, 0L, 10L);
        assertThat(all.retryAfter()).hasValue(Duration.ofMillis(300));
        assertThat(all.violated()).hasSize(1);
        assertThat(all.parts()).noneMatch(Decision::isCharged);
        assertThat(all.parts().get(0).isAllowed()).isTrue();
        assertThat(all.parts().get(0).limits()).extracting(Decision.Usage::used).containsExactly(5L, 0L);
        assertThat(all.parts().get(1).limits()).extracting(Decision.Usage::used).containsExactly(10L);
    }

    @Test
    void theWaitIsConvertedIfTheClockOfTheServerIsBehind() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision behind = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(violated(a, 10, 1_900)));
        StoreDecision ahead = StoreDecision.ofTake(Source.OTHER, 5_000, List.of(violated(b, 10, 5_200)));
        StoreDecision both = StoreDecision.ofParts(List.of(a, b), List.of(behind, ahead));
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
        StoreDecision taken = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(a, 7, 1_000)));
        StoreDecision denied = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(violated(b, 10, 1_300)));
        StoreDecision both = StoreDecision.ofParts(List.of(a, b), List.of(taken, denied));
        assertThat(both.limits()).extracting(Decision.Usage::used).containsExactly(7L, 10L);
        assertThat(both.parts().get(0).limits())
                .extracting(Decision.Usage::used)
                .containsExactly(7L);
    }

    @Test
    void peekedPartsAreNeitherRefundedNorCharged() {
        Claim a = claim("a", 2);
        Claim b = claim("b", 2);
        Claim unknown = claim("c", 2);
        StoreDecision ofA = StoreDecision.ofPeek(Source.OTHER, 1_000, List.of(usage(a, 7, 1_000)));
        StoreDecision ofB = StoreDecision.ofPeek(Source.OTHER, 1_000, List.of(violated(b, 9, 1_300)));
        StoreDecision both = StoreDecision.ofParts(List.of(a, unknown, b), List.of(ofA, ofB));
        assertThat(both.limits()).extracting(Decision.Usage::used).containsExactly(7L, 9L);
        assertThat(both.parts().get(0).limits())
                .extracting(Decision.Usage::used)
                .containsExactly(7L);
        StoreDecision allowed = StoreDecision.ofParts(List.of(a), List.of(ofA));
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isFalse();
    }

    @Test
    void aChargeByOneServerIsACharge() {
        Claim nothing = claim("a", 0);
        Claim one = claim("b", 1);
        StoreDecision ofNothing = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(nothing, 7, 1_000)));
        StoreDecision ofOne = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(one, 7, 1_000)));
        assertThat(StoreDecision.ofParts(List.of(nothing, one), List.of(ofNothing, ofOne))
                        .isCharged())
                .isTrue();
    }

    @Test
    void aPartialRefundReachesTheServersThatTookThePermits() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision ofA = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(a, 4, 1_000)));
        StoreDecision ofB = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(b, 7, 1_000)));
        StoreDecision some = StoreDecision.ofParts(List.of(a, b), List.of(ofA, ofB))
                .only(usage -> usage.key().equals("b"));
        assertThat(some.limits()).extracting(Decision.Usage::key).containsExactly("b");
        assertThat(some.parts()).hasSize(1);
        assertThat(some.parts().get(0).limits()).extracting(Decision.Usage::key).containsExactly("b");
    }

    // Denials of waiters

    @Test
    void aDenialOfAWaiterShowsTheLastReplyAndTheViolatedLimits() {
        Claim three = claim("a", 3);
        Claim one = claim("b", 1);
        StoreDecision before = StoreDecision.ofTake(
                Source.OTHER, 1_000, List.of(violated(claim("a", 8), 7, 1_300), usage(claim("b", 8), 10, 1_000)));
        StoreDecision decision = LimiterDecisions.mustWait(1_100, 1_900, List.of(three, one), before);
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.isCharged()).isFalse();
        assertThat(decision.source()).isEqualTo(Source.LIMITER);
        assertThat(decision.retryAfter()).hasValue(Duration.ofMillis(800));
        assertThat(decision.limits()).extracting(Decision.Usage::used).containsExactly(7L, 10L);
        assertThat(decision.limits())
                .extracting(Decision.Usage::isViolated)
                .as("three fit beside seven, but one does not beside ten")
                .containsExactly(false, true);
        assertThat(decision.limits()).extracting(Decision.Usage::fitsAt).containsOnly(Instant.ofEpochMilli(1_900));
        assertThat(decision.violated()).hasSize(1);
    }

    @Test
    void aDenialOfAWaiterDoesNotShowTheReplyToOtherCharges() {
        StoreDecision before = StoreDecision.ofTake(Source.OTHER, 1_000, List.of(usage(claim("a", 1), 7, 1_000)));
        List<Claim> two = List.of(claim("a", 1), claim("b", 1));
        assertThat(LimiterDecisions.mustWait(1_100, 1_900, two, before).limits())
                .isEmpty();
        StoreDecision unknown = LimiterDecisions.mustWait(1_100, 1_900, two, null);
        assertThat(unknown.limits()).isEmpty();
        assertThat(unknown.remaining()).isZero();
        assertThat(unknown.retryAfter()).hasValue(Duration.ofMillis(800));
    }

    private static Claim claim(String key, long permits) {
        return claim(key, permits, TEN);
    }

    private static Claim claim(String key, long permits, Limit limit) {
        return CountClaim.of(STORE, "api", List.of(), Charge.of(key, limit).permits(permits))
                .get(0);
    }

    /** Returns a usage with all permits available again one minute later. */
    private static StoreUsage usage(Claim claim, long used, long at) {
        return StoreUsage.of(claim, used, false, at, at + 60_000);
    }

    private static StoreUsage violated(Claim claim, long used, long fitsAt) {
        return StoreUsage.of(claim, used, true, fitsAt, fitsAt + 60_000);
    }
}
