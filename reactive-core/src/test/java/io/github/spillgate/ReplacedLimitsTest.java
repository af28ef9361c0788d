package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.StoreRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.Disposable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;

/** Limits that are replaced while the limiter decides, in virtual time. */
class ReplacedLimitsTest extends AcquireFixture {

    @Test
    void otherPermitsApplyAtOnceAndKeepTheUsage() {
        RateLimiter limiter = limiter(Limit.perMinute(2));
        Mono<Decision> createdBefore = limiter.tryAcquire("a");
        Mono<Decision> several = limiter.tryAcquire(Charge.of("a"), Charge.of("b"));
        Mono<Decision> peeked = limiter.peek("a");
        assertThat(createdBefore.block().remaining()).isEqualTo(1);
        limiter.replaceLimits(List.of(Limit.perMinute(5)));
        assertThat(limiter.limits()).containsExactly(Limit.perMinute(5));
        assertThat(limiter).asString().contains("limits=[5/1m]");
        assertThat(createdBefore.block().remaining()).isEqualTo(3);
        assertThat(limiter.tryAcquire("a").block().remaining()).isEqualTo(2);
        assertThat(several.block().remaining()).isEqualTo(1);
        assertThat(peeked.block().remaining()).isEqualTo(1);
        limiter.replaceLimits(List.of(Limit.perMinute(3)));
        Decision denied = createdBefore.block();
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.violated()).containsExactly(Limit.perMinute(3));
        assertThat(denied.limits().get(0).used()).isEqualTo(4);
    }

    @Test
    void limitsAreAddedAndRemovedAllAtOnce() {
        RateLimiter limiter = limiter(Limit.perMinute(10));
        limiter.tryAcquire(Charge.of("a", 4)).block();
        limiter.replaceLimits(List.of(Limit.perMinute(10), Limit.perDay(1)));
        assertThat(limiter.tryAcquire("a").block().limits()).hasSize(2);
        Decision denied = limiter.tryAcquire("a").block();
        assertThat(denied.violated()).containsExactly(Limit.perDay(1));
        assertThat(denied.limits().get(0).used()).isEqualTo(5);
        limiter.replaceLimits(List.of(Limit.perMinute(10)));
        assertThat(limiter.tryAcquire("a").block().limits())
                .singleElement()
                .satisfies(usage -> assertThat(usage.used()).isEqualTo(6));
    }

    @Test
    void wrongLimitsAreRefusedAndNoneIsReplaced() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.replaceLimits(List.of(Limit.perMinute(5), Limit.perMinute(6))))
                .withMessageContaining("\"6/1m\" would share its count")
                .withMessageContaining(".named(\"burst\")");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.replaceLimits(List.of()))
                .withMessage("no limit was given to replace those of limiter test: expected at least one, for example"
                        + " List.of(Limit.perMinute(120))");
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.replaceLimits(IntStream.range(0, 17)
                        .mapToObj(i -> Limit.perMinute(1).named("n" + i))
                        .toList()))
                .withMessageContaining("17 limits on one key are too many");
        assertThatNullPointerException()
                .isThrownBy(() -> limiter.replaceLimits(Arrays.asList(Limit.perMinute(5), null)))
                .withMessageStartingWith("one of the limits is null");
        assertThatNullPointerException()
                .isThrownBy(() -> limiter.replaceLimits(null))
                .withMessageStartingWith("limits are null");
        assertThat(limiter.limits()).containsExactly(Limit.perMinute(1));
    }

    @Test
    void waitersAreServedUnderARaisedLimitInTheirOrder() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        limiter.tryAcquire("a").block();
        for (int i = 0; i < 5; i++) {
            wait(limiter, "w" + i, 1, LONG);
        }
        assertThat(served).isEmpty();
        limiter.replaceLimits(List.of(Limit.perMinute(4)));
        assertThat(served).containsExactly("w0", "w1", "w2");
        wait(limiter, "last", 1, LONG);
        time.pass(Duration.ofMillis(60_001));
        assertThat(served).containsExactly("w0", "w1", "w2", "w3", "w4", "last");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void waitersWaitLongerUnderALoweredLimitAndKeepTheirLongestWait() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        limiter.tryAcquire(Charge.of("a", 2)).block();
        wait(limiter, "first", 1, Duration.ofSeconds(3));
        wait(limiter, "second", 1, Duration.ofMillis(1_500));
        time.passMillis(500);
        limiter.replaceLimits(List.of(Limit.perSecond(1)));
        time.passMillis(501);
        assertThat(served).containsExactly("first");
        time.passMillis(10_000);
        assertThat(served).as("the second permit returned too late").containsExactly("first");
        assertThat(decisions)
                .singleElement()
                .satisfies(denied -> assertThat(denied.violated()).containsExactly(Limit.perSecond(1)));
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void waitersForOtherCountsMoveInTheirOrder() {
        RateLimiter limiter = limiter(Limit.perHour(1));
        limiter.tryAcquire("a").block();
        for (int i = 0; i < 4; i++) {
            wait(limiter, "w" + i, 1, Duration.ofSeconds(3_700));
        }
        assertThat(decisions).as("three would wait for more than an hour").hasSize(3);
        for (int i = 0; i < 3; i++) {
            wait(limiter, "long" + i, 1, LONG.multipliedBy(100));
        }
        limiter.replaceLimits(List.of(Limit.perSecond(2), Limit.perDay(3)));
        assertThat(served).containsExactly("w0", "long0");
        time.passMillis(1_001);
        assertThat(served).containsExactly("w0", "long0", "long1");
        limiter.replaceLimits(List.of(Limit.perSecond(2)));
        assertThat(served).containsExactly("w0", "long0", "long1", "long2");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aMovedWaiterKeepsItsLongestWait() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        limiter.tryAcquire("a").block();
        wait(limiter, "waits", 1, Duration.ofMillis(60_500));
        time.passMillis(60_000);
        limiter.replaceLimits(List.of(Limit.perSecond(1)));
        assertThat(served).containsExactly("waits");
        wait(limiter, "blocked", 1, Duration.ofMillis(1_500));
        time.passMillis(900);
        store.take(StoreRequest.take(claims(limiter(Limit.perHour(1)), "a", 1))).block();
        limiter.replaceLimits(List.of(Limit.perHour(1)));
        assertThat(decisions).as("600 ms are left of its wait").hasSize(1);
        assertThat(decisions.get(0).violated()).containsExactly(Limit.perHour(1));
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCostThatNoLongerFitsIsDenied() {
        RateLimiter limiter = limiter(Limit.perMinute(5));
        limiter.tryAcquire(Charge.of("a", 5)).block();
        List<Throwable> failed = new ArrayList<>();
        Flux.just(3).transform(limiter.throttle("a", element -> element)).subscribe(any -> {}, failed::add);
        wait(limiter, "three", 3, LONG);
        wait(limiter, "two", 2, LONG);
        limiter.replaceLimits(List.of(Limit.perMinute(2)));
        assertThat(decisions).singleElement().satisfies(denied -> {
            assertThat(denied.retryAfter()).isEmpty();
            assertThat(denied.violated()).containsExactly(Limit.perMinute(2));
        });
        assertThat(failed).singleElement().isInstanceOf(IllegalArgumentException.class);
        time.pass(Duration.ofMillis(60_001));
        assertThat(served).containsExactly("two");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aStreamContinuesUnderTheNewLimits() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        StepVerifier.create(Flux.range(0, 6).transform(limiter.throttle("a")))
                .expectNext(0)
                .then(() -> limiter.replaceLimits(List.of(Limit.perSecond(3))))
                .expectNext(1, 2)
                .then(() -> time.passMillis(1_001))
                .expectNext(3, 4, 5)
                .expectComplete()
                .verify(Duration.ofSeconds(30));
        assertNoWaiterIsLeft(limiter);
    }

    /** Permits that were granted under the old limits are returned, and the waiter asks under the new ones. */
    @Test
    void anAttemptUnderTheOldLimitsServesNoWaiter() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(3));
        wait(limiter, "first", 1, LONG);
        limiter.replaceLimits(List.of(Limit.perMinute(2)));
        assertThat(held.takes()).isEqualTo(1);
        held.answer(0);
        assertThat(served).isEmpty();
        held.answerAll();
        assertThat(served).containsExactly("first");
        assertThat(limiter(Limit.perMinute(2)).peek("a").block().limits().get(0).used())
                .isEqualTo(1);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aDenialUnderTheOldLimitsDeniesNoWaiter() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(1));
        store.take(StoreRequest.take(claims(limiter, "a", 1))).block();
        wait(limiter, "first", 1, Duration.ofSeconds(1));
        limiter.replaceLimits(List.of(Limit.perMinute(2)));
        held.answerAll();
        assertThat(decisions).isEmpty();
        assertThat(served).containsExactly("first");
        assertNoWaiterIsLeft(limiter);
    }

    /** The waiters also wait for counts that the decision has not charged, so their queue has another name. */
    @Test
    void aReleaseUnderTheOldLimitsWakesWaitersUnderTheNewOnes() {
        Limit concurrent = Limit.concurrent(2);
        RateLimiter limiter = limiter(concurrent);
        Decision first = limiter.tryAcquire("a").block();
        Decision second = limiter.tryAcquire(Charge.of("a"), Charge.of("b")).block();
        assertThat(second.isAllowed()).isTrue();
        limiter.replaceLimits(List.of(Limit.perMinute(100), concurrent));
        wait(limiter, "one", 1, LONG);
        limiter.acquire(List.of(Charge.of("a"), Charge.of("b")), LONG).subscribe(decision -> served.add("both"));
        assertThat(served).isEmpty();
        limiter.release(first).block();
        assertThat(served).containsExactly("one");
        limiter.release(second).block();
        assertThat(served).containsExactly("one", "both");
        assertNoWaiterIsLeft(limiter);
    }

    /** A waiter joins when it requests the decision, and its claims are older. */
    @Test
    void aWaiterThatJoinsWithOldClaimsGetsNewOnes() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        limiter.tryAcquire("a").block();
        for (Limit limit : List.of(Limit.perMinute(2), Limit.perSecond(1))) {
            served.clear();
            BaseSubscriber<Decision> late = new BaseSubscriber<>() {
                @Override
                protected void hookOnSubscribe(Subscription subscription) {
                    // Requests later.
                }

                @Override
                protected void hookOnNext(Decision decision) {
                    served.add(decision.isAllowed() + " "
                            + decision.limits().get(0).limit());
                }
            };
            limiter.acquire("a", LONG).subscribe(late);
            limiter.replaceLimits(List.of(limit));
            late.request(1);
            assertThat(served).containsExactly("true " + limit);
            assertNoWaiterIsLeft(limiter);
        }
    }

    @Test
    void aWaiterThatIsCancelledAroundTheReplacementLeavesNothing() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(1));
        Disposable before = wait(limiter, "before", 1, LONG);
        Disposable after = wait(limiter, "after", 1, LONG);
        before.dispose();
        limiter.replaceLimits(List.of(Limit.perHour(1)));
        after.dispose();
        held.answerAll();
        assertThat(served).isEmpty();
        assertThat(limiter(Limit.perHour(1)).peek("a").block().limits().get(0).used())
                .isZero();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void chargesThatCannotBeCombinedUnderTheNewLimitsFail() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        Charge own = Charge.of("a", Limit.perHour(7));
        Mono<Decision> created = limiter.tryAcquire(Charge.of("a"), own);
        assertThat(created.block().isAllowed()).isTrue();
        List<Throwable> failed = new ArrayList<>();
        limiter.acquire(List.of(Charge.of("a"), own), LONG).subscribe(any -> {}, failed::add);
        limiter.replaceLimits(List.of(Limit.perHour(8)));
        assertThat(failed)
                .singleElement()
                .isInstanceOf(IllegalArgumentException.class)
                .extracting(Throwable::getMessage)
                .asString()
                .contains("\"7/1h\"", "\"8/1h\"");
        StepVerifier.create(created).verifyError(IllegalArgumentException.class);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void limitsOfChargesAndLookupsAreKept() {
        RateLimiter limiter = builder(LocalStore.bounded(100, time), Limit.perMinute(1))
                .lookup(LimitLookup.of(
                        key -> key.equals("plan") ? Mono.just(List.of(Limit.perMinute(7))) : Mono.empty()))
                .build();
        Mono<Decision> withoutPlan = limiter.tryAcquire("other");
        limiter.replaceLimits(List.of(Limit.perMinute(3)));
        assertThat(limiter.tryAcquire("plan").block().remaining()).isEqualTo(6);
        assertThat(limiter.tryAcquire(Charge.of("own", Limit.perMinute(9)))
                        .block()
                        .remaining())
                .isEqualTo(8);
        assertThat(withoutPlan.block().remaining()).isEqualTo(2);
    }
}
