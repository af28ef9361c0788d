package io.github.spillgate.internal.waiting;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Limits of which permits return one by one: a key is reported once by each instance. */
class NearMarksTest {

    private final ManualClock clock = new ManualClock();
    private final LocalStore store = LocalStore.bounded(100_000, clock);
    private final RateLimiter claims = Unprotected.limiter(LocalStore.bounded(16, clock));
    private final NearMarks instance = instance();

    private NearMarks instance() {
        return new NearMarks(store, () -> Duration.ofMillis(clock.millis()).toNanos());
    }

    private List<Usage> near(NearMarks from, Charge... charges) {
        List<Claim> claimed = DecidedClaims.of(claims.peek(charges).block());
        return from.take(StoreRequest.take(claimed)).block().near();
    }

    private long reports(NearMarks from, Charge charge, int decisions, long pause) {
        return IntStream.range(0, decisions)
                .filter(i -> {
                    clock.advanceMillis(pause);
                    return !near(from, charge).isEmpty();
                })
                .count();
    }

    @ParameterizedTest
    @ValueSource(strings = {"10/10s near=80%", "10/10s counter near=80%", "10/10s burst=10 near=80%"})
    void aKeyThatStaysAtTheMarkIsReportedOnceByEachInstance(String text) {
        Charge charge = Charge.of("k", Limit.parse(text));
        assertThat(reports(instance, charge, 6, 900)).isZero();
        // The usage is about 8 to 10, for an hour.
        assertThat(reports(instance, charge, 4_000, 900)).isOne();
        assertThat(reports(instance(), charge, 4_000, 900)).isOne();
    }

    @Test
    void aKeyWhoseUsageWasBelowHalfOfTheMarkIsReportedAgain() {
        Charge charge = Charge.of("k", Limit.parse("10/10s near=80%"));
        assertThat(reports(instance, charge, 10, 1_000)).isOne();
        // 5 in each window are more than half of 8, and 2 are less.
        assertThat(reports(instance, charge, 10, 2_000)).isZero();
        assertThat(reports(instance, charge, 10, 1_000)).isZero();
        assertThat(reports(instance, charge, 4, 5_000)).isZero();
        assertThat(reports(instance, charge, 10, 1_000)).isOne();
    }

    @Test
    void aKeyThatWasNotUsedForAWindowIsReportedAgain() {
        Charge charge = Charge.of("k", Limit.parse("10/10s near=50%"));
        assertThat(reports(instance, charge, 10, 0)).isOne();
        clock.advanceMillis(10_001);
        assertThat(near(instance, charge.permits(5))).hasSize(1);
    }

    @Test
    void keysAndLimitsAreReportedSeparately() {
        Limit minute = Limit.perMinute(2).near(100);
        Limit hour = Limit.perHour(4).near(50);
        Limit without = Limit.perDay(4);
        Charge a = Charge.of("a", minute, hour, without);
        Charge b = Charge.of("b", minute).permits(2);
        assertThat(near(instance, a, b)).extracting(Usage::key).containsExactly("b");
        assertThat(near(instance, a)).extracting(Usage::limit).containsExactly(minute, hour);
    }

    @Test
    void heldPermitsAreReported() {
        RateLimiter limiter = Unprotected.limiter(store, Limit.concurrent(2).near(100));
        Decision first = limiter.tryAcquire("k").block();
        assertThat(first.near()).isEmpty();
        assertThat(limiter.tryAcquire("k").block().near()).hasSize(1);
        limiter.release(first).block();
        assertThat(limiter.tryAcquire("k").block().near()).isEmpty();
    }

    /** Clients choose the keys. */
    @Test
    void theNumberOfKnownKeysIsBounded() {
        Limit limit = Limit.perHour(2).near(50);
        int keys = 3 * NearMarks.MOST;
        assertThat(reportsOfKeys(limit, keys)).isEqualTo(keys);
        assertThat(reportsOfKeys(limit, keys)).isEqualTo(keys);
    }

    private long reportsOfKeys(Limit limit, int keys) {
        return IntStream.range(0, keys)
                .filter(i -> !near(instance, Charge.of("key-" + i, limit)).isEmpty())
                .count();
    }
}
