package io.github.spillgate.local;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookupException;
import io.github.spillgate.testkit.ManualClock;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
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
    private static final List<Limit> NEWER = List.of(Limit.perMinute(9));
    private static final Duration FRESH = Duration.ofMinutes(1);
    private static final Duration STALE = Duration.ofSeconds(20);

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
    void aKeyIsLookedUpASecondAfterAFailure() {
        CachedLimits limits = cached(Mono.error(new IllegalStateException("no database")));
        for (int i = 0; i < 3; i++) {
            StepVerifier.create(limits.apply("a")).verifyErrorMessage("no database");
        }
        clock.advanceMillis(999);
        StepVerifier.create(limits.apply("a")).verifyErrorMessage("no database");
        assertThat(lookedUp).containsExactly("a");
        clock.advanceMillis(1);
        assertThat(limits.size()).isZero();
        StepVerifier.create(limits.apply("a")).verifyErrorMessage("no database");
        assertThat(lookedUp).containsExactly("a", "a");
        CachedLimits throwing = cached(key -> {
            lookedUp.add("throwing");
            throw new IllegalStateException("broken");
        });
        StepVerifier.create(throwing.apply("a")).verifyErrorMessage("broken");
        StepVerifier.create(throwing.apply("a")).verifyErrorMessage("broken");
        assertThat(lookedUp).containsExactly("a", "a", "throwing");
    }

    @Test
    void aLookupContinuesWhenAllSubscribersCancel() {
        Sinks.One<Collection<Limit>> answer = Sinks.one();
        CachedLimits limits = cached(answer.asMono());
        limits.apply("a").subscribe().dispose();
        limits.apply("a").subscribe().dispose();
        answer.tryEmitValue(LIMITS);
        assertThat(limits.apply("a")).as("at hand").isInstanceOf(Fuseable.ScalarCallable.class);
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        assertThat(lookedUp).containsExactly("a");
    }

    @Test
    void aStaleResultIsUsedDuringALookup() {
        Deque<Sinks.One<Collection<Limit>>> answers = new ArrayDeque<>();
        CachedLimits limits = cached(pending(answers));
        find(limits, "a", answers, LIMITS);
        clock.advance(FRESH);
        for (int i = 0; i < 3; i++) {
            assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        }
        assertThat(answers).hasSize(1);
        assertThat(limits.apply("a")).as("at hand").isInstanceOf(Fuseable.ScalarCallable.class);
        answers.remove().tryEmitValue(NEWER);
        assertThat(limits.apply("a").block()).isEqualTo(NEWER);
        clock.advance(FRESH.minusMillis(1));
        assertThat(limits.apply("a").block()).isEqualTo(NEWER);
        assertThat(answers).isEmpty();
    }

    @Test
    void aStaleResultIsReplacedAtOnceByALookupThatDoesNotWait() {
        List<Limit> found = new ArrayList<>(LIMITS);
        CachedLimits limits = cached(key -> Mono.just(List.copyOf(found)));
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        found.clear();
        clock.advance(FRESH);
        assertThat(limits.apply("a").block()).isEmpty();
    }

    @Test
    void aStaleResultIsUsedWhileLookupsFailAndUntilItsTimeEnds() {
        Deque<Sinks.One<Collection<Limit>>> answers = new ArrayDeque<>();
        CachedLimits limits = cached(pending(answers));
        find(limits, "a", answers, LIMITS);
        clock.advance(FRESH);
        for (int second = 0; second < STALE.toSeconds(); second++) {
            for (int i = 0; i < 3; i++) {
                assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
                assertThat(answers).as("once a second").hasSizeLessThanOrEqualTo(1);
                answers.forEach(answer -> answer.tryEmitError(new IllegalStateException("no database")));
            }
            answers.remove();
            clock.advance(Duration.ofSeconds(1));
        }
        Mono<Collection<Limit>> last = limits.apply("a");
        List<String> errors = new ArrayList<>();
        last.subscribe(found -> errors.add("found " + found), error -> errors.add(error.getMessage()));
        answers.remove().tryEmitError(new IllegalStateException("still none"));
        assertThat(errors).containsExactly("still none");
    }

    @Test
    void withoutATimeForStaleResultsCallersWait() {
        Deque<Sinks.One<Collection<Limit>>> answers = new ArrayDeque<>();
        CachedLimits limits = builder(pending(answers)).staleFor(Duration.ZERO).build();
        find(limits, "a", answers, LIMITS);
        clock.advance(FRESH);
        find(limits, "a", answers, NEWER);
    }

    @Test
    void aLookupThatNeverEndsIsCancelledAtItsTimeout() {
        try (VirtualTime time = new VirtualTime()) {
            AtomicInteger cancelled = new AtomicInteger();
            CachedLimits limits = CachedLimits.builder(key -> {
                        lookedUp.add(key);
                        return lookedUp.size() == 1
                                ? Mono.<Collection<Limit>>never().doOnCancel(cancelled::incrementAndGet)
                                : Mono.just(LIMITS);
                    })
                    .lookupTimeout(Duration.ofSeconds(3))
                    .maxInFlight(1)
                    .clock(time)
                    .build();
            List<Throwable> errors = new ArrayList<>();
            limits.apply("a").subscribe(found -> {}, errors::add);
            time.passMillis(2_999);
            assertThat(errors).isEmpty();
            time.passMillis(1);
            assertThat(errors)
                    .singleElement()
                    .satisfies(late -> assertThat(late)
                            .isInstanceOf(LimitLookupException.class)
                            .hasMessage(
                                    "a lookup of limits took more than PT3S: expected a result, or a longer timeout,"
                                            + " for example .lookupTimeout(Duration.ofSeconds(30))"));
            assertThat(cancelled).hasValue(1);
            time.passMillis(1_000);
            assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
        }
    }

    @Test
    void lookupsInFlightAreBounded() {
        Deque<Sinks.One<Collection<Limit>>> answers = new ArrayDeque<>();
        CachedLimits limits = builder(pending(answers)).maxInFlight(2).build();
        find(limits, "stale", answers, LIMITS);
        clock.advance(FRESH);
        limits.apply("a").subscribe();
        limits.apply("b").subscribe();
        assertThat(limits.apply("stale").block()).isEqualTo(LIMITS);
        StepVerifier.create(limits.apply("c"))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(LimitLookupException.class)
                        .hasMessage("2 lookups of limits are in flight: expected faster lookups, or a higher bound, for"
                                + " example .maxInFlight(4)"));
        assertThat(answers).hasSize(2);
        answers.remove().tryEmitError(new IllegalStateException("no database"));
        find(limits, "c", answers, NEWER);
    }

    @Test
    void aKeyThatIsForgottenDuringALookupDoesNotGetItsResult() {
        Deque<Sinks.One<Collection<Limit>>> answers = new ArrayDeque<>();
        CachedLimits limits = cached(pending(answers));
        find(limits, "a", answers, LIMITS);
        clock.advance(FRESH);
        limits.apply("a").block();
        limits.forget("a");
        answers.remove().tryEmitValue(LIMITS);
        find(limits, "a", answers, NEWER);
        assertThat(limits.apply("a").block()).isEqualTo(NEWER);
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
        answers.get(1).tryEmitValue(NEWER);
        answers.get(0).tryEmitValue(LIMITS);
        assertThat(found).containsExactly(NEWER, LIMITS);
        assertThat(limits.apply("a").block()).isEqualTo(NEWER);
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
        CachedLimits hanging = CachedLimits.builder(key -> Mono.<Collection<Limit>>never())
                .maximumKeys(100)
                .maxInFlight(50)
                .build();
        for (int i = 0; i < 1_000; i++) {
            hanging.apply("key-" + i).subscribe(found -> {}, error -> {});
        }
        assertThat(hanging.size()).isEqualTo(50);
    }

    /** The cache prefers keys that are asked for often to those that are being looked up. */
    @Test
    void concurrentCallersShareOneLookupIfTheCacheIsFull() {
        CachedLimits limits = CachedLimits.builder(key -> {
                    lookedUp.add(key);
                    return key.startsWith("hot") ? Mono.just(LIMITS) : Mono.<Collection<Limit>>never();
                })
                .maximumKeys(1_000)
                .clock(clock)
                .build();
        for (int i = 0; i < 20_000; i++) {
            limits.apply("hot-" + i % 1_000).block();
        }
        lookedUp.clear();
        for (int caller = 0; caller < 5; caller++) {
            for (int i = 0; i < 100; i++) {
                limits.apply("new-" + i).subscribe();
            }
        }
        assertThat(lookedUp).hasSize(100);
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
        clock.advanceMillis(1_000);
        assertThat(limits.apply("a").block()).isEqualTo(LIMITS);
    }

    @Test
    void callersGetTheirResultWhileOthersCancel() throws Exception {
        int rounds = 3_000;
        AtomicInteger alive = new AtomicInteger();
        CachedLimits limits = CachedLimits.builder(key -> Mono.<Collection<Limit>>create(sink -> {
                    alive.incrementAndGet();
                    Disposable later =
                            Schedulers.parallel().schedule(() -> sink.success(LIMITS), 1, TimeUnit.MILLISECONDS);
                    sink.onDispose(() -> {
                        alive.decrementAndGet();
                        later.dispose();
                    });
                }))
                .maximumKeys(1_000_000)
                .maxInFlight(rounds)
                .build();
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
        CachedLimits limits = CachedLimits.builder(key -> Mono.<Collection<Limit>>fromCallable(() -> {
                            lookups.incrementAndGet();
                            return LIMITS;
                        })
                        .subscribeOn(Schedulers.boundedElastic()))
                .clock(clock)
                .build();
        for (int round = 1; round <= 5; round++) {
            Flux.range(0, 20_000)
                    .parallel(4)
                    .runOn(Schedulers.parallel())
                    .flatMap(i -> limits.apply("key-" + i / 100))
                    .sequential()
                    .doOnNext(found -> assertThat(found).isEqualTo(LIMITS))
                    .blockLast(Duration.ofSeconds(30));
            // After the first round, callers do not wait for the lookups.
            int expected = 200 * round;
            await().untilAsserted(() -> assertThat(lookups).hasValue(expected));
            clock.advance(FRESH);
        }
    }

    @Test
    void invalidArgumentsAreRejected() {
        CachedLimits.Builder builder = CachedLimits.builder(key -> Mono.empty());
        assertThatIllegalArgumentException()
                .isThrownBy(() -> CachedLimits.of(key -> Mono.empty(), 0, FRESH))
                .withMessage("maximumKeys 0 caches nothing: expected 1 or more, for example 10_000");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> CachedLimits.of(key -> Mono.empty(), 1, Duration.ZERO))
                .withMessage(
                        "freshFor PT0S caches nothing: expected more than zero, for example Duration.ofMinutes(1)");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.staleFor(Duration.ofMillis(-1)))
                .withMessage(
                        "staleFor PT-0.001S is negative: expected zero or more, for example Duration.ofMinutes(10)");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.lookupTimeout(Duration.ZERO))
                .withMessage("lookupTimeout PT0S leaves no time: expected more than zero, for example"
                        + " Duration.ofSeconds(5)");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> builder.maxInFlight(0))
                .withMessage("maxInFlight 0 allows no lookup: expected 1 or more, for example 1_000");
        assertThatNullPointerException().isThrownBy(() -> CachedLimits.builder(null));
        assertThatNullPointerException().isThrownBy(() -> builder.freshFor(null));
        assertThatNullPointerException().isThrownBy(() -> builder.staleFor(null));
        assertThatNullPointerException().isThrownBy(() -> builder.lookupTimeout(null));
        assertThatNullPointerException().isThrownBy(() -> builder.clock(null));
        Duration longest = Duration.ofSeconds(Long.MAX_VALUE);
        CachedLimits forever = builder.freshFor(longest)
                .staleFor(longest)
                .lookupTimeout(longest)
                .build();
        assertThat(forever.apply("a").block()).isEmpty();
        assertThat(forever.apply("a")).as("at hand").isInstanceOf(Fuseable.ScalarCallable.class);
    }

    /** Returns a lookup that adds what its callers wait for. */
    private static Function<String, Mono<? extends Collection<Limit>>> pending(
            Deque<Sinks.One<Collection<Limit>>> answers) {
        return key -> {
            Sinks.One<Collection<Limit>> answer = Sinks.one();
            answers.add(answer);
            return answer.asMono();
        };
    }

    /** Looks up a key that is not cached. */
    private static void find(
            CachedLimits limits, String key, Deque<Sinks.One<Collection<Limit>>> answers, List<Limit> found) {
        int others = answers.size();
        List<Collection<Limit>> emitted = new ArrayList<>();
        limits.apply(key).subscribe(emitted::add);
        assertThat(emitted).isEmpty();
        assertThat(answers).hasSize(others + 1);
        answers.removeLast().tryEmitValue(found);
        assertThat(emitted).containsExactly(found);
    }

    private CachedLimits cached(Mono<? extends Collection<Limit>> answer) {
        return cached(key -> {
            lookedUp.add(key);
            return answer;
        });
    }

    private CachedLimits cached(Function<String, Mono<? extends Collection<Limit>>> limitsOf) {
        return builder(limitsOf).build();
    }

    private CachedLimits.Builder builder(Function<String, Mono<? extends Collection<Limit>>> limitsOf) {
        return CachedLimits.builder(limitsOf)
                .maximumKeys(100)
                .freshFor(FRESH)
                .staleFor(STALE)
                .clock(clock);
    }
}
