package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.InterceptedScheduler;
import io.github.spillgate.testkit.StoreForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.test.StepVerifier;

/** Permits that are lost before the work could begin. */
class LostHoldTest {

    /** The decision took longer than the hold time, and the timer runs before the work is subscribed to. */
    @Test
    void workDoesNotRunWithoutItsPermit() {
        try (InterceptedScheduler scheduler = new InterceptedScheduler()) {
            LocalStore store = LocalStore.bounded(100);
            Sinks.Empty<Void> reply = Sinks.empty();
            RateLimiter limiter = RateLimiter.builder("test")
                    .store(StoreForTests.taking(
                            store, claims -> reply.asMono().then(store.take(StoreRequest.take(claims)))))
                    .limit(Limit.concurrent(1))
                    .build();
            AtomicInteger runs = new AtomicInteger();
            StepVerifier.create(limiter.whileHolding("a", Mono.fromSupplier(runs::incrementAndGet)))
                    .then(() -> {
                        scheduler.passMillis(60_000);
                        scheduler.runNextTimerAtOnce();
                        reply.tryEmitEmpty();
                    })
                    .verifyError(HoldExpiredException.class);
            assertThat(runs).hasValue(0);
            assertThat(limiter.peek("a").block().remaining()).isEqualTo(1);
        }
    }

    /** One timer serves all work of a limiter. Reactor throws such an error on. */
    @Test
    void otherWorkIsRenewedIfAClassOfTheActionForLostPermitsIsMissing() {
        AtomicInteger renewals = new AtomicInteger();
        CountDownLatch lost = new CountDownLatch(1);
        Limit brief = Limit.concurrent(1).hold(Duration.ofSeconds(1)).named("brief");
        Limit other = Limit.concurrent(1).hold(Duration.ofSeconds(5)).named("other");
        RateLimiter limiter = RateLimiter.builder("test")
                .store(new Unprotected(LocalStore.bounded(100)) {
                    @Override
                    public String node(List<Claim> claims) {
                        return claims.get(0).key();
                    }

                    @Override
                    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
                        if (holds.get(0).key().equals("down")) {
                            return Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"));
                        }
                        renewals.incrementAndGet();
                        return super.renew(holds);
                    }
                })
                .build();
        limiter.keepHolding(limiter.tryAcquire(Charge.of("down", brief)).block(), expired -> {
            lost.countDown();
            throw new NoClassDefFoundError("Missing");
        });
        Disposable kept =
                limiter.keepHolding(limiter.tryAcquire(Charge.of("up", other)).block(), expired -> {});
        await().until(() -> lost.getCount() == 0);
        int before = renewals.get();
        await().until(() -> renewals.get() > before + 1);
        kept.dispose();
        assertThat(limiter.holders()).isZero();
    }
}
