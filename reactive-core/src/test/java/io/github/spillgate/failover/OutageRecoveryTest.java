package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.count.CounterState;
import io.github.spillgate.internal.Time;
import io.github.spillgate.model.StoreModel;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a local fallback grants of a limit while the permits that were in use at the last reply expire. */
class OutageRecoveryTest extends LocalFallbackFixture {

    /** The store's clock differs from that of this process. */
    private static final Duration BEHIND = Duration.ofDays(3);

    @Test
    void anInstanceThatUsedTheWholeLimitGetsItBackAsItsPermitsExpire() {
        RateLimiter limiter = limiter(Limit.of(160, Duration.ofSeconds(16)));
        Claim claim = claim(limiter, "a").withPermits(10);
        StoreModel primary = new StoreModel(() -> clock.instant().minus(BEHIND));
        for (int i = 0; i < 16; i++) {
            assertThat(store.confirm(
                            now(primary.take(StoreRequest.take(List.of(claim))).cast(StoreDecision.class))))
                    .isTrue();
            clock.advanceMillis(1_000);
        }
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        List<Long> remaining = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            clock.advanceMillis(1_000);
            remaining.add(now(limiter.peek("a")).remaining());
        }
        // A second late, the length of a slot, and the oldest slot was only partly in use for certain.
        assertThat(remaining.get(14)).isGreaterThanOrEqualTo(140);
        for (int i = 0; i < 16; i++) {
            assertThat(remaining.get(i)).isBetween(Math.max(0, 10L * i - 20), 10L * (i + 1));
        }
    }

    /** By the clock before the step, they would have been in use for longer. */
    @Test
    void permitsCountForAWindowIfTheClockOfTheStoreWasSetBackBeforeTheOutage() {
        Claim claim = claim(limiter, "a");
        long there = clock.millis() - BEHIND.toMillis();
        store.confirm(reply(claim.withPermits(1), 1, there, WINDOW));
        clock.advanceMillis(1_000);
        long then = there + 1_000 - 40_000;
        for (int used = 2; used <= 10; used++) {
            store.confirm(reply(claim.withPermits(1), used, then, WINDOW), Time.nanos());
        }
        for (int passed = 0; passed < 59_000; passed += 1_000) {
            assertThat(now(limiter.peek("a")).remaining())
                    .as("after %d ms", passed)
                    .isZero();
            clock.advanceMillis(1_000);
        }
        clock.advanceMillis(2_000);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @ParameterizedTest
    @ValueSource(strings = {"1000/10s counter", "1000/10s counter aligned"})
    void aCounterFadesDuringAnOutageByItsFormula(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter limiter = limiter(limit);
        Claim claim = claim(limiter, "a");
        long there = clock.millis() - BEHIND.toMillis();
        CounterState state = CounterState.empty(claim.limit(), there).plus(700);
        CounterState later = state.at(claim.limit(), there + 12_000).plus(300);
        long at = there + 12_000;
        clock.advanceMillis(12_000);
        store.confirm(StoreDecision.ofTake(reply(at), List.of(later.usage(reply(at), claim, false, false, 0))));
        for (int passed = 0; passed <= 20_000; passed += 125) {
            long exact = later.at(claim.limit(), at + passed).used(claim.limit(), at + passed);
            long before = later.at(claim.limit(), at + Math.max(0, passed - 625))
                    .used(claim.limit(), at + Math.max(0, passed - 625));
            assertThat(1_000 - now(limiter.peek("a")).remaining())
                    .describedAs("after %d ms", passed)
                    .isBetween(exact, before);
            clock.advanceMillis(125);
        }
    }

    @Test
    void aDenialDuringAnOutageNamesTheTimeAtWhichItFits() {
        RateLimiter limiter = limiter(Limit.of(100, Duration.ofSeconds(16)));
        Claim claim = claim(limiter, "a").withPermits(50);
        StoreModel primary = new StoreModel(() -> clock.instant().minus(BEHIND));
        for (int i = 0; i < 2; i++) {
            store.confirm(now(primary.take(StoreRequest.take(List.of(claim))).cast(StoreDecision.class)));
            clock.advanceMillis(5_000);
        }
        long fits = fitsAfter(limiter, "a", 50);
        assertThat(fits).isBetween(6_000L, 8_000L);
        clock.advanceMillis(fits - 1);
        assertThat(now(limiter.peek(Charge.of("a", 50))).isAllowed()).isFalse();
        clock.advanceMillis(1);
        assertThat(now(limiter.peek(Charge.of("a", 50))).isAllowed()).isTrue();
    }
}
