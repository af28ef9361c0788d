package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.WithoutDeadline;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.test.publisher.TestPublisher;

/** Subscribers that cancel, request more than once or throw, and operations after their subscriber has cancelled. */
class ResilientStoreSubscriberTest extends ResilientStoreFixture {

    @Test
    void aCancelIsNoFailure() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        for (int i = 0; i < 50; i++) {
            Disposable impatient = listen(limiter.tryAcquire("key-" + i));
            time.passMillis(20);
            impatient.dispose();
            remote.replyToAll();
        }
        assertThat(signals).isEmpty();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().problem()).isEmpty();
        assertThat(limiter.state().fallbacks()).isZero();
    }

    @Test
    void aHangOpensTheBreakerIfEveryCallerCancelsEarlier() {
        RateLimiter limiter = limiter(LIMIT);
        remote.neverReplies();
        for (int i = 0; i < 10; i++) {
            Disposable impatient = listen(limiter.tryAcquire("a"));
            time.passMillis(20);
            impatient.dispose();
        }
        time.passMillis(100);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    @Test
    void aCancelBeforeTheSubscriptionCallsNothing() {
        RateLimiter limiter = limiter(LIMIT);
        TestPublisher<String> never = TestPublisher.create();
        never.mono().then(limiter.tryAcquire("a")).subscribe().dispose();
        assertThat(remote.calls()).isZero();
    }

    @Test
    void requestingTwiceCallsTheStoreOnce() {
        BaseSubscriber<Decision> twice = lazySubscriber();
        twice.request(1);
        twice.request(1);
        assertThat(remote.calls()).isEqualTo(1);
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void aRequestAfterACancelCallsNothing() {
        BaseSubscriber<Decision> leaves = lazySubscriber();
        Subscription asked = requireNonNull(upstream);
        leaves.cancel();
        asked.request(1);
        assertThat(remote.calls()).isZero();
    }

    private @Nullable Subscription upstream;

    /** Returns a subscriber that requests nothing by itself. */
    private BaseSubscriber<Decision> lazySubscriber() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        BaseSubscriber<Decision> lazySubscriber = new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {
                upstream = subscription;
            }
        };
        store.take(StoreRequest.take(claims("a"))).subscribe(lazySubscriber);
        return lazySubscriber;
    }

    private List<Claim> claims(String key) {
        return now(remote.unprotected("api").limit(LIMIT).build().peek(key)).limits().stream()
                .map(usage -> ((StoreUsage) usage).claim().withPermits(1))
                .toList();
    }

    @Test
    void aCancelledCallKeepsItsPlaceUntilTheReply() {
        RateLimiter limiter =
                on(ResilientStore.builder(remote).fallback(local).maxInFlight(3).build());
        remote.holdsReplies();
        for (int i = 0; i < 3; i++) {
            listen(limiter.tryAcquire("a")).dispose();
        }
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(remote.held()).isEqualTo(3);
        remote.replyToAll();
        remote.isAvailable();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void aFallbackBecauseOfReconciliationFreesItsPlace() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(1).build();
        RateLimiter limiter = on(store);
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.isAvailable();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void answeredCallsAreNotRetainedUntilTheirDeadline() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        for (int i = 0; i < 100; i++) {
            now(limiter.tryAcquire("a"));
        }
        assertThat(store.failover().deadlines().size()).isLessThanOrEqualTo(1);
        remote.holdsReplies();
        for (int i = 0; i < 100; i++) {
            listen(limiter.peek("a"));
        }
        time.passMillis(100);
        assertThat(store.failover().lateReplies().size()).isEqualTo(100);
        remote.replyToAll();
        time.pass(Duration.ofSeconds(2));
        listen(limiter.peek("a"));
        time.passMillis(100);
        assertThat(store.failover().lateReplies().size()).isEqualTo(1);
    }

    @Test
    void callersAreNotRetainedBehindACallThatIsUnanswered() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        List<WeakReference<Object>> callers = new ArrayList<>();
        remote.neverReplies();
        listen(limiter.tryAcquire("a"));
        callers.add(listenAsCaller(limiter.tryAcquire("b")));
        time.passMillis(100);
        assertThat(store.failover().lateReplies().size()).isEqualTo(2);
        listen(limiter.tryAcquire("f"));
        callers.add(listenAsCaller(limiter.tryAcquire("c"), Disposable::dispose));
        remote.isAvailable();
        callers.add(listenAsCaller(limiter.tryAcquire("d")));
        remote.failsWith(new IllegalStateException("told to fail"));
        callers.add(listenAsCaller(limiter.tryAcquire("e")));
        assertThat(store.failover().deadlines().size()).isEqualTo(4);
        await().untilAsserted(() -> {
            System.gc();
            assertThat(callers).allMatch(caller -> caller.get() == null);
        });
    }

    private WeakReference<Object> listenAsCaller(Mono<Decision> decision) {
        return listenAsCaller(decision, subscription -> {});
    }

    private WeakReference<Object> listenAsCaller(Mono<Decision> decision, Consumer<Disposable> then) {
        Object caller = new Object();
        then.accept(
                decision.contextWrite(context -> context.put("caller", caller)).subscribe(signals::add));
        return new WeakReference<>(caller);
    }

    @Test
    void anUnansweredCallIsCancelledAfterAMinute() {
        List<String> cancelled = new ArrayList<>();
        RateLimiter limiter = on(WithoutDeadline.taking(
                remote, claims -> Mono.<StoreDecision>never().doOnCancel(() -> cancelled.add("cancelled"))));
        listen(limiter.tryAcquire("a"));
        time.pass(Duration.ofSeconds(60));
        assertThat(cancelled).isEmpty();
        time.pass(Duration.ofSeconds(1));
        assertThat(cancelled).hasSize(1);
    }

    @Test
    void anUnansweredCallIsForgottenAfterAMinute() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(1).build();
        RateLimiter limiter = on(store);
        remote.neverReplies();
        listen(limiter.tryAcquire("a"));
        time.passMillis(100);
        assertThat(store.failover().gates().whole().freeCapacity()).isZero();
        remote.isAvailable();
        time.pass(Duration.ofMinutes(1));
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(1);
        assertThat(store.failover().deadlines().size()).isZero();
        assertThat(store.failover().lateReplies().size()).isZero();
    }

    /** A place released twice would let ever more operations through to a store that hangs. */
    @Test
    void aReplyAfterTheMinuteFreesNoSecondPlace() {
        List<CoreSubscriber<? super StoreDecision>> asked = new ArrayList<>();
        LimitStore careless = new WithoutDeadline(remote) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                return new Mono<>() {
                    @Override
                    public void subscribe(CoreSubscriber<? super StoreDecision> actual) {
                        actual.onSubscribe(Operators.emptySubscription());
                        asked.add(actual);
                    }
                };
            }
        };
        ResilientStore store =
                ResilientStore.builder(careless).fallback(local).maxInFlight(2).build();
        RateLimiter limiter = on(store);
        listen(limiter.tryAcquire("a"));
        listen(limiter.tryAcquire("a"));
        assertThat(store.failover().gates().whole().freeCapacity()).isZero();
        time.pass(Duration.ofSeconds(61));
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(2);
        asked.get(0).onError(new LimitStoreException(Kind.UNAVAILABLE, "late"));
        asked.get(1).onComplete();
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(2);
    }

    @Test
    void aThrowingSubscriberHarmsNoOtherCall() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        now(limiter.tryAcquire(Charge.of("a", 9)));
        remote.neverReplies();
        Hooks.onErrorDropped(error -> signals.add(error.getMessage()));
        try {
            limiter.tryAcquire("a").subscribe(new Throwing());
            time.passMillis(100);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(signals).containsExactly("thrown by a subscriber");
        assertThat(limiter.state().toReconcile()).isEqualTo(1);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(90));
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(10_000);
    }

    private static final class Throwing extends BaseSubscriber<Decision> {
        @Override
        protected void hookOnNext(Decision decision) {
            throw new IllegalStateException("thrown by a subscriber");
        }

        @Override
        protected void hookOnError(Throwable error) {
            throw Exceptions.propagate(error);
        }
    }
}
