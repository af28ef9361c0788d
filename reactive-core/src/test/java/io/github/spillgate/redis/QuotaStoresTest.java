package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.RefundCharged;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a quota does at the boundary of its period, in each store, by the clock of the store. */
class QuotaStoresTest extends ScriptedFixture {

    private static final Instant BOUNDARY = Instant.parse("2026-10-01T00:00:00Z");
    private static final ZoneId TOKYO = ZoneId.of("Asia/Tokyo");

    /** 15:00 UTC is midnight there. */
    private static final Limit.Quota PLAN = Limit.daily(3);

    /** Returns a limiter of another process, but for a store in this one. */
    private RateLimiter limiter(String kind, Limit limit) {
        return RateLimiter.builder("quota")
                .store(new Unprotected(stored(kind)))
                .limit(limit)
                .build();
    }

    private void at(Instant time) {
        clock.set(time.toEpochMilli());
        scripted.show(clock);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void allPermitsReturnAtTheBoundaryAndNotAMillisecondEarlier(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        at(BOUNDARY.minusMillis(7));
        assertThat(limiter.tryAcquire(Charge.of("k", 3)).block().isAllowed()).isTrue();
        at(BOUNDARY.minusMillis(1));
        Decision denied = limiter.tryAcquire("k").block();
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).contains(Duration.ofMillis(1));
        assertThat(denied.limits().get(0).wholeAt()).isEqualTo(BOUNDARY);
        at(BOUNDARY);
        Decision next = limiter.tryAcquire("k").block();
        assertThat(next.isAllowed()).isTrue();
        assertThat(next.remaining()).isEqualTo(2);
        assertThat(next.limits().get(0).wholeAt()).isEqualTo(BOUNDARY.plus(Duration.ofDays(1)));
    }

    /** If the clock goes back over a boundary, the period that has begun goes on: there are not two. */
    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aPeriodThatHasBegunGoesOnIfTheClockIsSetBack(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        at(BOUNDARY.plusMillis(1));
        limiter.tryAcquire(Charge.of("k", 3)).block();
        at(BOUNDARY.minusSeconds(5));
        Decision denied = limiter.tryAcquire("k").block();
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.limits().get(0).fitsAt()).isEqualTo(BOUNDARY.plus(Duration.ofDays(1)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void anotherCalendarUnderTheSameNameBeginsWhenThePeriodHasEnded(String kind) {
        RateLimiter utc = limiter(kind, PLAN.named("plan"));
        RateLimiter tokyo = limiter(kind, PLAN.in(TOKYO).named("plan"));
        at(BOUNDARY.minus(Duration.ofHours(10)));
        utc.tryAcquire(Charge.of("k", 3)).block();
        at(BOUNDARY.minus(Duration.ofHours(8)));
        Decision denied = tokyo.tryAcquire("k").block();
        assertThat(denied.limits().get(0).fitsAt()).isEqualTo(BOUNDARY);
        at(BOUNDARY);
        assertThat(tokyo.tryAcquire(Charge.of("k", 3)).block().isAllowed()).isTrue();
        Decision inUtc = utc.tryAcquire("k").block();
        assertThat(inUtc.isAllowed()).isFalse();
        assertThat(inUtc.limits().get(0).fitsAt()).isEqualTo(BOUNDARY.plus(Duration.ofHours(15)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void otherPermitsKeepTheUsage(String kind) {
        RateLimiter few = limiter(kind, PLAN);
        RateLimiter many = limiter(kind, Limit.daily(5));
        at(BOUNDARY);
        few.tryAcquire(Charge.of("k", 3)).block();
        assertThat(many.tryAcquire(Charge.of("k", 2)).block().isAllowed()).isTrue();
        assertThat(few.tryAcquire("k").block().limits().get(0).used()).isEqualTo(5);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aRefundAppliesWithinItsPeriodOnly(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        at(BOUNDARY.minusMillis(5));
        Decision before = limiter.tryAcquire(Charge.of("k", 2)).block();
        Decision settled = limiter.tryAcquire("k").block();
        at(BOUNDARY.plusMillis(5));
        Decision after = limiter.tryAcquire(Charge.of("k", 2)).block();
        limiter.refund(before).block();
        limiter.settle(settled, 0).block();
        assertThat(limiter.peek("k").block().limits().get(0).used()).isEqualTo(2);
        limiter.refund(after).block();
        assertThat(limiter.peek("k").block().limits().get(0).used()).isZero();
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aFurtherCostIsChargedToThePeriodInWhichItIsSettled(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        at(BOUNDARY.minusMillis(5));
        Decision before = limiter.tryAcquire("k").block();
        at(BOUNDARY.plusMillis(5));
        limiter.settle(before, 3).block();
        assertThat(limiter.peek("k").block().limits().get(0).used()).isEqualTo(2);
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "lua", "values"})
    void aResetKeepsThePeriod(String kind) {
        RateLimiter utc = limiter(kind, PLAN.named("plan"));
        RateLimiter tokyo = limiter(kind, PLAN.in(TOKYO).named("plan"));
        at(BOUNDARY.minus(Duration.ofHours(10)));
        utc.tryAcquire(Charge.of("k", 3)).block();
        utc.reset("k").block();
        assertThat(tokyo.tryAcquire(Charge.of("k", 3)).block().limits().get(0).wholeAt())
                .isEqualTo(BOUNDARY);
    }

    /** Also if the clock is back before the boundary, and its end has not passed. */
    @ParameterizedTest
    @ValueSource(strings = {"lua", "values"})
    void aRefundOfChargedPermitsRemovesNoneOfTheNextPeriod(String kind) {
        RateLimiter limiter = limiter(kind, PLAN);
        at(BOUNDARY.plusMillis(5));
        StoreDecision taken =
                (StoreDecision) limiter.tryAcquire(Charge.of("k", 2)).block();
        StoreUsage usage = taken.usages().get(0);
        at(BOUNDARY.minusMillis(5));
        stored(kind)
                .correct(List.of(new RefundCharged(usage.claim(), usage.life(), BOUNDARY.toEpochMilli())))
                .block();
        assertThat(limiter.peek("k").block().limits().get(0).used()).isEqualTo(2);
        stored(kind)
                .correct(List.of(new RefundCharged(usage.claim(), usage.life(), usage.wholeAtMillis())))
                .block();
        assertThat(limiter.peek("k").block().limits().get(0).used()).isZero();
    }

    /** The instance learns the time of Redis by its replies, and this one is weeks ahead of the last. */
    @ParameterizedTest
    @ValueSource(longs = {20, -20})
    void aRequestWithOtherBoundariesIsSentAgain(long days) {
        RateLimiter limiter = limiter("lua", PLAN);
        at(BOUNDARY);
        limiter.tryAcquire("k").block();
        Instant later = BOUNDARY.plus(Duration.ofDays(days)).plusMillis(1);
        at(later);
        Decision decision = limiter.tryAcquire(Charge.of("other", 3)).block();
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.limits().get(0).used()).isEqualTo(3);
        assertThat(decision.limits().get(0).wholeAt())
                .isEqualTo(later.atZone(ZoneOffset.UTC)
                        .toLocalDate()
                        .plusDays(1)
                        .atStartOfDay(ZoneOffset.UTC)
                        .toInstant());
    }
}
