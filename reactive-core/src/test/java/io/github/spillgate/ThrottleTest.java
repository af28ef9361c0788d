package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.internal.waiting.Throttle;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.StoreForTests;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.Scannable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.test.StepVerifier;
import reactor.test.publisher.TestPublisher;
import reactor.util.context.Context;

/** Streams that are slowed to a limit, in virtual time. */
class ThrottleTest extends AcquireFixture {

    private final List<Integer> out = new ArrayList<>();
    private final List<Long> at = new ArrayList<>();

    @Test
    void anEndlessSourceIsNeitherBufferedNorDroppedNorFasterThanItsLimitInAnyWindow() {
        for (Limit limit :
                List.of(Limit.perSecond(7), Limit.of(100, Duration.ofMillis(300)), Limit.of(1, Duration.ofMillis(3)))) {
            at.clear();
            out.clear();
            RateLimiter limiter = RateLimiter.builder("of-" + limit.permits())
                    .store(store)
                    .limit(limit)
                    .build();
            List<Integer> given = new ArrayList<>();
            Disposable running = Flux.range(0, Integer.MAX_VALUE)
                    .doOnNext(given::add)
                    .transform(limiter.throttle("a"))
                    .subscribe(this::note);
            for (int i = 0; i < 10_000; i++) {
                time.passMillis(1);
                assertThat(given.size() - out.size()).as("waiting elements").isLessThanOrEqualTo(Throttle.MAX_WAITING);
            }
            running.dispose();
            assertThat(out)
                    .containsExactlyElementsOf(
                            IntStream.range(0, out.size()).boxed().toList());
            assertNoWindowHoldsMoreThan(limit);
            long windows = 10_000 / (limit.window().toMillis() + 1);
            assertThat((long) out.size()).as("and no slower").isGreaterThanOrEqualTo(windows * limit.permits());
            assertNoWaiterIsLeft(limiter);
        }
    }

    @Test
    void upstreamDemandIsBoundedByDownstreamDemandAndRemainingPermits() {
        RateLimiter limiter = limiter(Limit.perSecond(3));
        List<Long> requests = new ArrayList<>();
        StepVerifier.create(Flux.range(0, 100).doOnRequest(requests::add).transform(limiter.throttle("a")), 0)
                .expectSubscription()
                .then(() -> assertThat(requests).isEmpty())
                .thenRequest(1)
                .expectNext(0)
                .then(() -> assertThat(requests).containsExactly(1L))
                .thenRequest(1_000)
                .expectNext(1, 2)
                .then(() -> assertThat(requests).as("one element waits").containsExactly(1L, 2L, 1L))
                .then(() -> time.passMillis(1_001))
                .expectNext(3, 4, 5)
                .then(() ->
                        assertThat(requests.stream().mapToLong(n -> n).sum()).isEqualTo(7))
                .thenCancel()
                .verify();
        assertNoWaiterIsLeft(limiter);
    }

    @ParameterizedTest
    @CsvSource({"100, 1, 16", "15, 5, 2"})
    void asManyElementsWaitAsFitIntoTheRemainingPermitsAndAtMost16(int permits, int cost, long waiting) {
        RateLimiter limiter = heldLimiter(Limit.perSecond(permits));
        List<Long> requests = new ArrayList<>();
        Flux.range(0, 1_000)
                .doOnRequest(requests::add)
                .transform(limiter.throttle("a", element -> cost))
                .subscribe(this::note);
        assertThat(held.held()).isOne();
        held.answer(0);
        assertThat(requests).containsExactly(1L, waiting);
        held.answerAll();
        assertThat(out).hasSize(permits / cost);
        assertThat(held.takes()).isLessThan(permits / cost + 5);
    }

    @Test
    void theStreamCompletesEvenIfNoElementWaits() {
        TestPublisher<Integer> source = TestPublisher.create();
        StepVerifier.create(source.flux().transform(limiter(Limit.perSecond(5)).throttle("a")))
                .then(() -> source.next(0))
                .expectNext(0)
                .then(source::complete)
                .expectComplete()
                .verify(Duration.ofSeconds(10));
    }

    @Test
    void theFunctionDeterminesTheCostOfAnElement() {
        RateLimiter limiter = limiter(Limit.perSecond(10));
        StepVerifier.create(Flux.just(4, 0, 6, 0, 1, 10, 0).transform(limiter.throttle("a", cost -> cost)))
                .expectNext(4, 0, 6, 0)
                .then(() -> time.passMillis(1_001))
                .expectNext(1)
                .then(() -> time.passMillis(1_000))
                .then(() -> time.passMillis(1))
                .expectNext(10, 0)
                .verifyComplete();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void elementsWithoutCostNeedNoDecisionAndKeepTheirOrder() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(10));
        Flux.just(0, 0, 3, 0).transform(limiter.throttle("a", cost -> cost)).subscribe(this::note);
        assertThat(out).containsExactly(0, 0);
        assertThat(held.takes()).isOne();
        held.answerAll();
        assertThat(out).containsExactly(0, 0, 3, 0);
        assertThat(held.takes()).isOne();
    }

    @Test
    void severalStreamsAndCallersShareTheQueue() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        List<String> order = new ArrayList<>();
        Flux.just("a0", "a1").transform(limiter.throttle("a")).subscribe(order::add);
        Flux.just("b0", "b1").transform(limiter.throttle("a")).subscribe(order::add);
        limiter.acquire("a", Duration.ofHours(1)).subscribe(decision -> order.add("c"));
        time.passMillis(5_005);
        assertThat(order).containsExactly("a0", "a1", "b0", "c", "b1");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anErrorOfTheSourceFollowsEarlierElements() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        StepVerifier.create(Flux.range(0, 3)
                        .concatWith(Mono.error(new IllegalStateException("of the source")))
                        .transform(limiter.throttle("a")))
                .expectNext(0, 1)
                .then(() -> time.passMillis(1_001))
                .expectNext(2)
                .verifyErrorMessage("of the source");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void cancellingCancelsTheSourceAndLeavesNothing() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(100));
        TestPublisher<Integer> source = TestPublisher.create();
        List<Object> discarded = new ArrayList<>();
        Disposable stream = source.flux()
                .transform(limiter.throttle("a"))
                .doOnDiscard(Integer.class, discarded::add)
                .subscribe(this::note);
        source.next(0);
        held.answerAll();
        source.next(1, 2, 3);
        assertThat(held.held()).isOne();
        stream.dispose();
        source.assertCancelled();
        assertThat(discarded).containsExactly(1, 2, 3);
        held.answerAll();
        assertThat(out).containsExactly(0);
        assertThat(used("a", Limit.perSecond(100)))
                .as("only emitted elements are charged")
                .isOne();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCostThatNeverFitsFailsTheStreamAfterEarlierElements() {
        RateLimiter limiter = limiter(Limit.perSecond(5));
        TestPublisher<Integer> source = TestPublisher.create();
        StepVerifier.create(source.flux().transform(limiter.throttle("a", cost -> cost)))
                .then(() -> source.next(5, 6))
                .expectNext(5)
                .expectErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining("an element costs 6 permits, which [5/1s] never hold: expected no more"))
                .verify();
        source.assertCancelled();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCostFunctionThatThrowsOrIsNegativeFailsTheStream() {
        RateLimiter limiter = limiter(Limit.perSecond(5));
        List<Object> discarded = new ArrayList<>();
        StepVerifier.create(Flux.just(1, 0)
                        .transform(limiter.<Integer>throttle("a", element -> 1 / element))
                        .doOnDiscard(Integer.class, discarded::add))
                .expectNext(1)
                .verifyError(ArithmeticException.class);
        assertThat(discarded).containsExactly(0);
        StepVerifier.create(Flux.just(1, -2).transform(limiter.throttle("a", element -> element)))
                .expectNext(1)
                .verifyErrorMessage("permits -2 are negative: expected 0 or more, for example 1");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anErrorOfTheStoreFailsTheStream() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(5));
        TestPublisher<Integer> source = TestPublisher.create();
        StepVerifier.create(source.flux().transform(limiter.throttle("a")))
                .then(() -> source.next(1))
                .then(() -> held.fail(0))
                .verifyErrorMatches(Kind.UNAVAILABLE::isOf);
        source.assertCancelled();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aFullQueueFailsTheStream() {
        RateLimiter limiter = builder(store, Limit.perSecond(1)).waiters(1, 1).build();
        limiter.tryAcquire("a").block();
        limiter.acquire("a", Duration.ofHours(1)).subscribe();
        StepVerifier.create(Flux.range(0, 3).transform(limiter.throttle("a")))
                .expectErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining(".waiters(5_000, 50_000)"))
                .verify();
    }

    @Test
    void aSourceWithoutBackpressureFails() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        TestPublisher<Integer> source = TestPublisher.createNoncompliant(TestPublisher.Violation.REQUEST_OVERFLOW);
        StepVerifier.create(source.flux().transform(limiter.throttle("a")))
                .then(() -> IntStream.range(0, 1_000).forEach(source::next))
                .expectNext(0)
                .then(() -> time.pass(Duration.ofSeconds(200)))
                .thenConsumeWhile(element -> true)
                .expectErrorSatisfies(error -> assertThat(error).hasMessageContaining("onBackpressureBuffer"))
                .verify();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anElementBeyondTheMaximumIsDiscarded() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(100));
        TestPublisher<Integer> source = TestPublisher.createNoncompliant(TestPublisher.Violation.REQUEST_OVERFLOW);
        List<Throwable> errors = new ArrayList<>();
        List<Object> discarded = new ArrayList<>();
        source.flux()
                .transform(limiter.throttle("a"))
                .doOnDiscard(Integer.class, discarded::add)
                .subscribe(this::note, errors::add);
        IntStream.rangeClosed(0, Throttle.MAX_WAITING).forEach(source::next);
        assertThat(discarded).containsExactly(Throttle.MAX_WAITING);
        held.answerAll();
        assertThat(out)
                .containsExactlyElementsOf(
                        IntStream.range(0, Throttle.MAX_WAITING).boxed().toList());
        assertThat(errors)
                .singleElement()
                .satisfies(error -> assertThat(error).hasMessageContaining("onBackpressureBuffer"));
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void stalePermitsAreRefundedAndReplaced() {
        Limit limit = Limit.perSecond(10);
        RateLimiter limiter = limiter(limit);
        Flux.range(0, 40).transform(limiter.throttle("a")).subscribe(element -> {
            note(element);
            if (element == 1) {
                time.passMillis(1_001);
            }
        });
        time.pass(Duration.ofSeconds(10));
        assertThat(out).containsExactlyElementsOf(IntStream.range(0, 40).boxed().toList());
        assertNoWindowHoldsMoreThan(limit);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void refundedPermitsGoToWaiters() {
        RateLimiter limiter = limiter(Limit.perMinute(5));
        List<String> served = new ArrayList<>();
        Disposable stream = Flux.range(0, 100).transform(limiter.throttle("a")).subscribe(element -> {
            note(element);
            if (element == 1) {
                limiter.acquire("a", Duration.ofHours(1)).subscribe(decision -> served.add("a caller"));
                time.passMillis(20);
            }
        });
        assertThat(served).as("without further time").containsExactly("a caller");
        assertThat(out).containsExactly(0, 1, 2, 3);
        stream.dispose();
        assertNoWaiterIsLeft(limiter);
    }

    /** A decision that was in flight during the cancellation, from a source that ignores it. */
    @Test
    void aPermitGrantedAfterCancellationIsRefunded() {
        Limit limit = Limit.perSecond(10);
        RateLimiter limiter = limiter(limit);
        Decision granted = limiter.tryAcquire("a").block();
        TestPublisher<Decision> late = TestPublisher.createNoncompliant(TestPublisher.Violation.CLEANUP_ON_TERMINATE);
        new Throttle<>(Flux.just(0), element -> 1, permits -> late.mono(), limiter.queues(), Throttle.MAX_WAITING, null)
                .subscribe(this::note)
                .dispose();
        assertThat(used("a", limit)).isOne();
        late.next(granted);
        assertThat(out).isEmpty();
        assertThat(used("a", limit)).isZero();
    }

    @Test
    void aSlowSubscriberGetsOneElementInAdvance() {
        RateLimiter limiter = limiter(Limit.perMinute(1_000));
        long[] asked = {0};
        Flux.range(0, 100)
                .doOnRequest(n -> asked[0] += n)
                .transform(limiter.throttle("a"))
                .subscribe(element -> {
                    note(element);
                    time.passMillis(20);
                    assertThat(asked[0] - out.size()).isLessThanOrEqualTo(out.size() < 20 ? Throttle.MAX_WAITING : 1);
                });
        assertThat(out).hasSize(100);
        assertThat(used("a", Limit.perMinute(1_000))).isEqualTo(100);
    }

    @Test
    void oneStreamNeedsNoMoreThanOnePlace() {
        RateLimiter limiter =
                builder(held, Limit.perSecond(1_000)).waiters(2, 2).build();
        Flux.range(0, 200).transform(limiter.throttle("a")).subscribe(this::note);
        held.answerAll();
        assertThat(out)
                .containsExactlyElementsOf(IntStream.range(0, 200).boxed().toList());
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void signalsAfterTheEndHaveNoEffect() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(100));
        TestPublisher<Integer> source = TestPublisher.createNoncompliant(TestPublisher.Violation.CLEANUP_ON_TERMINATE);
        List<Object> discarded = new ArrayList<>();
        source.flux()
                .transform(limiter.throttle("a"))
                .doOnDiscard(Integer.class, discarded::add)
                .subscribe()
                .dispose();
        source.next(2);
        assertThat(held.takes()).isZero();
        assertThat(discarded).containsExactly(2);

        List<Throwable> dropped = new ArrayList<>();
        List<Throwable> errors = new ArrayList<>();
        Hooks.onErrorDropped(dropped::add);
        Flux.range(0, 1_000).transform(limiter.throttle("a")).subscribe(this::note, errors::add);
        held.answer(0);
        held.fail(0);
        Hooks.resetOnErrorDropped();
        assertThat(errors).hasSize(1);
        assertThat(dropped).as("one error per stream").isEmpty();
    }

    @Test
    void aClosedLimiterDoesNotEvenSubscribeToTheSource() {
        RateLimiter limiter = limiter(Limit.perSecond(100));
        TestPublisher<Integer> source = TestPublisher.create();
        Flux<Integer> slowed = source.flux().transform(limiter.throttle("a"));
        limiter.close();
        StepVerifier.create(slowed).verifyError(IllegalStateException.class);
        source.assertWasNotSubscribed();
    }

    @Test
    void aDenyingLookupFailsTheStream() {
        RateLimiter limiter = builder(store, Limit.perSecond(1))
                .lookup(LimitLookup.of(key -> Mono.<List<Limit>>empty()).whenEmpty(LimitLookup.Otherwise.deny()))
                .build();
        StepVerifier.create(Flux.just(1).transform(limiter.throttle("a")))
                .expectErrorSatisfies(error -> assertThat(error)
                        .isInstanceOf(LimitLookupException.class)
                        .hasMessageContaining("the lookup is configured to deny"))
                .verify();
    }

    @Test
    void aWrongRequestIsAnError() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        TestPublisher<Integer> source = TestPublisher.create();
        List<Throwable> errors = new ArrayList<>();
        source.flux().transform(limiter.throttle("a")).subscribe(new CoreSubscriber<>() {
            @Override
            public void onSubscribe(Subscription subscription) {
                subscription.request(0);
            }

            @Override
            public void onNext(Integer element) {}

            @Override
            public void onError(Throwable error) {
                errors.add(error);
            }

            @Override
            public void onComplete() {}
        });
        assertThat(errors).hasSize(1).hasOnlyElementsOfType(IllegalArgumentException.class);
        source.assertCancelled();
    }

    @Test
    void theContextReachesTheSourceAndTheStore() {
        List<String> seen = new ArrayList<>();
        RateLimiter limiter = limiter(
                StoreForTests.taking(
                        store,
                        claims -> Mono.deferContextual(context -> {
                            seen.add("store " + context.get("name"));
                            return store.take(StoreRequest.take(claims));
                        })),
                Limit.perSecond(1));
        Flux.deferContextual(context -> Flux.just("source " + context.get("name")))
                .transform(limiter.throttle("a"))
                .contextWrite(Context.of("name", "me"))
                .subscribe(seen::add);
        assertThat(seen).containsExactly("store me", "source me");
    }

    @Test
    void theRecipeForVirtualTimeWorks() {
        time.close();
        StepVerifier.withVirtualTime(() -> {
                    RateLimiter inTest = limiter(
                            LocalStore.bounded(
                                    100,
                                    () -> Instant.ofEpochMilli(
                                            Schedulers.parallel().now(TimeUnit.MILLISECONDS))),
                            Limit.perSecond(1));
                    return Flux.range(0, 3).transform(inTest.throttle("a"));
                })
                .expectSubscription()
                .expectNext(0)
                .expectNoEvent(Duration.ofSeconds(1))
                .thenAwait(Duration.ofSeconds(2))
                .expectNext(1, 2)
                .verifyComplete();
    }

    @Test
    void theOperatorIsScannable() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        List<Scannable> seen = new ArrayList<>();
        Flux.range(0, 3).hide().transform(limiter.throttle("a")).subscribe(new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {
                seen.add(Scannable.from(subscription));
                request(2);
            }
        });
        Scannable throttled = seen.get(0);
        assertThat(throttled.scan(Scannable.Attr.BUFFERED)).isOne();
        assertThat(throttled.scan(Scannable.Attr.REQUESTED_FROM_DOWNSTREAM)).isEqualTo(2);
        assertThat(throttled.scan(Scannable.Attr.PREFETCH)).isEqualTo(Throttle.MAX_WAITING);
        assertThat(throttled.scan(Scannable.Attr.RUN_STYLE)).isEqualTo(Scannable.Attr.RunStyle.ASYNC);
        assertThat(throttled.scan(Scannable.Attr.TERMINATED)).isFalse();
        assertThat(throttled.scan(Scannable.Attr.CANCELLED)).isFalse();
        assertThat(throttled.scan(Scannable.Attr.ERROR)).isNull();
        assertThat(throttled.parents()).isNotEmpty();
        assertThat(throttled.scanUnsafe(Scannable.Attr.ACTUAL)).isInstanceOf(BaseSubscriber.class);
        ((Subscription) throttled).cancel();
        assertThat(throttled.scan(Scannable.Attr.CANCELLED)).isTrue();
        assertThat(throttled.scan(Scannable.Attr.BUFFERED)).isZero();
    }

    @Test
    void invalidArgumentsAreRejectedOnTheCall() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.throttle(""));
        assertThatNullPointerException()
                .isThrownBy(() -> limiter.throttle("a", null))
                .withMessageContaining("permits is null: expected one, for example order -> order.lines()");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RateLimiter.builder("b").store(store).build().throttle("a"))
                .withMessageContaining("has a limit");
    }

    private void note(int element) {
        out.add(element);
        at.add(time.millis());
    }

    private void assertNoWindowHoldsMoreThan(Limit limit) {
        int permits = (int) limit.permits();
        for (int i = permits; i < at.size(); i++) {
            assertThat(at.get(i) - at.get(i - permits))
                    .as("between %d and %d", i - permits, i)
                    .isGreaterThanOrEqualTo(limit.window().toMillis());
        }
    }
}
