package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookup;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.Thorough;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.Fuseable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.test.StepVerifier;

class CachedLimitsTest {

    private static final List<Limit> LIMITS = List.of(Limit.perMinute(5));

    private final ManualClock clock = new ManualClock();
    private final List<String> lookedUp = new ArrayList<>();

    @Test
    void aKeyIsLookedUpOnceUntilItExpires() {
        CachedLimits limits = cached(Mono.just(LIMITS));
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        assertThat(limits.apply("a")).as("at hand").isInstanceOf(Fuseable.ScalarCallable.class);
        clock.advance(Duration.ofMillis(59_999));
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        limits.apply("b").block();
        assertThat(lookedUp).containsExactly("a", "b");
        clock.advanceMillis(1);
        limits.apply("a").block();
        assertThat(lookedUp).containsExactly("a", "b", "a");
    }

    @Test
    void anEmptyResultIsCached() {
        CachedLimits limits = cached(Mono.empty());
        assertThat(limits.apply("a").block()).isEmpty();
        assertThat(limits.apply("a").block()).isEmpty();
        assertThat(lookedUp).containsExactly("a");
    }

    @Test
    void aFailureIsNotCached() {
        CachedLimits limits = cached(Mono.error(new IllegalStateException("no database")));
        StepVerifier.create(limits.apply("a")).verifyErrorMessage("no database");
        StepVerifier.create(limits.apply("a")).verifyErrorMessage("no database");
        assertThat(lookedUp).containsExactly("a", "a");
        assertThat(limits.size()).isZero();
        CachedLimits throwing = cached(key -> {
            throw new IllegalStateException("broken");
        });
        StepVerifier.create(throwing.apply("a")).verifyErrorMessage("broken");
        assertThat(throwing.size()).isZero();
    }

    @Test
    void concurrentCallersShareOneLookup() {
        Sinks.One<Collection<Limit>> answer = Sinks.one();
        CachedLimits limits = cached(answer.asMono());
        List<Collection<Limit>> found = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            limits.apply("a").subscribe(found::add);
        }
        assertThat(lookedUp).containsExactly("a");
        answer.tryEmitValue(LIMITS);
        assertThat(found).containsExactly(LIMITS, LIMITS, LIMITS);
        Mono<Collection<Limit>> again = limits.apply("a");
        assertThat(again.block()).isEqualTo(LIMITS);
        assertThat(lookedUp).containsExactly("a");
    }

    @Test
    void aLookupIsCancelledWhenAllSubscribersCancel() {
        AtomicInteger cancelled = new AtomicInteger();
        CachedLimits limits = cached(Mono.<Collection<Limit>>never().doOnCancel(cancelled::incrementAndGet));
        Disposable first = limits.apply("a").subscribe();
        Disposable second = limits.apply("a").subscribe();
        first.dispose();
        assertThat(cancelled).hasValue(0);
        second.dispose();
        assertThat(cancelled).hasValue(1);
        assertThat(limits.size()).isZero();
        limits.apply("a").subscribe().dispose();
        assertThat(lookedUp).containsExactly("a", "a");
    }

    @Test
    void aForgottenKeyIsLookedUpAgainDuringAnOldLookup() {
        List<Sinks.One<Collection<Limit>>> answers = new ArrayList<>();
        CachedLimits limits = cached(key -> {
            Sinks.One<Collection<Limit>> answer = Sinks.one();
            answers.add(answer);
            return answer.asMono();
        });
        List<Collection<Limit>> found = new ArrayList<>();
        limits.apply("a").subscribe(found::add);
        limits.forget("a");
        limits.apply("a").subscribe(found::add);
        List<Limit> newer = List.of(Limit.perMinute(9));
        answers.get(1).tryEmitValue(newer);
        answers.get(0).tryEmitValue(LIMITS);
        assertThat(found).containsExactly(newer, LIMITS);
        assertThat(limits.apply("a").block()).isEqualTo(newer);
    }

    @Test
    void memoryIsBoundedForLongKeysAndHangingLookups() {
        CachedLimits limits = cached(Mono.just(LIMITS));
        for (int i = 0; i < 1_000; i++) {
            limits.apply("key-" + i).block();
        }
        assertThat(limits.size()).isBetween(1L, 100L);
        String longKey = "k".repeat(256 * 200);
        limits.apply(longKey).block();
        limits.size();
        limits.apply(longKey).block();
        assertThat(lookedUp.stream().filter(longKey::equals).count())
                .as("is more than all others together")
                .isEqualTo(2);
        CachedLimits hanging = cached(Mono.never());
        for (int i = 0; i < 1_000; i++) {
            hanging.apply("key-" + i).subscribe();
        }
        assertThat(hanging.size()).isBetween(1L, 100L);
    }

    @Test
    void aHangingLookupIsRemovedWhenItTimesOut() {
        CachedLimits limits = CachedLimits.of(key -> Mono.never(), 10, Duration.ofMinutes(1));
        RateLimiter limiter = RateLimiter.builder("test")
                .store(LocalStore.bounded(100))
                .limit(Limit.perDay(7))
                .lookup(LimitLookup.of(limits).timeout(Duration.ofMillis(1)))
                .build();
        Decision decision = limiter.tryAcquire("a").block();
        assertThat(decision.remaining()).isEqualTo(6);
        await().until(() -> limits.size() == 0);
    }

    @Test
    void aCallerAfterACancelDoesNotWaitForAHangingLookup() {
        CachedLimits limits = cached(key -> {
            lookedUp.add(key);
            return lookedUp.size() == 1 ? Mono.never() : Mono.just(LIMITS);
        });
        Disposable patient = limits.apply("a").subscribe();
        limits.apply("a").subscribe().dispose();
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        assertThat(lookedUp).hasSize(2);
        patient.dispose();
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        assertThat(lookedUp).hasSize(2);
    }

    @Test
    void aReusedMonoSeesTheExpiry() {
        CachedLimits limits = cached(Mono.just(LIMITS));
        Mono<Collection<Limit>> kept = limits.apply("a");
        kept.block();
        clock.advance(Duration.ofMinutes(2));
        kept.block();
        assertThat(lookedUp).containsExactly("a", "a");
    }

    @Test
    void anErrorOfTheLookupIsNotCached() {
        CachedLimits limits = cached(key -> {
            lookedUp.add(key);
            if (lookedUp.size() == 1) {
                throw new NoClassDefFoundError("gone");
            }
            return Mono.just(LIMITS);
        });
        assertThatThrownBy(() -> limits.apply("a").block()).isInstanceOf(NoClassDefFoundError.class);
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
    }

    @Test
    void callersGetTheirResultWhileOthersCancel() throws Exception {
        assertAnsweredWhileOthersCancel(3_000);
    }

    @Thorough
    @Test
    void callersGetTheirResultWhileOthersCancelInManyRounds() throws Exception {
        assertAnsweredWhileOthersCancel(10_000);
    }

    private static void assertAnsweredWhileOthersCancel(int rounds) throws Exception {
        AtomicInteger alive = new AtomicInteger();
        CachedLimits limits = CachedLimits.of(
                key -> Mono.<Collection<Limit>>create(sink -> {
                    alive.incrementAndGet();
                    Disposable later =
                            Schedulers.parallel().schedule(() -> sink.success(LIMITS), 1, TimeUnit.MILLISECONDS);
                    sink.onDispose(() -> {
                        alive.decrementAndGet();
                        later.dispose();
                    });
                }),
                1_000_000,
                Duration.ofMinutes(1));
        CyclicBarrier together = new CyclicBarrier(2);
        CompletableFuture<?> goes = CompletableFuture.runAsync(() -> {
                    for (int i = 0; i < rounds; i++) {
                        Disposable first = limits.apply("key-" + i).subscribe();
                        meet(together);
                        spin(i % 64);
                        first.dispose();
                    }
                })
                .whenComplete((done, error) -> {
                    if (error != null) {
                        together.reset();
                    }
                });
        List<Mono<Collection<Limit>>> answers = new ArrayList<>();
        for (int i = 0; i < rounds; i++) {
            meet(together);
            spin(i / 64 % 64);
            Mono<Collection<Limit>> answer = limits.apply("key-" + i).cache();
            answer.subscribe(found -> {}, error -> {});
            answers.add(answer);
        }
        goes.get();
        for (Mono<Collection<Limit>> answer : answers) {
            assertThat(answer.block(Duration.ofSeconds(30))).isEqualTo(LIMITS);
        }
        await().untilAsserted(() -> assertThat(alive).hasValue(0));
    }

    private static void meet(CyclicBarrier barrier) {
        try {
            barrier.await();
        } catch (InterruptedException | BrokenBarrierException e) {
            throw new AssertionError("one of the two has failed", e);
        }
    }

    private static void spin(int times) {
        for (int i = 0; i < times * 10; i++) {
            Thread.onSpinWait();
        }
    }

    @Test
    void concurrentThreadsShareOneLookupPerKey() {
        AtomicInteger lookups = new AtomicInteger();
        CachedLimits limits = CachedLimits.of(
                key -> Mono.<Collection<Limit>>fromCallable(() -> {
                            lookups.incrementAndGet();
                            return LIMITS;
                        })
                        .subscribeOn(Schedulers.boundedElastic()),
                1_000,
                Duration.ofMinutes(1));
        Flux.range(0, 20_000)
                .parallel(4)
                .runOn(Schedulers.parallel())
                .flatMap(i -> limits.apply("key-" + i / 100))
                .sequential()
                .doOnNext(found -> assertThat(found).isEqualTo(LIMITS))
                .blockLast(Duration.ofSeconds(30));
        assertThat(lookups).hasValue(200);
    }

    @Test
    void invalidArgumentsAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> CachedLimits.of(key -> Mono.empty(), 0, Duration.ofMinutes(1)))
                .withMessage("maximumKeys 0 remembers nothing: expected 1 or more, for example 10_000");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> CachedLimits.of(key -> Mono.empty(), 1, Duration.ZERO))
                .withMessage(
                        "expiry PT0S remembers nothing: expected more than zero, for example Duration.ofMinutes(1)");
        assertThatNullPointerException().isThrownBy(() -> CachedLimits.of(null, 1, Duration.ofMinutes(1)));
        assertThatNullPointerException().isThrownBy(() -> CachedLimits.of(key -> Mono.empty(), 1, null));
        assertThatNullPointerException()
                .isThrownBy(() -> CachedLimits.of(key -> Mono.empty(), 1, Duration.ofMinutes(1), null));
    }

    private CachedLimits cached(Mono<? extends Collection<Limit>> answer) {
        return cached(key -> {
            lookedUp.add(key);
            return answer;
        });
    }

    private CachedLimits cached(Function<String, Mono<? extends Collection<Limit>>> limitsOf) {
        return CachedLimits.of(limitsOf, 100, Duration.ofMinutes(1), clock);
    }
}
