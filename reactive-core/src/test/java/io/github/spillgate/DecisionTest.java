package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.internal.waiting.LimiterDecisions;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Decisions of a store, and denials of waiters. */
class DecisionTest {

    private static final LimitStore STORE = LocalStore.bounded(16);
    private static final Limit TEN = Limit.perMinute(10);
    private static final Reply REPLY = new Reply(Source.OTHER, 1_000);

    // Decisions of a store

    @Test
    void everyLimitMustAllowAndTheLongestRetryTimeApplies() {
        Claim a = claim("a", 1);
        Claim b = claim("b", 1);
        StoreDecision allowed = StoreDecision.ofTake(REPLY, List.of(usage(a, 3, 1_000), usage(b, 9, 1_000)));
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isTrue();
        assertThat(allowed.violated()).isEmpty();
        assertThat(allowed.retryAfter()).isEmpty();
        assertThat(allowed.remaining()).isEqualTo(1);
        StoreDecision denied = StoreDecision.ofTake(REPLY, List.of(violated(a, 10, 1_700), usage(b, 9, 1_200)));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.isCharged()).isFalse();
        assertThat(denied.violated()).containsExactly(TEN);
        assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(700));
        assertThat(denied.remaining()).isZero();
    }

    @Test
    void aDecisionIsImmutable() {
        StoreUsage usage = violated(claim("a", 1), 10, 1_700);
        StoreDecision denied = StoreDecision.ofTake(REPLY, new ArrayList<>(List.of(usage)));
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
        assertThat(StoreDecision.ofTake(REPLY, List.of(nothing)).isCharged()).isFalse();
        assertThat(StoreDecision.ofTake(REPLY, List.of(nothing, one)).isCharged())
                .isTrue();
        assertThat(StoreDecision.ofPeek(REPLY, List.of(nothing, one)).isCharged())
                .isFalse();
    }

    @Test
    void aSettingAllowsOrDeniesUntilTheRetryTime() {
        Reply reply = new Reply(Source.FALLBACK, 1_000);
        StoreDecision allowed = StoreDecision.ofPeek(reply, List.of());
        assertThat(allowed.isAllowed()).isTrue();
        assertThat(allowed.isCharged()).isFalse();
        assertThat(allowed.retryAfter()).isEmpty();
        assertThat(allowed.remaining()).isEqualTo(Long.MAX_VALUE);
        StoreDecision denied = StoreDecision.denied(reply, 3_000, List.of(), List.of());
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).hasValue(Duration.ofSeconds(2));
        assertThat(denied.remaining()).isZero();
    }

    // Denials of waiters

    @Test
    void aDenialOfAWaiterShowsTheLastReplyAndTheViolatedLimits() {
        Claim three = claim("a", 3);
        Claim one = claim("b", 1);
        StoreDecision before = StoreDecision.ofTake(
                REPLY, List.of(violated(claim("a", 8), 7, 1_300), usage(claim("b", 8), 10, 1_000)));
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
        StoreDecision before = StoreDecision.ofTake(REPLY, List.of(usage(claim("a", 1), 7, 1_000)));
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
        return StoreUsage.of(REPLY, claim, used, false, at, at + 60_000);
    }

    private static StoreUsage violated(Claim claim, long used, long fitsAt) {
        return StoreUsage.of(REPLY, claim, used, true, fitsAt, fitsAt + 60_000);
    }
}
