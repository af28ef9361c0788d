package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
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

/** Subscribers that cancel, request more than once, or throw; and operations that nobody waits for any more. */
class ResilientStoreSubscriberTest extends ResilientStoreFixture {

    @Test
    void whoLeavesIsNoFailure() {
        RateLimiter limiter = limiter(LIMIT);
        remote.hangs();
        for (int i = 0; i < 50; i++) {
            Disposable impatient = listen(limiter.tryAcquire("key-" + i));
            time.passMillis(20);
            impatient.dispose();
            remote.goOn();
        }
        assertThat(signals).isEmpty();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().problem()).isEmpty();
        assertThat(limiter.state().fallbacks()).isZero();
    }

    @Test
    void aStoreThatHangsIsFoundOutAlsoWhereNobodyWaitsForSoLong() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isDeaf();
        for (int i = 0; i < 10; i++) {
            Disposable impatient = listen(limiter.tryAcquire("a"));
            time.passMillis(20);
            impatient.dispose();
        }
        time.passMillis(100);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    @Test
    void whoLeavesBeforeHeAsksHasAskedNothing() {
        RateLimiter limiter = limiter(LIMIT);
        TestPublisher<String> never = TestPublisher.create();
        never.mono().then(limiter.tryAcquire("a")).subscribe().dispose();
        assertThat(remote.questions()).isZero();
    }

    @Test
    void whoRequestsTwiceHasAskedOnce() {
        BaseSubscriber<Decision> twice = asker();
        twice.request(1);
        twice.request(1);
        assertThat(remote.questions()).isEqualTo(1);
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void whoRequestsAfterHeHasLeftHasAskedNothing() {
        BaseSubscriber<Decision> leaves = asker();
        Subscription asked = requireNonNull(upstream);
        leaves.cancel();
        asked.request(1);
        assertThat(remote.questions()).isZero();
    }

    private @Nullable Subscription upstream;

    /** Returns a subscriber that requests nothing by itself. */
    private BaseSubscriber<Decision> asker() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        BaseSubscriber<Decision> asker = new BaseSubscriber<>() {
            @Override
            protected void hookOnSubscribe(Subscription subscription) {
                upstream = subscription;
            }
        };
        store.take(claims("a")).subscribe(asker);
        return asker;
    }

    private List<Claim> claims(String key) {
        return now(remote.asItIs("api").limit(LIMIT).build().peek(key)).limits().stream()
                .map(usage -> ((StoreUsage) usage).claim().asking(1))
                .toList();
    }

    @Test
    void whoLeavesKeepsHisPlaceUntilTheStoreHasAnswered() {
        RateLimiter limiter =
                on(ResilientStore.builder(remote).fallback(local).maxInFlight(3).build());
        remote.hangs();
        for (int i = 0; i < 3; i++) {
            listen(limiter.tryAcquire("a")).dispose();
        }
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(remote.held()).isEqualTo(3);
        remote.goOn();
        remote.answers();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void whoIsToldOfAnErrorLeavesHisPlace() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(1).build();
        RateLimiter limiter = on(store);
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.answers();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void whoFallsBackForWhatIsToBeReconciledLeavesHisPlace() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(1).build();
        RateLimiter limiter = on(store);
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.answers();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void whoIsAnsweredIsNotKeptUntilHisTimeIsUp() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        for (int i = 0; i < 100; i++) {
            now(limiter.tryAcquire("a"));
        }
        assertThat(store.failover().timers().deadline().size()).isLessThanOrEqualTo(1);
        remote.hangs();
        for (int i = 0; i < 100; i++) {
            listen(limiter.peek("a"));
        }
        time.passMillis(100);
        assertThat(store.failover().timers().late().size()).isEqualTo(100);
        remote.goOn();
        time.pass(Duration.ofSeconds(2));
        listen(limiter.peek("a"));
        time.passMillis(100);
        assertThat(store.failover().timers().late().size()).isEqualTo(1);
    }

    @Test
    void whatIsGivenUpIsCancelled() {
        List<String> cancelled = new ArrayList<>();
        RateLimiter limiter = on(new WithoutDeadline(remote) {
            @Override
            public Mono<StoreDecision> take(List<Claim> claims) {
                return Mono.<StoreDecision>never().doOnCancel(() -> cancelled.add("cancelled"));
            }
        });
        listen(limiter.tryAcquire("a"));
        time.pass(Duration.ofSeconds(60));
        assertThat(cancelled).isEmpty();
        time.pass(Duration.ofSeconds(1));
        assertThat(cancelled).hasSize(1);
    }

    @Test
    void aQuestionThatIsNeverAnsweredIsGivenUpAfterAMinute() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(1).build();
        RateLimiter limiter = on(store);
        remote.isDeaf();
        listen(limiter.tryAcquire("a"));
        time.passMillis(100);
        assertThat(store.failover().gates().whole().freePlaces()).isZero();
        assertThat(store.failover().grants().unanswered().size()).isEqualTo(1);
        remote.answers();
        time.pass(Duration.ofMinutes(1));
        assertThat(store.failover().gates().whole().freePlaces()).isEqualTo(1);
        assertThat(store.failover().grants().unanswered().size()).isZero();
        assertThat(store.failover().timers().deadline().size()).isZero();
        assertThat(store.failover().timers().late().size()).isZero();
    }

    /** A place released twice would let ever more operations through to a store that hangs. */
    @Test
    void whatIsAnsweredAfterItWasGivenUpFreesNoSecondPlace() {
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
        assertThat(store.failover().gates().whole().freePlaces()).isZero();
        time.pass(Duration.ofSeconds(61));
        assertThat(store.failover().gates().whole().freePlaces()).isEqualTo(2);
        asked.get(0).onError(new LimitStoreUnavailableException("late", null));
        asked.get(1).onComplete();
        assertThat(store.failover().gates().whole().freePlaces()).isEqualTo(2);
    }

    @Test
    void whoThrowsWhenHeIsAnsweredHarmsNobody() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        now(limiter.tryAcquire("a", 9));
        remote.isDeaf();
        Hooks.onErrorDropped(error -> signals.add(error.getMessage()));
        try {
            limiter.tryAcquire("a").subscribe(new Throwing());
            time.passMillis(100);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(signals).containsExactly("thrown by a subscriber");
        assertThat(limiter.state().toReconcile()).isEqualTo(1);
        remote.answers();
        time.pass(Duration.ofSeconds(90));
        assertThat(store.failover().grants().unanswered().size()).isZero();
        assertThat(store.failover().gates().whole().freePlaces()).isEqualTo(10_000);
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
