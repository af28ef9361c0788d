package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.DecidedClaims;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

/** What a token bucket grants, net of refunds, never exceeds its burst and what returns, in any interval. */
class BucketRefundPropertyTest extends BucketFixture {

    private static final int WINDOW = 10;

    @Property(tries = 2_000)
    void noIntervalHasMoreThanTheBurstAndTheRate(
            @ForAll @IntRange(min = 1, max = 25) int permits,
            @ForAll @IntRange(min = 1, max = 12) int burst,
            @ForAll @Size(min = 1, max = 60) List<@IntRange(min = 0, max = 59) Integer> steps) {
        Limit limit = Limit.bucket(permits, Duration.ofMillis(WINDOW), burst);
        RateLimiter limiter = limiter(limit);
        limiter.reset("a").block();
        List<Grant<Decision>> grants = new ArrayList<>();
        for (int step : steps) {
            if (step < 25) {
                take(limiter, 1 + step % Math.min(5, burst), grants);
            } else if (step < 40) {
                clock.advanceMillis(step < 37 ? step - 24 : step);
            } else if (!grants.isEmpty()) {
                refund(limiter, grants.get(step % grants.size()));
            }
            assertWithin(limit, grants);
        }
    }

    /** Successful logins are refunded: then only the failed ones count. */
    @Example
    void requestsThatAreRefundedSoonLeaveAlmostNothing() {
        RateLimiter limiter = limiter(Limit.perHour(60).burst(20));
        List<Decision> decisions = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            decisions.add(limiter.tryAcquire("a").block());
            clock.advanceMillis(50);
        }
        decisions.forEach(decision -> limiter.refund(decision).block());
        assertThat(used(limiter)).isLessThanOrEqualTo(1);
    }

    private static long used(RateLimiter limiter) {
        return limiter.peek("a").block().limits().get(0).used();
    }

    private void take(RateLimiter limiter, int cost, List<Grant<Decision>> grants) {
        Decision decision = limiter.tryAcquire(Charge.of("a", cost)).block();
        if (decision.isAllowed()) {
            grants.add(new Grant<>(decision, clock.millis(), cost * (long) WINDOW));
        }
    }

    private void refund(RateLimiter limiter, Grant<Decision> grant) {
        Claim claim = DecidedClaims.of(grant.decision).get(0);
        long before = level(claim);
        limiter.refund(grant.decision).block();
        grant.refunded(before - level(claim));
    }
}
