package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.internal.Text;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.test.StepVerifier;

class RateLimiterTest {

    private final ManualClock clock = new ManualClock();
    private final LocalStore store = LocalStore.bounded(100, clock);

    @Test
    void invalidArgumentsAreRejectedOnTheCall() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.tryAcquire(""));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.tryAcquire(Charge.of("a", -1)));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.peek(""));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.reset(""));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.refund(Charge.of("a", 0)))
                .withMessage("permits 0 cannot be refunded: expected 1 or more, for example 1");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.refund(Charge.of("a", 0)))
                .withMessageContaining("cannot be refunded");
        assertThatIllegalArgumentException()
                .isThrownBy(limiter::tryAcquire)
                .withMessage("no charge was given: expected at least one, for example Charge.of(\"user:42\")");
        assertThatNullPointerException().isThrownBy(() -> limiter.tryAcquire((String) null));
        assertThatNullPointerException()
                .isThrownBy(() -> limiter.refund((Decision) null))
                .withMessageStartingWith("decision is null: expected one");
        assertThatNullPointerException()
                .isThrownBy(() -> limiter.tryAcquire(Charge.of("a"), null))
                .withMessageStartingWith("one of the charges is null");
    }

    @Test
    void aLimiterWithoutLimitsNeedsThemInItsCharges() {
        RateLimiter limiter = limiter();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.tryAcquire("a"))
                .withMessageContaining("limiter test")
                .withMessageContaining("Charge.of(\"user:42\", Limit.perMinute(120))");
        assertThat(limiter.tryAcquire(Charge.of("a", Limit.perDay(1))).block().isAllowed())
                .isTrue();
    }

    @Test
    void unequalChargesOnOneCountAreRejected() {
        RateLimiter limiter = limiter();
        assertThatIllegalArgumentException()
                .isThrownBy(() ->
                        limiter.tryAcquire(Charge.of("a", Limit.perMinute(1)), Charge.of("a", Limit.perMinute(2))))
                .withMessageContaining("\"1/1m\"")
                .withMessageContaining("\"2/1m\"")
                .withMessageContaining(".named(\"burst\")");
    }

    @Test
    void tooManyChargesAreRejected() {
        RateLimiter limiter = limiter(Limit.perDay(1));
        Charge[] charges =
                IntStream.range(0, 17).mapToObj(i -> Charge.of("key-" + i)).toArray(Charge[]::new);
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.tryAcquire(charges))
                .withMessageContaining("expected at most 16");
        assertThat(limiter.tryAcquire(Arrays.copyOf(charges, 16)).block().limits())
                .hasSize(16);
        assertThat(limiter.tryAcquire(
                                Stream.generate(() -> Charge.of("a")).limit(17).toArray(Charge[]::new))
                        .block()
                        .isAllowed())
                .as("equal charges are one claim, with a cost above the limit")
                .isFalse();
    }

    @Test
    void costsThatAddUpBeyondALongAreDenied() {
        RateLimiter limiter = limiter(Limit.counter(Limit.MOST_COUNTER_PERMITS, Duration.ofDays(1)));
        Charge dear = Charge.of("a", Long.MAX_VALUE);
        Decision decision = limiter.tryAcquire(dear, dear).block();
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.retryAfter()).isEmpty();
    }

    @Test
    void severalChargesOfZeroOnOneKeyTakeNothing() {
        Charge nothing = Charge.of("a", 0);
        Decision decision =
                limiter(Limit.perMinute(1)).tryAcquire(nothing, nothing).block();
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.remaining()).isEqualTo(1);
    }

    @Test
    void aCostAboveTheLimitIsDeniedWithoutAStoreCall() {
        Limit small = Limit.perMinute(3);
        RateLimiter limiter = RateLimiter.builder("test")
                .store(new NoStore())
                .limit(small)
                .limit(Limit.perDay(1_000))
                .clock(clock)
                .build();
        Decision decision = limiter.tryAcquire(Charge.of("a", 4)).block();
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.source()).isEqualTo(Source.LIMITER);
        assertThat(decision.violated()).containsExactly(small);
        assertThat(decision.retryAfter()).isEmpty();
        assertThat(decision.limits()).isEmpty();
        assertThat(decision.remaining()).isZero();
        assertThat(decision.at()).isEqualTo(clock.instant());
        assertThat(limiter.peek(Charge.of("a", 4)).block().isAllowed()).isFalse();
        limiter.refund(decision).block();
    }

    @Test
    void aClosedLimiterFailsEveryOperation() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        Mono<Decision> before = limiter.tryAcquire("a");
        limiter.close();
        limiter.close();
        for (Mono<?> call : List.of(
                before, limiter.ready(), limiter.peek("a"), limiter.refund(Charge.of("a", 1)), limiter.reset("a"))) {
            StepVerifier.create(call)
                    .expectErrorSatisfies(e -> assertThat(e)
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("limiter test is closed"))
                    .verify(Duration.ofSeconds(10));
        }
        assertThat(limiter(Limit.perMinute(1)).tryAcquire("a").block().isAllowed())
                .as("the store is not closed")
                .isTrue();
    }

    @Test
    void aDecisionOfAnotherStoreIsNotRefunded() {
        RateLimiter limiter = limiter(Limit.perMinute(5));
        RateLimiter other = RateLimiter.builder("test")
                .store(LocalStore.bounded(100, clock))
                .limit(Limit.perMinute(5))
                .build();
        Decision decision = other.tryAcquire("a").block();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.refund(decision))
                .withMessageContaining("made by another store than that of limiter test")
                .withMessageContaining("expected a decision of this limiter");
        other.refund(decision).block();
    }

    @RepeatedTest(20)
    void concurrentRefundsOfADecisionRefundItOnce() {
        RateLimiter limiter = limiter(Limit.perMinute(100));
        limiter.tryAcquire(Charge.of("a", 50)).block();
        Decision decision = limiter.tryAcquire(Charge.of("a", 2)).block();
        Flux.range(0, 8)
                .parallel(4)
                .runOn(Schedulers.boundedElastic())
                .flatMap(i -> limiter.refund(decision).thenReturn(i))
                .sequential()
                .blockLast();
        assertThat(limiter.peek("a").block().remaining()).isEqualTo(50);
    }

    @Test
    void aLimiterNeedsAStore() {
        assertThatIllegalStateException()
                .isThrownBy(() -> RateLimiter.builder("api").build())
                .withMessageContaining(".store(RedisStore.create(redisClient))");
    }

    @Test
    void limitsThatWouldShareACountAreRejectedByTheBuilder() {
        assertThatIllegalArgumentException().isThrownBy(() -> limiter(Limit.perMinute(1), Limit.perMinute(2)));
    }

    @Test
    void aStoreWithoutSettlementsFailsThem() {
        LimitStore without = new Unprotected(store) {
            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                return Mono.just(List.of(Corrected.of(CorrectionOutcome.UNSUPPORTED)));
            }
        };
        RateLimiter limiter = RateLimiter.builder("test")
                .store(without)
                .limit(Limit.perMinute(10))
                .build();
        Decision decision = limiter.tryAcquire(Charge.of("a", 2)).block();
        assertThatExceptionOfType(UnsupportedOperationException.class)
                .isThrownBy(() -> limiter.settle(decision, 3).block())
                .withMessage("LocalStore cannot settle costs: expected a store that applies a Settlement, for example"
                        + " LocalStore");
    }

    /** A resilient store would probe its store for ever, because no limiter would close it. */
    @Test
    void theBuilderRejectsLimitsBeforeItUsesTheStore() {
        AtomicInteger prepared = new AtomicInteger();
        LimitStore watched = new WithoutDeadline(store) {
            @Override
            public Mono<Void> prepare(String node) {
                prepared.incrementAndGet();
                return Mono.empty();
            }
        };
        RateLimiterBuilder builder = RateLimiter.builder("test").store(watched).limit(Limit.perMinute(1));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.limit(Limit.perMinute(2)).build());
        assertThat(prepared).hasValue(0);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "a b", "a:b", "a{b}", "ä"})
    void namesThatNeedEscapingAreRejected(String name) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RateLimiter.builder(name))
                .withMessageContaining("limiter name " + Text.quote(name))
                .withMessageContaining("for example \"api\"");
    }

    @Test
    void textsForLogsContainNoKeys() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        Decision first = limiter.tryAcquire("secret").block();
        Decision second = limiter.tryAcquire("secret").block();
        assertThat(first.toString())
                .startsWith("Decision[allowed, source=LOCAL, at=")
                .doesNotContain("secret");
        assertThat(second.toString())
                .startsWith("Decision[denied, source=LOCAL, at=")
                .contains("retryAfter=PT1M0.001S, violated=[1/1m]")
                .doesNotContain("secret");
        assertThat(limiter).hasToString("RateLimiter[test, limits=[1/1m], store=LocalStore]");
        assertThat(limiter.name()).isEqualTo("test");
        assertThat(limiter.limits()).containsExactly(Limit.perMinute(1));
    }

    @Test
    void anErrorOfTheStoreIsPassedOn() {
        RateLimiter limiter = RateLimiter.builder("test")
                .store(new NoStore())
                .limit(Limit.perDay(1))
                .build();
        StepVerifier.create(limiter.tryAcquire("a")).verifyErrorMessage("there is no store");
    }

    @Test
    void deadlineFallbackAndCachedDenialsApplyToAStoreWithoutADeadline() {
        LimitStore silent = new WithoutDeadline(store) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                return Mono.never();
            }
        };
        try (RateLimiter limiter = RateLimiter.builder("silent")
                        .store(silent)
                        .limit(Limit.perDay(1))
                        .deadline(Duration.ofMillis(10))
                        .fallback(Fallback.deny())
                        .build();
                RateLimiter caching = protectedLimiter(Duration.ofSeconds(1));
                RateLimiter asking = protectedLimiter(Duration.ZERO)) {
            assertThat(limiter.deadline()).isEqualTo(Duration.ofMillis(10));
            assertThat(limiter.tryAcquire("a").block().isAllowed()).isFalse();
            assertThat(thirdSource(caching)).isEqualTo(Source.CACHED_DENIAL);
            assertThat(thirdSource(asking)).isEqualTo(Source.LOCAL);
        }
    }

    private RateLimiter protectedLimiter(Duration cacheDenials) {
        return RateLimiter.builder("caching-" + cacheDenials.toMillis())
                .store(new WithoutDeadline(store))
                .limit(Limit.perDay(1))
                .cacheDenials(cacheDenials)
                .build();
    }

    private static Source thirdSource(RateLimiter limiter) {
        limiter.tryAcquire("a").block();
        limiter.tryAcquire("a").block();
        return limiter.tryAcquire("a").block().source();
    }

    private RateLimiter limiter(Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder("test").store(store);
        List.of(limits).forEach(builder::limit);
        return builder.build();
    }

    /** A store that fails each call. */
    private static final class NoStore extends Unprotected {

        NoStore() {
            super(LocalStore.bounded(16));
        }

        @Override
        protected <T> Mono<T> around(Mono<T> operation) {
            return Mono.error(new LimitStoreException(Kind.REJECTED, "there is no store"));
        }
    }
}
