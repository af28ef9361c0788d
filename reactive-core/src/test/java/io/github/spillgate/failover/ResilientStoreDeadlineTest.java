package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookup;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The deadline of every operation: the store answers before it, or the fallback does. */
class ResilientStoreDeadlineTest extends ResilientStoreFixture {

    @Test
    void theFallbackDecidesAtTheDeadline() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire("a"));
        time.passMillis(99);
        assertThat(signals).isEmpty();
        time.pass(Duration.ofMillis(1));
        assertThat(sources()).containsExactly(Source.LOCAL);
        assertThat(limiter.state().fallbacks()).isEqualTo(1);
        assertThat(limiter.state().problem())
                .hasValue("ControlledStore did not reply within 100 ms, the deadline of the limiter");
    }

    static Stream<Function<RateLimiter, Mono<?>>> everyOperation() {
        return Stream.of(
                limiter -> limiter.tryAcquire(Charge.of("a", 3)),
                limiter -> limiter.peek("a"),
                limiter -> limiter.acquire("a", Duration.ZERO),
                limiter -> limiter.refund(Charge.of("a", 1)).thenReturn("done"),
                limiter -> limiter.reset("a").thenReturn("done"),
                limiter -> Flux.just("element").transform(limiter.throttle("a")).next());
    }

    @ParameterizedTest
    @MethodSource("everyOperation")
    void everyOperationEndsByTheDeadline(Function<RateLimiter, Mono<?>> question) {
        RateLimiter limiter = limiter(LIMIT);
        remote.neverReplies();
        listen(question.apply(limiter));
        time.passMillis(99);
        assertThat(signals).isEmpty();
        time.pass(Duration.ofMillis(1));
        assertThat(signals).hasSize(1).doesNotHaveAnyElementsOfTypes(Throwable.class);
    }

    @Test
    void aRefundOfADecisionEndsByTheDeadline() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire("a"));
        remote.neverReplies();
        listen(limiter.refund(decision).thenReturn("done"));
        time.passMillis(100);
        assertThat(signals).containsExactly("done");
    }

    /** Such as one for garbage collection. */
    @Test
    void aPauseOfTheProcessIsNoFailureIfTheStoreRepliesAfterIt() {
        RateLimiter limiter = limiter(Limit.perHour(1_000));
        pauseDuring(limiter, 100);
        remote.replyToAll();
        remote.isAvailable();
        time.passMillis(200);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().problem()).isEmpty();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
        // The late replies cancel the local grants.
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(used("a", Limit.perHour(1_000))).isEqualTo(100);
    }

    /** The refusals were sent before the deadline, and are read before the late timers run. */
    @Test
    void aPauseOfTheProcessIsNoFailureIfTheStoreHasRefusedLateRequests() {
        RateLimiter limiter = limiter(Limit.perHour(1_000));
        pauseDuring(limiter, 100, () -> remote.failAllHeld(new LimitStoreException(Kind.LATE, "too late")));
        time.passMillis(200);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void theBreakerOpensIfTheStoreHangsBeyondAPauseOfTheProcess() {
        RateLimiter limiter = limiter(Limit.perHour(1_000));
        pauseDuring(limiter, 100);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        time.passMillis(200);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        assertThat(limiter.state().problem().orElseThrow()).contains("did not reply within 100 ms");
    }

    /** All timers are late by twice the deadline, after which the fallback decides. */
    private void pauseDuring(RateLimiter limiter, int requests) {
        pauseDuring(limiter, requests, () -> {});
    }

    private void pauseDuring(RateLimiter limiter, int requests, Runnable afterPause) {
        remote.holdsReplies();
        for (int i = 0; i < requests; i++) {
            listen(limiter.tryAcquire("a"));
        }
        Runnable pause = () -> {
            time.passMillis(200);
            afterPause.run();
        };
        Schedulers.parallel().schedule(pause, 10, TimeUnit.MILLISECONDS);
        time.passMillis(30);
        assertThat(sources()).hasSize(requests).containsOnly(Source.LOCAL);
        assertThat(decisions()).allMatch(Decision::isAllowed);
    }

    @Test
    void theFallbackDecidesAtOnceOnAnError() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().problem()).hasValue("told to fail");
        remote.isAvailable();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void anExceptionThrownByTheStoreIsAFailure() {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsWith(new IllegalStateException("not one of ours"));
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        RateLimiter other = RateLimiter.builder("other")
                .store(WithoutDeadline.taking(remote, claims -> {
                    throw new IllegalStateException("thrown before there is anything to subscribe to");
                }))
                .limit(LIMIT)
                .build();
        assertThat(now(other.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
    }

    @Test
    void theFallbackDecidesIfTheStoreFailsToNameThePart() {
        RateLimiter limiter = limiterOn(
                new WithoutDeadline(remote) {
                    @Override
                    public String node(List<Claim> claims) {
                        throw new IllegalStateException("broken");
                    }
                },
                Fallback.deny());
        List<Throwable> dropped = new ArrayList<>();
        Hooks.onErrorDropped(dropped::add);
        try {
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.FALLBACK);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(dropped).singleElement().satisfies(error -> assertThat(error).hasMessage("broken"));
        assertThat(remote.calls()).isZero();
    }

    @Test
    void theDeadlineBeginsAfterTheLookup() {
        remote.holdsReplies();
        // The clock is far from zero.
        time.pass(Duration.ofHours(1));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(remote)
                .fallback(local)
                .lookup(LimitLookup.of(key -> Mono.delay(Duration.ofMillis(40)).thenReturn(List.of(LIMIT)))
                        .whenEmpty(LimitLookup.Otherwise.deny())
                        .whenFailed(LimitLookup.Otherwise.deny())
                        .whenTimedOut(LimitLookup.Otherwise.deny()))
                .build();
        listen(limiter.tryAcquire("a"));
        time.passMillis(139);
        assertThat(signals).isEmpty();
        assertThat(limiter.state().problem()).isEmpty();
        time.passMillis(1);
        assertThat(sources()).containsExactly(Source.LOCAL);
        assertThat(limiter.state().problem()).isPresent();
    }

    @Test
    void aLookupMayTakeLongerThanTheDeadline() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(remote)
                .fallback(local)
                .limit(LIMIT)
                .lookup(LimitLookup.of(
                                key -> Mono.delay(Duration.ofMillis(300)).thenReturn(List.of(Limit.perSecond(1))))
                        .timeout(Duration.ofMillis(500)))
                .build();
        listen(limiter.tryAcquire("a"));
        time.passMillis(300);
        assertThat(sources()).containsExactly(Source.OTHER);
    }

    @Test
    void aQueuedWaiterGetsTheWholeDeadlineForItsTurn() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(remote)
                .fallback(local)
                .lookup(LimitLookup.of(key -> Mono.delay(Duration.ofMillis(40)).thenReturn(List.of(Limit.perSecond(1))))
                        .whenEmpty(LimitLookup.Otherwise.deny())
                        .whenFailed(LimitLookup.Otherwise.deny())
                        .whenTimedOut(LimitLookup.Otherwise.deny()))
                .build();
        listen(limiter.acquire("a", Duration.ofSeconds(5)));
        listen(limiter.acquire("a", Duration.ofSeconds(5)));
        time.passMillis(1_200);
        assertThat(sources()).containsExactly(Source.OTHER, Source.OTHER);
    }
}
