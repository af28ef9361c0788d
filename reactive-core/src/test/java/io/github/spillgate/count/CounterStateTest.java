package io.github.spillgate.count;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Limit;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.Duration;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.DoubleRange;

/** The arithmetic of the counter, also for numbers that doubles round. */
class CounterStateTest {

    private static final long START = 1_790_000_000_000L;

    @Property
    void theEstimateIsNeverBelowTheTruthAndExactWhereDoublesAre(
            @ForAll("cases") Case given, @ForAll @DoubleRange(min = 0, max = 1) double part) {
        long elapsed = (long) (part * (given.window - 1));
        BigInteger product = BigInteger.valueOf(given.previous).multiply(BigInteger.valueOf(given.window - elapsed));
        long faded = new BigDecimal(product)
                .divide(BigDecimal.valueOf(given.window), 0, RoundingMode.CEILING)
                .longValueExact();

        long used = given.state().used(given.limit(), START + elapsed);

        assertThat(used).isGreaterThanOrEqualTo(given.current + faded);
        assertThat(used).isLessThanOrEqualTo(given.current + Math.min(given.previous, faded + 1));
        if (product.bitLength() <= 53) {
            assertThat(used).isEqualTo(given.current + faded);
        }
    }

    @Property
    void aCostFitsFromTheReturnedTimeOnAndNotBefore(
            @ForAll("cases") Case given,
            @ForAll @DoubleRange(min = 0, max = 1) double part,
            @ForAll @DoubleRange(min = 0, max = 1) double share) {
        Limit limit = given.limit();
        long now = START + (long) (part * (given.window - 1));
        long cost = Math.max(1, (long) (share * given.permits));

        long fitsAt = given.state().fitsAt(limit, cost, now);

        assertThat(fitsAt).isBetween(now, given.state().wholeAt(limit, now));
        assertThat(fits(given, cost, fitsAt)).isTrue();
        if (fitsAt > now) {
            assertThat(fits(given, cost, fitsAt - 1)).isFalse();
        }
    }

    /** 2^53 + 1, which is 28,059,810,762,433 × 321, is the first integer that a double cannot represent. */
    @Example
    void aCostThatFitsOnlyByRoundingIsDenied() {
        Limit limit = Limit.counter(28_059_810_762_433L, Duration.ofMillis(512));
        CounterState state = new CounterState(START, limit.permits(), 0);
        long now = START + 512 - 321;
        assertThat(state.used(limit, now)).isEqualTo((1L << 53) / 512 + 1);
        assertThat(state.fitsAt(limit, limit.permits() - (1L << 53) / 512, now)).isEqualTo(now + 1);
    }

    @Example
    void theLargestUsageIsExact() {
        Limit limit = Limit.counter(Limit.MOST_COUNTER_PERMITS, Duration.ofDays(1));
        CounterState state = new CounterState(START, limit.permits(), 0);
        assertThat(state.used(limit, START)).isEqualTo(limit.permits());
    }

    /** Near zero a double shows more of a rounding error: ten times (1 − 7/10) is more than 3. */
    @Example
    void theReturnedTimeIsExactEvenNearZero() {
        Limit limit = Limit.counter(10, Duration.ofMillis(10));
        CounterState state = new CounterState(0, 10, 0);
        for (long cost = 1; cost <= 10; cost++) {
            assertThat(state.fitsAt(limit, cost, 0)).isEqualTo(cost);
        }
    }

    @Example
    void aLimitOfOneIsGrantedAgainWhenTheHitHasFaded() {
        Limit limit = Limit.counter(1, Duration.ofSeconds(1));
        CounterState state = CounterState.empty(limit, START).plus(1);
        assertThat(state.fitsAt(limit, 1, START)).isEqualTo(START + 2_000);
        assertThat(state.at(limit, START + 1_999).used(limit, START + 1_999)).isEqualTo(1);
        assertThat(state.at(limit, START + 2_000).isEmpty()).isTrue();
    }

    @Example
    void halfOfThePreviousWindowCountsInTheMiddleOfTheCurrentOne() {
        Limit limit = Limit.counter(10, Duration.ofSeconds(1));
        CounterState state = new CounterState(START, 10, 0);
        assertThat(state.used(limit, START)).isEqualTo(10);
        assertThat(state.used(limit, START + 500)).isEqualTo(5);
        assertThat(state.used(limit, START + 501)).isEqualTo(5);
        assertThat(state.used(limit, START + 600)).isEqualTo(4);
    }

    @Example
    void theStateAdvancesToTheCurrentWindow() {
        Limit limit = Limit.counter(10, Duration.ofSeconds(1));
        CounterState state = new CounterState(START, 3, 4);
        assertThat(state.at(limit, START + 999)).isEqualTo(state);
        assertThat(state.at(limit, START + 1_000)).isEqualTo(new CounterState(START + 1_000, 4, 0));
        assertThat(state.at(limit, START + 1_999)).isEqualTo(new CounterState(START + 1_000, 4, 0));
        assertThat(state.at(limit, START + 2_000)).isEqualTo(CounterState.empty(limit, START + 2_000));
        assertThat(new CounterState(START, 3, 0).at(limit, START + 1_000))
                .isEqualTo(CounterState.empty(limit, START + 1_000));
    }

    @Example
    void ifTheClockStepsBackAllPermitsCountAsTakenNowUpToTheLimit() {
        Limit limit = Limit.counter(10, Duration.ofSeconds(1));
        long back = START - 50_000;
        assertThat(new CounterState(START, 3, 4).isAheadOf(limit, START)).isFalse();
        assertThat(new CounterState(START, 3, 4).isAheadOf(limit, START - 1)).isTrue();
        assertThat(new CounterState(START, 3, 4).at(limit, back)).isEqualTo(new CounterState(back, 0, 7));
        assertThat(new CounterState(START, 9, 4).at(limit, back)).isEqualTo(new CounterState(back, 0, 10));
        // The permits of the limit may have been lowered; all that were taken are kept.
        assertThat(new CounterState(START, 9, 12).at(limit, back)).isEqualTo(new CounterState(back, 0, 12));
    }

    @Example
    void alignedWindowsStartWithTheClock() {
        Limit limit = Limit.counter(10, Duration.ofMinutes(1)).alignedToClock();
        long minute = START - START % 60_000;
        assertThat(CounterState.empty(limit, minute + 59_999)).isEqualTo(new CounterState(minute, 0, 0));
        CounterState state = CounterState.empty(limit, minute + 59_999).plus(2);
        assertThat(state.at(limit, minute + 60_000)).isEqualTo(new CounterState(minute + 60_000, 2, 0));
        // A clock that steps back within a window changes nothing.
        assertThat(state.at(limit, minute + 1)).isEqualTo(state);
        assertThat(state.at(limit, minute - 1)).isEqualTo(new CounterState(minute - 60_000, 0, 2));
    }

    @Example
    void theResetTimeIsAtMostOneWindowAfterTheCurrentOne() {
        Limit limit = Limit.counter(10, Duration.ofSeconds(1));
        assertThat(CounterState.empty(limit, START).wholeAt(limit, START)).isEqualTo(START);
        assertThat(new CounterState(START, 3, 0).wholeAt(limit, START + 1)).isEqualTo(START + 1_000);
        assertThat(new CounterState(START, 0, 1).wholeAt(limit, START + 1)).isEqualTo(START + 2_000);
    }

    @Example
    void aDenialIsRecordedUpToTheLimit() {
        Limit limit = Limit.counter(10, Duration.ofSeconds(1));
        assertThat(new CounterState(START, 8, 3).plusDenied(limit, 5)).isEqualTo(new CounterState(START, 8, 8));
        assertThat(new CounterState(START, 0, 8).plusDenied(limit, 5)).isEqualTo(new CounterState(START, 0, 10));
        assertThat(new CounterState(START, 0, 12).plusDenied(limit, 5)).isEqualTo(new CounterState(START, 0, 12));
    }

    @Example
    void aRefundAppliesToTheWindowOfTheHit() {
        Limit limit = Limit.counter(10, Duration.ofSeconds(1));
        CounterState state = new CounterState(START, 6, 4);
        assertThat(state.minus(limit, START + 500, 3)).isEqualTo(new CounterState(START, 6, 1));
        assertThat(state.minus(limit, START, 3)).isEqualTo(new CounterState(START, 6, 1));
        assertThat(state.minus(limit, START - 1, 3)).isEqualTo(new CounterState(START, 3, 4));
        assertThat(state.minus(limit, START - 1_000, 3)).isEqualTo(new CounterState(START, 3, 4));
        assertThat(state.minus(limit, START - 1_001, 3)).isEqualTo(state);
        assertThat(state.minus(limit, START, 9)).isEqualTo(new CounterState(START, 6, 0));
        assertThat(state.minus(limit, START - 1, 9)).isEqualTo(new CounterState(START, 0, 4));
    }

    @Example
    void theOldestPermitsAreRefundedFirst() {
        CounterState state = new CounterState(START, 6, 4);
        assertThat(state.minusOldest(5)).isEqualTo(new CounterState(START, 1, 4));
        assertThat(state.minusOldest(8)).isEqualTo(new CounterState(START, 0, 2));
        assertThat(state.minusOldest(11)).isEqualTo(new CounterState(START, 0, 0));
    }

    @Example
    void invalidStatesAndCostsThatNeverFitAreRejected() {
        Limit limit = Limit.counter(5, Duration.ofSeconds(1));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> new CounterState(START, -1, 0))
                .withMessageContaining("previous -1")
                .withMessageContaining("for example");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> CounterState.empty(limit, START).fitsAt(limit, 6, START))
                .withMessageContaining(
                        "cost 6 never fits under 5/1s counter: expected at most its permits, for example 5");
    }

    private static boolean fits(Case given, long cost, long at) {
        return given.state().at(given.limit(), at).used(given.limit(), at) + cost <= given.permits;
    }

    @Provide
    Arbitrary<Case> cases() {
        Arbitrary<Long> permits = Arbitraries.oneOf(
                Arbitraries.longs().between(1, 20),
                Arbitraries.longs().between(1, 1_000_000),
                Arbitraries.longs().between(1, Limit.MOST_COUNTER_PERMITS));
        Arbitrary<Long> windows = Arbitraries.oneOf(
                Arbitraries.longs().between(1, 1_000), Arbitraries.longs().between(1, Limit.LONGEST_WINDOW.toMillis()));
        return Combinators.combine(
                        permits,
                        windows,
                        Arbitraries.doubles().between(0, 1),
                        Arbitraries.doubles().between(0, 1))
                .as((n, window, p, c) -> new Case(n, window, (long) (n * p), (long) (n * c)));
    }

    record Case(long permits, long window, long previous, long current) {

        Limit limit() {
            return Limit.counter(permits, Duration.ofMillis(window));
        }

        CounterState state() {
            return new CounterState(START, previous, current);
        }
    }
}
