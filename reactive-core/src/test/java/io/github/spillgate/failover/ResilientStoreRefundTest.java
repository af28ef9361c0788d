package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.RefundOldest;
import io.github.spillgate.testkit.DecidedClaims;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** A refund of a key's permits takes effect at most once, and frees no permit that was taken after it. */
class ResilientStoreRefundTest extends ResilientStoreFixture {

    private RateLimiter limiter;

    @Test
    void aRefundSentAsAProbeTakesEffectOnce() {
        RateLimiter limiter = limiter(Limit.parse("10/1m"));
        assertThat(granted(limiter, 10)).isEqualTo(10);
        remote.isUnreachable();
        limiter.peek("a").subscribe();
        time.passMillis(2_000);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        limiter.refund(Charge.of("a", 3)).subscribe();
        assertThat(granted(limiter, 10)).isEqualTo(3);
    }

    @Test
    void aRefundRefusedLateIsNotMadeLocally() {
        RateLimiter limiter = limiter(Limit.parse("10/1m"));
        assertThat(granted(limiter, 10)).isEqualTo(10);
        remote.holdsReplies();
        limiter.refund(Charge.of("a", 3)).subscribe();
        time.passMillis(150);
        remote.failAllHeld(new LimitStoreException(Kind.REFUSED, "NOPERM"));
        remote.isUnreachable();
        assertThat(granted(limiter, 10)).isZero();
    }

    @Test
    void aRefundBeforeAResetFreesNoLaterPermits() {
        RateLimiter limiter = limiter(Limit.parse("5/1m"));
        remote.holdsReplies();
        limiter.refund(Charge.of("a", 5)).subscribe();
        time.passMillis(150);
        limiter.reset("a").subscribe();
        time.passMillis(150);
        granted(limiter, 5);
        time.passMillis(150);
        long before = limiter.state().toReconcile();
        remote.failAllHeld(new LimitStoreException(Kind.UNREACHABLE, "no connection"));
        assertThat(before + granted(limiter, 10)).isLessThanOrEqualTo(5);
    }

    @Test
    void permitsOfOtherInstancesAreRefundedInTheStore() {
        RateLimiter other =
                remote.unprotected("api").limit(Limit.parse("100/1m")).build();
        other.tryAcquire(Charge.of("a", 5)).block();
        RateLimiter limiter = limiter(Limit.parse("100/1m"));
        remote.holdsReplies();
        granted(limiter, 1);
        time.passMillis(150);
        limiter.refund(Charge.of("a", 3)).subscribe();
        time.passMillis(150);
        remote.isAvailable();
        remote.replyToAll();
        time.passMillis(5_000);
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(other.peek("a").block().limits().get(0).used()).isEqualTo(3);
    }

    /** The store has charged one of them. It would refund no more, although it has to charge the others later. */
    @Test
    void localGrantsAreRefundedInTheFallbackBeforeTheyAreReconciled() {
        RateLimiter limiter = limiter(Limit.parse("100/1m"));
        remote.holdsReplies();
        granted(limiter, 1);
        time.passMillis(150);
        assertThat(granted(limiter, 2)).isEqualTo(2);
        limiter.refund(Charge.of("a", 2)).subscribe();
        time.passMillis(150);
        remote.isAvailable();
        remote.replyToAll();
        time.passMillis(5_000);
        assertThat(limiter.peek("a").block().limits().get(0).used()).isEqualTo(1);
    }

    @Test
    void aRefundKeepsTheDeadlineOfACallerThatHasWaited() {
        RateLimiter limiter = limiter(Limit.parse("5/1m"));
        remote.holdsReplies();
        granted(limiter, 1);
        time.passMillis(1_000);
        AtomicLong end = new AtomicLong();
        long start = time.millis();
        Mono.delay(Duration.ofMillis(90))
                .then(Mono.defer(() -> limiter.refund(Charge.of("a", 1))))
                .contextWrite(context -> context.put(
                        LimitStore.WAITING_SINCE, Schedulers.parallel().now(TimeUnit.NANOSECONDS)))
                .subscribe(null, null, () -> end.set(time.millis()));
        time.passMillis(1_000);
        assertThat(end.get() - start).isBetween(1L, 110L);
    }

    @Test
    void aRefundGoesOnAsSoonAsLocalGrantsAreReconciled() {
        assertThat(durationOfARefund(() -> {
                    remote.isAvailable();
                    remote.replyToAll();
                }))
                .isBetween(20L, 50L);
    }

    @Test
    void aRefundGoesOnAsSoonAsTheStoreIsUnavailable() {
        assertThat(durationOfARefund(() -> {
                    remote.isUnreachable();
                    limiter.peek("b").subscribe();
                }))
                .isBetween(20L, 50L);
        assertThat(granted(limiter, 10)).as("refunded in the fallback").isEqualTo(5);
    }

    /** Returns how many milliseconds a refund takes that waits for an unanswered request; after 20 ms, this happens. */
    private long durationOfARefund(Runnable event) {
        limiter = limiter(Limit.parse("5/1m"));
        remote.holdsReplies();
        granted(limiter, 1);
        time.passMillis(1_000);
        long start = time.millis();
        AtomicLong end = new AtomicLong();
        limiter.refund(Charge.of("a", 1)).subscribe(null, null, () -> end.set(time.millis()));
        time.passMillis(20);
        assertThat(end).as("end of the refund").hasValue(0);
        event.run();
        time.passMillis(1_000);
        return end.get() - start;
    }

    @Test
    void eachSubscriptionIsASeparateRefund() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        assertThat(granted(limiter, 10)).isEqualTo(10);
        List<Claim> claims = DecidedClaims.of(limiter.peek("a").block()).stream()
                .map(claim -> claim.withPermits(2))
                .toList();
        Mono<Void> refund = store.correct(RefundOldest.of(claims)).then();
        remote.neverReplies();
        refund.subscribe();
        time.passMillis(150);
        remote.isUnreachable();
        limiter.tryAcquire("x").subscribe();
        refund.subscribe();
        time.passMillis(1);
        assertThat(granted(limiter, 10)).isEqualTo(2);
    }

    private static int granted(RateLimiter limiter, int asked) {
        AtomicInteger granted = new AtomicInteger();
        for (int i = 0; i < asked; i++) {
            limiter.tryAcquire("a").subscribe(decision -> granted.addAndGet(decision.isAllowed() ? 1 : 0));
        }
        return granted.get();
    }
}
