package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;

import io.github.spillgate.internal.waiting.LimiterDecisions;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.StoreForTests;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;

/** Waiting for permits: the order of the queue, and which requests are denied at once. */
class AcquireTest extends AcquireFixture {

    @Test
    void availablePermitsAreTakenAtOnce() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        StepVerifier.create(limiter.acquire("a", LONG))
                .assertNext(decision -> {
                    assertThat(decision.isAllowed()).isTrue();
                    assertThat(decision.isCharged()).isTrue();
                    assertThat(decision.source()).isEqualTo(Source.LOCAL);
                    assertThat(decision.remaining()).isEqualTo(1);
                })
                .verifyComplete();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aThousandWaitersAreServedInOrderWithAtMostTwoAttemptsEach() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(20));
        for (int i = 0; i < 1_000; i++) {
            wait(limiter, "w" + i, 1, LONG);
        }
        held.answerAll();
        for (int seconds = 0; seconds < 50; seconds++) {
            assertThat(served).as("after %d windows", seconds).hasSize(20 * (seconds + 1));
            time.passMillis(1_001);
            held.answerAll();
        }
        assertThat(served)
                .containsExactlyElementsOf(
                        IntStream.range(0, 1_000).mapToObj(i -> "w" + i).toList());
        assertThat(held.takes()).isLessThan(1_100);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aTooLongWaitIsDeniedAtOnceWithTheStoresDecision() {
        RateLimiter limiter = limiter(Limit.perMinute(1));
        limiter.tryAcquire("a").block();
        StepVerifier.create(limiter.acquire("a", Duration.ofSeconds(60)))
                .assertNext(decision -> {
                    assertThat(decision.isAllowed()).isFalse();
                    assertThat(decision.source()).isEqualTo(Source.LOCAL);
                    assertThat(decision.retryAfter()).contains(Duration.ofMillis(60_001));
                })
                .verifyComplete();
        wait(limiter, "in time", 1, Duration.ofMillis(60_001));
        assertThat(decisions).isEmpty();
        time.passMillis(60_001);
        assertThat(served).containsExactly("in time");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCallerBehindTooManyWaitersIsDeniedAtOnce() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        limiter.tryAcquire(Charge.of("a", 2)).block();
        time.passMillis(300);
        for (int i = 0; i < 4; i++) {
            wait(limiter, "w" + i, 1, Duration.ofMillis(1_800));
        }
        assertThat(decisions).as("one more window is enough for four waiters").isEmpty();
        wait(limiter, "w4", 1, Duration.ofMillis(1_700));
        Decision decision = decisions.get(0);
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.source()).isEqualTo(Source.LIMITER);
        assertThat(decision.retryAfter()).contains(Duration.ofMillis(2_701));
        assertThat(decision.violated()).containsExactly(Limit.perSecond(2));
        assertThat(decision.limits().get(0).remaining()).isZero();
        assertThat(decision.at()).isEqualTo(time.instant());
        time.passMillis(1_703);
        assertThat(served).containsExactly("w0", "w1", "w2", "w3");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void theBoundCountsThePermitsOfEarlierWaitersButNotOfCancelledOnes() {
        RateLimiter limiter = limiter(Limit.perSecond(4));
        limiter.tryAcquire(Charge.of("a", 4)).block();
        wait(limiter, "four", 4, LONG);
        Disposable goes = wait(limiter, "goes", 4, LONG);
        wait(limiter, "too far back", 1, Duration.ofMillis(2_900));
        assertThat(decisions).hasSize(1);
        goes.dispose();
        wait(limiter, "near", 1, Duration.ofMillis(2_900));
        assertThat(decisions).hasSize(1);
        time.passMillis(2_002);
        assertThat(served).containsExactly("four", "near");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCallerBehindTooManyWaitersIsDeniedEvenBeforeTheFirstReply() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(2));
        time.passMillis(10_000);
        for (int i = 0; i < 5; i++) {
            wait(limiter, "w" + i, 1, Duration.ofMillis(1_500));
        }
        assertThat(decisions).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.retryAfter()).contains(Duration.ofSeconds(2));
            assertThat(decision.limits()).isEmpty();
            assertThat(decision.toString()).contains("denied, source=LIMITER");
        });
        held.answerAll();
        time.passMillis(1_001);
        held.answerAll();
        assertThat(served).containsExactly("w0", "w1", "w2", "w3");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void theBoundOfALogIsALowerBound() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(4));
        for (int i = 0; i < 13; i++) {
            wait(limiter, "w" + i, 1, Duration.ofSeconds(3));
        }
        assertThat(decisions).isEmpty();
        wait(limiter, "too late", 4, Duration.ofMillis(2_999));
        assertThat(decisions).hasSize(1);
        for (int i = 0; i < 400; i++) {
            held.answerAll();
            time.passMillis(10);
        }
        assertThat(served)
                .as("the last would be served 3 ms late, because of the slots of the log")
                .hasSize(12);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aLaterDenialHasItsOwnTime() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        limiter.tryAcquire("a").block();
        wait(limiter, "patient", 1, LONG);
        time.pass(Duration.ofNanos(300_500_000));
        wait(limiter, "impatient", 1, Duration.ofMillis(100));
        assertThat(decisions).singleElement().satisfies(decision -> {
            assertThat(decision.at()).isEqualTo(time.instant().truncatedTo(ChronoUnit.MILLIS));
            assertThat(decision.retryAfter()).as("rounded up").contains(Duration.ofMillis(1_701));
        });
    }

    @Test
    void theRetryTimeCountsFromTheSendingOfTheDeniedAttempt() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(1));
        store.take(StoreRequest.take(claims(limiter, "a", 1))).block();
        wait(limiter, "first", 1, LONG);
        time.passMillis(300);
        held.answerAll();
        time.passMillis(699);
        assertThat(held.held()).isZero();
        time.passMillis(2);
        assertThat(held.held()).isOne();
    }

    @Test
    void aDenialThatOvertakesGrantsDeniesNoGrantedWaiter() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(10));
        for (int i = 0; i < 4; i++) {
            wait(limiter, "w" + i, 1, Duration.ofMillis(500));
        }
        store.take(StoreRequest.take(claims(limiter, "a", 7))).block();
        held.answer(0);
        assertThat(held.held()).as("in flight at the same time").isEqualTo(3);
        held.answer(2);
        assertThat(decisions).isEmpty();
        held.answerAll();
        assertThat(served).containsExactly("w0", "w1", "w2");
        assertThat(decisions).hasSize(1);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aChangedLimitDoesNotRaiseTheBound() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        Limit more = Limit.perSecond(100);
        limiter.tryAcquire(Charge.of("a", more).permits(100)).block();
        for (int i = 0; i < 50; i++) {
            limiter.acquire(List.of(Charge.of("a", more)), LONG).subscribe(decision -> served.add("more"));
        }
        wait(limiter, "less", 1, Duration.ofSeconds(3));
        wait(limiter, "less too", 1, Duration.ofSeconds(4));
        assertThat(decisions).isEmpty();
        time.passMillis(1_001);
        assertThat(served).hasSize(50).containsOnly("more");
        time.passMillis(1_001);
        assertThat(served).hasSize(51).endsWith("less");
        time.passMillis(1_001);
        assertThat(served).hasSize(52).endsWith("less too");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void onlyEqualRequestsAreAttemptedAtTheSameTime() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(100));
        for (long permits : new long[] {1, 1, 1, 2, 1}) {
            wait(limiter, "for " + permits, permits, LONG);
        }
        held.answer(0);
        assertThat(held.held())
                .as("the two that remain ahead of the request for 2")
                .isEqualTo(2);
        held.answer(0);
        assertThat(held.held()).isEqualTo(1);
        held.answer(0);
        assertThat(held.takes()).isEqualTo(4);
        held.answerAll();
        assertThat(served).containsExactly("for 1", "for 1", "for 1", "for 2", "for 1");
        assertThat(held.takes()).isEqualTo(5);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void asManyAttemptsAreInFlightAsPermitsRemain() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(15));
        for (int i = 0; i < 5; i++) {
            wait(limiter, "w" + i, 5, LONG);
        }
        held.answer(0);
        assertThat(held.held()).as("10 permits remain, enough for two requests").isEqualTo(2);
    }

    @Test
    void aSmallRequestBehindALargeOneIsDeniedIfItsWaitIsTooLong() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(10));
        store.take(StoreRequest.take(claims(limiter, "a", 9))).block();
        wait(limiter, "much", 5, LONG);
        wait(limiter, "little", 1, Duration.ofMillis(500));
        assertThat(decisions).isEmpty();
        held.answerAll();
        assertOneDenial(Duration.ofMillis(1_001));
        time.passMillis(1_001);
        held.answerAll();
        assertThat(served).containsExactly("much");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void waitersAreDeniedWithTheReplyThatShowsTheirWaitIsTooLong() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(1));
        store.take(StoreRequest.take(claims(limiter, "a", 1))).block();
        wait(limiter, "short", 1, Duration.ofSeconds(1));
        for (int i = 0; i < 5; i++) {
            wait(limiter, "long" + i, 1, Duration.ofMinutes(2 + i));
        }
        assertThat(decisions).isEmpty();
        held.answerAll();
        assertThat(decisions).hasSize(1);
        assertThat(held.takes()).isEqualTo(1);
        time.passMillis(60_001);
        held.answerAll();
        assertThat(served).containsExactly("long0");
    }

    @Test
    void aWaiterWithExactlyTheNeededWaitStaysWhenAnotherIsDenied() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(1));
        store.take(StoreRequest.take(claims(limiter, "a", 1))).block();
        wait(limiter, "patient", 1, Duration.ofMillis(1_001));
        wait(limiter, "impatient", 1, Duration.ofMillis(1_001));
        held.answerAll();
        assertThat(decisions).hasSize(1);
        time.passMillis(1_001);
        held.answerAll();
        assertThat(served).containsExactly("patient");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aDeniedWaiterDoesNotDelayASmallerRequest() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(10));
        store.take(StoreRequest.take(claims(limiter, "a", 5))).block();
        wait(limiter, "much", 8, Duration.ofSeconds(1));
        wait(limiter, "little", 2, Duration.ofSeconds(1));
        held.answer(0);
        assertThat(decisions).hasSize(1);
        held.answerAll();
        assertThat(served).containsExactly("little");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aWaitOfZeroTakesAvailablePermitsInOrder() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(3));
        for (int i = 0; i < 3; i++) {
            wait(limiter, "w" + i, 1, Duration.ZERO);
        }
        held.answerAll();
        assertThat(served).containsExactly("w0", "w1", "w2");
        wait(limiter, "w3", 1, Duration.ZERO);
        held.answerAll();
        assertOneDenial(Duration.ofMillis(1_001));
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aCostAboveTheLimitIsDeniedImmediately() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(3));
        Decision decision = limiter.acquire(List.of(Charge.of("a", 4)), LONG).block();
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.retryAfter()).isEmpty();
        assertThat(held.takes()).isZero();
    }

    @Test
    void aDenialWithoutRetryTimeEndsTheWaitAndTheNextIsServed() {
        HeldStore strict = new HeldStore(StoreForTests.taking(
                store,
                claims -> claims.get(0).permits() == 3
                        ? Mono.just(LimiterDecisions.refused(time.millis()))
                        : store.take(StoreRequest.take(claims))));
        RateLimiter limiter = limiter(strict, Limit.perSecond(3));
        wait(limiter, "never", 3, LONG);
        wait(limiter, "little", 1, LONG);
        strict.answerAll();
        assertThat(decisions)
                .singleElement()
                .satisfies(decision -> assertThat(decision.retryAfter()).isEmpty());
        assertThat(served).containsExactly("little");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void callersAreDeniedIfTheQueueIsFull() {
        RateLimiter limiter = builder(store, Limit.perSecond(1)).waiters(2, 3).build();
        for (String key : List.of("a", "b", "c")) {
            limiter.tryAcquire(key).block();
        }
        time.passMillis(500);
        Disposable first = waitFor(limiter, "a");
        waitFor(limiter, "a");
        waitFor(limiter, "a");
        assertThat(decisions).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.retryAfter()).contains(Duration.ofMillis(2_501));
        });
        waitFor(limiter, "b");
        assertThat(decisions).hasSize(1);
        waitFor(limiter, "c");
        assertThat(decisions).as("three wait in total").hasSize(2);
        assertThat(decisions.get(1).retryAfter())
                .as("the queue of this key is empty")
                .contains(Duration.ofSeconds(1));
        assertThat(limiter.queues().size()).isEqualTo(2);
        first.dispose();
        waitFor(limiter, "c");
        assertThat(decisions).hasSize(2);
        time.passMillis(2_000);
        assertThat(served).containsExactlyInAnyOrder("a", "b", "c");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aFullQueueNamesASecondBeforeTheFirstReply() {
        RateLimiter limiter =
                builder(held, Limit.perSecond(1_000)).waiters(2, 2).build();
        for (int i = 0; i < 3; i++) {
            waitFor(limiter, "a");
        }
        assertOneDenial(Duration.ofSeconds(1));
        held.answerAll();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aFullQueueNamesAtLeastTheWaitOfItsHead() {
        Limit running = Limit.concurrent(1).retryAfter(Duration.ofSeconds(5));
        RateLimiter limiter = builder(store, running).waiters(1, 1).build();
        limiter.tryAcquire("a").block();
        waitFor(limiter, "a");
        waitFor(limiter, "a");
        assertOneDenial(Duration.ofSeconds(5));
        limiter.close();
    }

    @Test
    void anOverdueWaiterBehindTheHeadGetsAtLeastTheWaitOfTheHead() {
        RateLimiter limiter = limiter(Limit.concurrent(1).retryAfter(Duration.ofSeconds(5)));
        limiter.tryAcquire("a").block();
        waitFor(limiter, "a");
        wait(limiter, "late", 1, Duration.ofMillis(100));
        time.passMillis(100);
        assertOneDenial(Duration.ofMillis(4_900));
        limiter.close();
    }

    @Test
    void refundsInThisProcessWakeTheWaiters() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        Decision taken = limiter.tryAcquire(Charge.of("a", 2)).block();
        wait(limiter, "first", 1, LONG);
        wait(limiter, "second", 1, LONG);
        wait(limiter, "third", 1, LONG);
        limiter.refund(Charge.of("a", 1)).block();
        assertThat(served).containsExactly("first");
        limiter.reset("a").block();
        assertThat(served).containsExactly("first", "second", "third");
        limiter.refund(taken).block();
        assertNoWaiterIsLeft(limiter);
    }

    /** With a refund during each attempt, the caller would wait for ever. */
    @Test
    void wakingDoesNotExtendAWait() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(1));
        store.take(StoreRequest.take(claims(limiter, "a", 1))).block();
        wait(limiter, "late", 1, Duration.ofMillis(10));
        limiter.reset("a").subscribe();
        store.take(StoreRequest.take(claims(limiter, "a", 1))).block();
        held.answer(1);
        time.passMillis(10);
        held.answer(0);
        assertThat(decisions).hasSize(1);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void wakingDoesNotExtendAWaitBehindALongOne() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(10));
        store.take(StoreRequest.take(claims(limiter, "a", 9))).block();
        Disposable head = wait(limiter, "head", 2, LONG);
        wait(limiter, "late", 1, Duration.ofMillis(10));
        limiter.reset("a").subscribe();
        store.take(StoreRequest.take(claims(limiter, "a", 9))).block();
        held.answer(1);
        time.passMillis(10);
        held.answer(0);
        assertThat(decisions).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.retryAfter()).as("as of the head").contains(Duration.ofMillis(59_991));
        });
        head.dispose();
        held.answerAll();
        assertThat(served).isEmpty();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anOverdueWaiterIsNotDeniedWhileAnAttemptForItIsInFlight() {
        RateLimiter limiter = heldLimiter(Limit.perMinute(10));
        wait(limiter, "first", 1, LONG);
        wait(limiter, "denied", 1, Duration.ofMillis(10));
        store.take(StoreRequest.take(claims(limiter, "a", 9))).block();
        held.answer(0);
        limiter.reset("a").subscribe();
        wait(limiter, "served", 1, Duration.ofMillis(10));
        assertThat(held.held()).isEqualTo(3);
        held.answer(1);
        time.passMillis(10);
        held.answer(0);
        held.answerAll();
        assertThat(decisions).hasSize(1);
        assertThat(served).containsExactly("first", "served");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aRefundUnderOneOfSeveralLimitsWakesTheWaiters() {
        Limit hour = Limit.perHour(1);
        RateLimiter limiter = limiter(hour, Limit.perDay(5));
        Decision taken = limiter.tryAcquire("a").block();
        wait(limiter, "first", 1, LONG.multipliedBy(2));
        assertThat(served).isEmpty();
        limiter.refund(taken, usage -> usage.limit().equals(hour)).block();
        assertThat(served).containsExactly("first");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void severalChargesWaitUntilAllOfThemFit() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        limiter.tryAcquire(Charge.of("a", 2)).block();
        time.passMillis(500);
        limiter.tryAcquire(Charge.of("b", 1)).block();
        List<Charge> both = List.of(Charge.of("a"), Charge.of("b", 2));
        limiter.acquire(both, LONG).subscribe(decision -> served.add("both"));
        time.passMillis(501);
        assertThat(served).isEmpty();
        time.passMillis(500);
        assertThat(served).containsExactly("both");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void waitersForSeveralCountsShareAQueueOnlyIfAllAreEqual() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        limiter.tryAcquire(Charge.of("b", 2)).block();
        waitForBoth(limiter, "a", "b");
        waitForBoth(limiter, "a", "c");
        assertThat(served).containsExactly("a and c");
        assertThat(used(limiter, "a")).isOne();
        assertThat(used(limiter, "c")).isOne();
        time.passMillis(1_001);
        assertThat(served).containsExactly("a and c", "a and b");
        assertThat(used(limiter, "b")).isOne();
        assertNoWaiterIsLeft(limiter);
    }

    private void waitForBoth(RateLimiter limiter, String one, String other) {
        limiter.acquire(List.of(Charge.of(one), Charge.of(other)), LONG)
                .subscribe(decision -> served.add(one + " and " + other));
    }

    private static long used(RateLimiter limiter, String key) {
        return limiter.peek(key).block().limits().get(0).used();
    }

    @Test
    void aWaitingRequestIsNotCountedAsDenied() {
        Limit strict = Limit.perSecond(1).countingDenied();
        RateLimiter limiter = heldLimiter(strict);
        wait(limiter, "first", 1, LONG);
        wait(limiter, "second", 1, LONG);
        wait(limiter, "third", 1, Duration.ofMillis(1_500));
        held.answerAll();
        assertThat(served).containsExactly("first");
        time.passMillis(1_001);
        held.answerAll();
        assertThat(served).containsExactly("first", "second");
        assertThat(held.takes()).as("a take for each grant only").isEqualTo(2);
        assertThat(decisions).hasSize(1);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void invalidArgumentsAreRejectedOnTheCall() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        assertThatIllegalArgumentException()
                .isThrownBy(() -> limiter.acquire("a", Duration.ofMillis(-1)))
                .withMessage("longestWait PT-0.001S is negative: expected zero or more, for example"
                        + " Duration.ofSeconds(2)");
        assertThatNullPointerException()
                .isThrownBy(() -> limiter.acquire("a", null))
                .withMessageContaining("Duration.ofSeconds(2)");
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.acquire("", LONG));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.acquire(List.of(Charge.of("a", -1)), LONG));
        assertThatIllegalArgumentException().isThrownBy(() -> limiter.acquire(List.of(), LONG));
        for (int[] bounds : new int[][] {{0, 1}, {2, 1}, {1, 1_000_001}}) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> RateLimiter.builder("a").waiters(bounds[0], bounds[1]))
                    .withMessageContaining("waiters(" + bounds[0] + ", " + bounds[1] + ")")
                    .withMessageContaining(".waiters(1_000, 10_000)");
        }
    }

    @Test
    void aStoreThatReportsLittleIsEnough() {
        int[] asked = {0};
        RateLimiter limiter = limiter(
                StoreForTests.taking(store, claims -> {
                    asked[0]++;
                    Reply reply = new Reply(Source.OTHER, time.millis());
                    StoreUsage usage = StoreUsage.of(reply, claims.get(0), 1, asked[0] < 3, time.millis(), 0);
                    return Mono.just(StoreDecision.ofTake(reply, List.of(usage)));
                }),
                Limit.perSecond(1),
                Limit.perHour(100));
        wait(limiter, "first", 1, LONG);
        wait(limiter, "second", 1, Duration.ofMillis(10));
        assertThat(decisions)
                .as("the wait is a second, which the reply of the store does not show")
                .singleElement()
                .satisfies(decision -> assertThat(decision.limits()).isEmpty());
        assertThat(asked[0]).as("a retry time of zero is rounded up to 1 ms").isOne();
        time.passMillis(2);
        assertThat(served).containsExactly("first");
        assertThat(asked[0]).isEqualTo(3);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anyDurationIsAValidWait() {
        RateLimiter limiter = limiter(Limit.of(1, Duration.ofDays(366)));
        wait(limiter, "first", 1, Duration.ofSeconds(Long.MAX_VALUE));
        wait(limiter, "second", 1, Duration.ofSeconds(Long.MAX_VALUE));
        time.pass(Duration.ofDays(367));
        assertThat(served).containsExactly("first", "second");
    }
}
