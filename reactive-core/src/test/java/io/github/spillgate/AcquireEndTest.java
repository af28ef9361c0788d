package io.github.spillgate;

import static io.github.spillgate.WaiterAssertions.assertNoWaiterIsLeft;
import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.StoreForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.test.StepVerifier;
import reactor.util.context.Context;

/**
 * The end of a wait by cancellation, an error or the close of the limiter, and what callers may do when they are
 * served.
 */
class AcquireEndTest extends AcquireFixture {

    /** Returns a limiter with waiters, of which the second one cancels the third when it is served. */
    private RateLimiter limiterWithFourWaiters() {
        RateLimiter limiter = limiter(Limit.perSecond(3));
        limiter.tryAcquire(Charge.of("a", 3)).block();
        List<Disposable> next = new ArrayList<>();
        wait(limiter, "first", 1, LONG);
        limiter.acquire("a", LONG).subscribe(decision -> {
            served.add("second");
            next.get(0).dispose();
        });
        next.add(wait(limiter, "third", 1, LONG));
        wait(limiter, "fourth", 1, LONG);
        return limiter;
    }

    @Test
    void ifAServedCallerCancelsTheNextWaiterItsPermitGoesToTheOneBehind() {
        RateLimiter limiter = limiterWithFourWaiters();
        wait(limiter, "fifth", 1, LONG);
        time.passMillis(1_001);
        assertThat(served).containsExactly("first", "second", "fourth");
        time.passMillis(1_001);
        assertThat(served).containsExactly("first", "second", "fourth", "fifth");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aWaiterCancelledDuringItsGrantLeavesTheQueueOnce() {
        RateLimiter limiter = limiterWithFourWaiters();
        List<Throwable> errors = new ArrayList<>();
        limiter.acquire("a", LONG).subscribe(decision -> served.add("?"), errors::add);
        time.passMillis(1_001);
        assertThat(served).containsExactly("first", "second", "fourth");
        limiter.close();
        assertThat(errors).as("the remaining waiter fails").hasSize(1);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anAttemptWithoutAWaiterKeepsItsPlaceUntilTheReply() {
        RateLimiter limiter = builder(held, Limit.perSecond(1)).waiters(1, 1).build();
        waitFor(limiter, "a").dispose();
        assertThat(limiter.queues().reserved()).isOne();
        waitFor(limiter, "b");
        assertThat(decisions).hasSize(1);
        waitFor(limiter, "a");
        assertThat(decisions).as("the reply in flight serves this waiter").hasSize(1);
        held.answerAll();
        assertThat(served).containsExactly("a");
        assertThat(held.takes()).isOne();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void cancellationWakesTheNextWaiterIfItRequestsLess() {
        RateLimiter limiter = limiter(Limit.perSecond(10));
        limiter.tryAcquire(Charge.of("a", 8)).block();
        Disposable much = wait(limiter, "much", 5, LONG);
        wait(limiter, "little", 2, LONG);
        assertThat(served).isEmpty();
        much.dispose();
        assertThat(served).containsExactly("little");
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void theNextWaiterIsNotServedOnTheCancellingThread() {
        time.close();
        RateLimiter limiter = limiter(LocalStore.bounded(100), Limit.perMinute(10));
        limiter.tryAcquire(Charge.of("a", 8)).block();
        Disposable much = wait(limiter, "much", 5, LONG);
        List<String> threads = new CopyOnWriteArrayList<>();
        limiter.acquire(List.of(Charge.of("a", 2)), LONG)
                .subscribe(decision -> threads.add(Thread.currentThread().getName()));
        much.dispose();
        await().until(() -> !threads.isEmpty());
        assertThat(threads.get(0)).startsWith("parallel-");
    }

    @Test
    void aPermitWithoutAWaiterIsRefunded() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(5));
        Disposable first = wait(limiter, "first", 3, LONG);
        wait(limiter, "second", 4, LONG);
        first.dispose();
        held.answerAll();
        assertThat(served).as("4 of 5 are free only after the refund of the 3").containsExactly("second");
        assertThat(used("a")).isEqualTo(4);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void anErrorOfTheStoreFailsAllWaiters() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(5));
        List<Throwable> errors = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            limiter.acquire("a", LONG).subscribe(decision -> served.add("?"), errors::add);
        }
        held.fail(0);
        assertThat(errors).hasSize(3).are(kind(Kind.UNAVAILABLE));
        assertNoWaiterIsLeft(limiter);
        wait(limiter, "later", 1, LONG);
        held.answerAll();
        assertThat(served).containsExactly("later");
    }

    @Test
    void closingFailsAllWaitersAndRefundsWhatIsInFlight() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(5));
        List<Throwable> errors = new ArrayList<>();
        for (String key : List.of("a", "a", "b")) {
            limiter.acquire(key, LONG).subscribe(decision -> served.add("?"), errors::add);
        }
        limiter.close();
        assertThat(errors)
                .hasSize(3)
                .allSatisfy(error -> assertThat(error)
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("limiter test is closed"));
        held.answerAll();
        assertThat(used("a")).isZero();
        assertThat(used("b")).isZero();
        assertThat(served).isEmpty();
        assertNoWaiterIsLeft(limiter);
        StepVerifier.create(limiter.acquire("a", LONG)).verifyError(IllegalStateException.class);
    }

    @Test
    void aWaiterCancelledByAFailedOneLeavesNothing() {
        RateLimiter limiter = limiter(Limit.perSecond(1));
        limiter.tryAcquire("a").block();
        List<Disposable> next = new ArrayList<>();
        limiter.acquire("a", LONG)
                .subscribe(decision -> served.add("?"), error -> next.get(0).dispose());
        next.add(wait(limiter, "next", 1, LONG));
        limiter.close();
        assertThat(next.get(0).isDisposed()).isTrue();
        assertThat(served).isEmpty();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void requestsAndLookupResultsAfterTheCloseFail() {
        RateLimiter limiter = limiter(Limit.perSecond(2));
        StepVerifier.create(limiter.acquire("a", LONG), 0)
                .expectSubscription()
                .then(limiter::close)
                .thenRequest(1)
                .verifyError(IllegalStateException.class);
        Sinks.One<List<Limit>> plan = Sinks.one();
        RateLimiter looking = builder(store, Limit.perSecond(2))
                .lookup(LimitLookup.of(key -> plan.asMono()))
                .build();
        for (Mono<Decision> decision : List.of(looking.tryAcquire("a"), looking.acquire("a", LONG))) {
            decision.subscribe(it -> served.add("?"), error -> served.add("error"));
        }
        looking.close();
        plan.tryEmitValue(List.of(Limit.perSecond(5)));
        assertThat(served).containsExactly("error", "error");
    }

    @Test
    void theStoreIsNotAskedBeforeTheDecisionIsRequested() {
        RateLimiter limiter = heldLimiter(Limit.perSecond(5));
        Mono<Decision> permit = limiter.acquire("a", LONG);
        StepVerifier.create(permit, 0)
                .expectSubscription()
                .then(() -> assertThat(held.takes()).isZero())
                .thenRequest(1)
                .then(() -> assertThat(held.takes()).isOne())
                .then(held::answerAll)
                .expectNextMatches(Decision::isAllowed)
                .verifyComplete();
        StepVerifier.create(permit, 0).thenCancel().verify();
        assertThat(held.takes()).isOne();
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void theStoreSeesTheContextOfTheHeadAndEachSubscriberItsOwn() {
        List<String> seen = new ArrayList<>();
        LimitStore watching = StoreForTests.taking(
                store,
                claims -> Mono.deferContextual(context -> {
                    seen.add(context.get("name"));
                    return store.take(StoreRequest.take(claims));
                }));
        RateLimiter limiter = limiter(watching, Limit.perSecond(1));
        for (String name : List.of("one", "two")) {
            limiter.acquire("a", LONG)
                    .flatMap(decision -> Mono.deferContextual(context -> Mono.just(context.<String>get("name"))))
                    .contextWrite(Context.of("name", name))
                    .subscribe(served::add);
        }
        time.passMillis(1_001);
        assertThat(served).containsExactly("one", "two");
        assertThat(seen).containsExactly("one", "two", "two");
    }

    @Test
    void aServedCallerMayWaitInTheSameQueueAgainAndEvenBlock() {
        RateLimiter limiter = limiter(Limit.perSecond(3));
        limiter.acquire("a", LONG)
                .doOnNext(decision -> served.add("outer"))
                .doOnNext(decision -> limiter.acquire("a", LONG).block())
                .subscribe(decision -> served.add("inner"));
        assertThat(served).containsExactly("outer", "inner");
        limiter.acquire("a", LONG).repeat(2_000).subscribe(decision -> served.add("again"));
        time.pass(Duration.ofMillis(1_001 * 667));
        assertThat(served).hasSize(2_003);
        assertNoWaiterIsLeft(limiter);
    }

    /** Nested calls beyond a depth are handed over to another thread, which needs real time. */
    @Test
    void servedCallersMayBlockNestedToAnyDepth() {
        time.close();
        RateLimiter limiter = limiter(Limit.perSecond(100));
        blockWithin(limiter, 20);
        assertThat(served).hasSizeGreaterThan(1).endsWith("outer");
    }

    private void blockWithin(RateLimiter limiter, int depth) {
        limiter.acquire("a", LONG)
                .doOnNext(decision -> {
                    // The thread that takes over must not block.
                    if (depth > 0 && !Schedulers.isInNonBlockingThread()) {
                        blockWithin(limiter, depth - 1);
                    }
                })
                .block(Duration.ofSeconds(30));
        served.add(depth == 20 ? "outer" : "inner");
    }

    @Test
    void aSubscriberThatThrowsDoesNotStopTheQueue() {
        time.close();
        RateLimiter limiter = heldLimiter(Limit.perSecond(2));
        List<String> dropped = new CopyOnWriteArrayList<>();
        Hooks.onErrorDropped(error -> dropped.add(error.getMessage()));
        limiter.acquire("a", LONG).subscribe(new CoreSubscriber<>() {
            @Override
            public void onSubscribe(Subscription subscription) {
                subscription.request(1);
            }

            @Override
            public void onNext(Decision decision) {
                throw new IllegalStateException("of a user's");
            }

            @Override
            public void onError(Throwable error) {
                served.add("?");
            }

            @Override
            public void onComplete() {
                served.add("?");
            }
        });
        Mono<Decision> next = limiter.acquire("a", LONG).cache();
        next.subscribe();
        held.answer(0);
        Hooks.resetOnErrorDropped();
        assertThat(dropped).containsExactly("of a user's");
        assertThat(served).isEmpty();
        await().until(() -> held.held() > 0);
        held.answerAll();
        assertThat(next.block(LONG).isAllowed()).isTrue();
        await().untilAsserted(() -> assertNoWaiterIsLeft(limiter));
    }

    @Test
    void closingFailsAllWaitersEvenIfOneThrows() {
        RateLimiter limiter = limiter(Limit.perHour(1));
        List<String> ended = new ArrayList<>();
        List<Throwable> dropped = new ArrayList<>();
        Hooks.onErrorDropped(dropped::add);
        for (String key : List.of("a", "b", "c")) {
            limiter.tryAcquire(key).block();
            limiter.acquire(key, Duration.ofDays(1)).subscribe(decision -> {}, error -> {
                ended.add(key);
                throw new IllegalStateException("of a user's");
            });
        }
        limiter.close();
        Hooks.resetOnErrorDropped();
        assertThat(ended).containsExactlyInAnyOrder("a", "b", "c");
        assertThat(dropped).hasSize(3);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aFatalErrorOfTheStoreReleasesAllPlaces() {
        boolean[] broken = {false};
        RateLimiter limiter = limiter(
                StoreForTests.taking(held, claims -> {
                    if (broken[0]) {
                        throw new NoClassDefFoundError("gone");
                    }
                    return held.take(claims);
                }),
                Limit.perSecond(20));
        List<Throwable> errors = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            limiter.acquire("a", LONG).subscribe(decision -> served.add("first"), errors::add);
        }
        broken[0] = true;
        assertThatThrownBy(() -> held.answer(0)).isInstanceOf(NoClassDefFoundError.class);
        time.passMillis(1);
        assertThat(served).hasSize(1);
        assertThat(errors).hasSize(9);
        assertNoWaiterIsLeft(limiter);
    }

    @Test
    void aStoreThatReturnsNullOrIsEmptyFailsTheWaiters() {
        for (Mono<StoreDecision> answer : new ArrayList<>(java.util.Arrays.asList(Mono.<StoreDecision>empty(), null))) {
            RateLimiter limiter = limiter(StoreForTests.taking(store, claims -> answer), Limit.perSecond(1));
            StepVerifier.create(limiter.acquire("a", LONG)).verifyError();
            assertNoWaiterIsLeft(limiter);
        }
    }
}
