package io.github.spillgate.internal.waiting;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.ForwardingLimitStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** Near marks with shares, waiters, replies in any order, and usage that falls between decisions. */
class NearMarksOrderTest {

    private final ManualClock clock = new ManualClock();
    private final LocalStore store = LocalStore.bounded(100_000, clock);
    private final RateLimiter limiter = Unprotected.limiter(store);

    private final NearMarks instance =
            new NearMarks(store, () -> Duration.ofMillis(clock.millis()).toNanos());

    /** A store that does not reply. */
    private LimitStore down() {
        return new ForwardingLimitStore(store) {
            @Override
            public Mono<StoreDecision> take(StoreRequest request) {
                return Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "down"));
            }

            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                return Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "down"));
            }

            @Override
            public Optional<Duration> deadline() {
                return Optional.empty();
            }
        };
    }

    private StoreDecision take(NearMarks from, Charge charge) {
        return from.take(StoreRequest.take(DecidedClaims.of(limiter.peek(charge).block())))
                .block();
    }

    // Shares

    @ParameterizedTest
    @ValueSource(strings = {"1000 monthly near=80%", "1000/1h near=80%", "1000/1h counter near=80%"})
    void theFirstRequestInAnOutageWithFiveInstancesIsNotNear(String text) {
        LimitStore down = down();
        RateLimiter outage = RateLimiter.builder("api")
                .store(ResilientStore.builder(down)
                        .fallback(Fallback.local(1_000).share(0.2))
                        .build())
                .limit(Limit.parse(text))
                .build();
        Decision first = outage.tryAcquire("customer").block();
        assertThat(first.isAllowed()).isTrue();
        assertThat(first.near())
                .as("of 1,000 permits, one is used, and this instance may grant 200")
                .isEmpty();
    }

    @Test
    void aLocalStoreWithAShareReportsAQuotaInEachPeriod() {
        store.share(0.5);
        Charge charge = Charge.of("k", Limit.daily(10).near(80));
        List<Integer> reports = new ArrayList<>();
        for (int day = 0; day < 4; day++) {
            int near = 0;
            for (int i = 0; i < 5; i++) {
                near += take(instance, charge).near().size();
            }
            reports.add(near);
            clock.advance(Duration.ofDays(1));
        }
        assertThat(reports).containsExactly(1, 1, 1, 1);
    }

    // Below half of the mark

    @ParameterizedTest
    @ValueSource(strings = {"1 concurrent near=100%", "2 concurrent near=100%", "3 concurrent near=100%"})
    void aConcurrencyLimitIsReportedAgainAfterAllPermitsWereReleased(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter holding = Unprotected.limiter(store, limit);
        for (int round = 0; round < 3; round++) {
            List<Decision> made = new ArrayList<>();
            int near = 0;
            for (int i = 0; i < limit.permits(); i++) {
                Decision decision = holding.tryAcquire("k").block();
                near += decision.near().size();
                made.add(decision);
            }
            assertThat(near).as("round %d", round).isOne();
            made.forEach(decision -> holding.release(decision).block());
            clock.advanceMillis(1);
            assertThat(holding.peek("k").block().limits().get(0).used()).isZero();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void aSmallLimitIsReportedAgainAfterAReset(int permits) {
        RateLimiter small = Unprotected.limiter(store, Limit.perHour(permits).near(100));
        for (int round = 0; round < 2; round++) {
            int near = 0;
            for (int i = 0; i < permits; i++) {
                near += small.tryAcquire("k").block().near().size();
            }
            assertThat(near).as("round %d", round).isOne();
            small.reset("k").block();
            clock.advanceMillis(1);
        }
    }

    /** Tokens of a language model, uploads: a request costs a large part of the limit. */
    @Test
    void aLargeCostIsReportedAgainAfterTheUsageHasFallen() {
        Charge eight = Charge.of("k", Limit.parse("10/10s near=80%")).permits(8);
        assertThat(take(instance, eight).near()).hasSize(1);
        clock.advanceMillis(9_000);
        assertThat(take(instance, eight.permits(1)).near()).isEmpty();
        clock.advanceMillis(2_000);
        assertThat(limiter.peek(eight).block().limits().get(0).used()).isOne();
        assertThat(take(instance, eight).near())
                .as("before this, 1 of 10 was used")
                .hasSize(1);
    }

    // Waiters

    @ParameterizedTest
    @ValueSource(strings = {"10 daily near=80%", "10/1h near=80%"})
    void aThrottledStreamReportsAlthoughASubscriberWasBusy(String text) {
        AtomicInteger near = new AtomicInteger();
        RateLimiter throttling = RateLimiter.builder("api")
                .store(new Unprotected(store))
                .limit(Limit.parse(text))
                .listener(
                        (name, decision, took) -> near.addAndGet(decision.near().size()))
                .build();
        List<Integer> emitted = new ArrayList<>();
        Flux.range(0, 10)
                .transform(throttling.throttle("k"))
                .doOnNext(i -> {
                    if (i == 1) {
                        Mono.delay(Duration.ofMillis(50)).block(); // works for longer than a permit is fresh
                    }
                    emitted.add(i);
                })
                .blockLast(Duration.ofSeconds(10));
        assertThat(emitted).hasSize(10);
        assertThat(throttling.peek("k").block().limits().get(0).used()).isEqualTo(10);
        assertThat(near).hasValue(1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"10/1h near=80%", "10/1h counter near=80%", "10 concurrent near=80%"})
    void aWaiterReportsAlthoughItsFirstAttemptWasDenied(String text) {
        Limit limit = Limit.parse(text);
        RateLimiter other = Unprotected.limiter(store, limit);
        Decision one = other.tryAcquire("k").block();
        other.tryAcquire(Charge.of("k", 9)).block();
        RateLimiter waiting = Unprotected.limiter(store, limit);
        Sinks.One<Decision> granted = Sinks.one();
        waiting.acquire("k", Duration.ofMinutes(90)).subscribe(granted::tryEmitValue);
        if (limit.holdsPermits()) {
            other.release(one).block();
        } else {
            waiting.refund(Charge.of("k", 1)).block();
        }
        Decision made = granted.asMono().block(Duration.ofSeconds(5));
        assertThat(made.isAllowed()).isTrue();
        assertThat(made.limits().get(0).used()).isEqualTo(10);
        assertThat(made.near()).as("this instance has reported nothing before").hasSize(1);
    }

    @Test
    void aQuotaIsReportedAlthoughTheWaiterThatReachedTheMarkWasCancelled() {
        AtomicBoolean isHeld = new AtomicBoolean();
        Sinks.Empty<Void> reply = Sinks.empty();
        LimitStore slow = new Unprotected(store) {
            @Override
            public Mono<StoreDecision> take(StoreRequest request) {
                return isHeld.get() ? super.take(request).delayUntil(made -> reply.asMono()) : super.take(request);
            }
        };
        RateLimiter waiting = RateLimiter.builder("api")
                .store(slow)
                .limit(Limit.daily(10).near(80))
                .build();
        waiting.tryAcquire(Charge.of("k", 7)).block();
        isHeld.set(true);
        Disposable waiter = waiting.acquire("k", Duration.ofSeconds(5)).subscribe();
        waiter.dispose();
        isHeld.set(false);
        reply.tryEmitEmpty();
        assertThat(waiting.peek("k").block().limits().get(0).used())
                .as("refunded")
                .isEqualTo(7);
        int near = 0;
        for (int i = 0; i < 3; i++) {
            near += waiting.tryAcquire("k").block().near().size();
        }
        assertThat(near).isOne();
    }

    /** Replies arrive on several threads, so in any order. */
    @Test
    void aReplyThatArrivesLateDoesNotLetAKeyBeReportedAgain() {
        Sinks.Empty<Void> late = Sinks.empty();
        AtomicBoolean isFirst = new AtomicBoolean(true);
        LimitStore shuffled = new Unprotected(store) {
            @Override
            public Mono<StoreDecision> take(StoreRequest request) {
                return isFirst.getAndSet(false)
                        ? super.take(request).delayUntil(made -> late.asMono())
                        : super.take(request);
            }
        };
        AtomicInteger near = new AtomicInteger();
        RateLimiter busy = RateLimiter.builder("api")
                .store(shuffled)
                .limit(Limit.perHour(20).near(50))
                .listener(
                        (name, decision, took) -> near.addAndGet(decision.near().size()))
                .build();
        busy.tryAcquire("k").subscribe();
        for (int i = 0; i < 12; i++) {
            busy.tryAcquire("k").block();
        }
        assertThat(near).hasValue(1);
        late.tryEmitEmpty();
        busy.tryAcquire("k").block();
        assertThat(near).as("the usage never was below half of the mark since").hasValue(1);
    }

    /** An outage from one day to the next, with two instances. */
    @Test
    void anOutageOverMidnightReportsAQuotaOnEachDay() {
        LimitStore down = down();
        ResilientStore guarded = ResilientStore.builder(down)
                .fallback(Fallback.local(1_000, clock).share(0.5))
                .build();
        RateLimiter limiter = RateLimiter.builder("api")
                .store(guarded)
                .limit(Limit.daily(100).near(80))
                .build();
        List<Integer> reports = new ArrayList<>();
        for (int day = 0; day < 3; day++) {
            int near = 0;
            for (int i = 0; i < 50; i++) {
                near += limiter.tryAcquire("k").block().near().size();
            }
            reports.add(near);
            clock.advance(Duration.ofDays(1));
        }
        assertThat(reports).containsExactly(1, 1, 1);
    }
}
