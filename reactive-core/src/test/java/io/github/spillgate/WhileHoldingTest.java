package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Publisher;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.publisher.Sinks;
import reactor.test.StepVerifier;

/** Work that holds permits of a concurrency limit: when it gets them, how long it has them, and when they return. */
class WhileHoldingTest {

    private static final Limit TWO = Limit.concurrent(2);

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final CountingStore store = new CountingStore(LocalStore.bounded(100, time));
    private final RateLimiter limiter =
            RateLimiter.builder("test").store(store).limit(TWO).build();
    private final List<String> events = new ArrayList<>();

    @Test
    void permitsAreReleasedWhenTheWorkCompletes() {
        Sinks.One<String> first = Sinks.one();
        Sinks.One<String> second = Sinks.one();
        run(limiter.whileHolding("a", first.asMono()));
        run(limiter.whileHolding("a", second.asMono()));
        assertThat(used(limiter)).isEqualTo(2);
        assertThat(limiter.holders()).isEqualTo(2);
        run(limiter.whileHolding("a", Mono.just("third")));
        assertThat(events).containsExactly("RateLimitedException");

        first.tryEmitValue("first");
        assertThat(used(limiter)).isEqualTo(1);
        second.tryEmitEmpty();
        assertThat(used(limiter)).isZero();
        assertThat(limiter.holders()).isZero();
        assertThat(events).containsExactly("RateLimitedException", "first", "done", "done");
        assertThat(store.releases).isEqualTo(2);
    }

    @Test
    void permitsAreReleasedWhenTheWorkFailsOrIsCancelled() {
        run(limiter.whileHolding("a", Mono.error(new IllegalStateException("x"))));
        assertThat(events).containsExactly("IllegalStateException");
        run(limiter.whileHolding("a", Mono.<String>defer(() -> {
            throw new UnsupportedOperationException();
        })));
        assertThat(events).containsExactly("IllegalStateException", "UnsupportedOperationException");
        Disposable running = run(limiter.whileHolding("a", Mono.never()));
        assertThat(used(limiter)).isEqualTo(1);
        running.dispose();
        running.dispose();
        assertThat(used(limiter)).isZero();
        assertThat(store.releases).isEqualTo(3);
    }

    /** The work may begin all the same. */
    @Test
    void aPermitIsHeldUntilWorkThatIsCancelledWhileItStartsHasStarted() {
        BaseSubscriber<String> subscriber = new BaseSubscriber<>() {};
        Mono<String> work = Mono.defer(() -> {
            subscriber.cancel();
            subscriber.cancel();
            events.add("used " + used(limiter));
            return Mono.never();
        });
        limiter.whileHolding("a", work).subscribe(subscriber);
        assertThat(events).containsExactly("used 1");
        assertThat(used(limiter)).isZero();
        assertThat(limiter.holders()).isZero();
        assertThat(store.releases).isEqualTo(1);
    }

    @Test
    void aPermitIsFreeWhenAnElementEndsAStreamThatEmitsAtOnce() {
        Mono<String> first = Flux.just("1", "2")
                .transform(limiter.limited(Charge.of("a", 2)))
                .next();
        run(first.flatMap(element -> Mono.just(element).transform(limiter.limited(Charge.of("a", 2)))));
        assertThat(events).containsExactly("1", "done");
        assertThat(used(limiter)).isZero();
    }

    @Test
    void workThatEndsWhileItStartsReleasesItsPermitOnce() {
        run(limiter.whileHolding("a", Mono.just("ok")));
        run(limiter.whileHolding("a", Mono.empty()));
        run(limiter.whileHolding("a", Mono.error(new IllegalStateException("x"))));
        run(limiter.whileHolding("a", Mono.fromSupplier(() -> "used " + used(limiter))));
        run(limiter.whileHolding("a", limiter.whileHolding("a", Mono.fromSupplier(() -> "used " + used(limiter)))));
        assertThat(events)
                .containsExactly("ok", "done", "done", "IllegalStateException", "used 1", "done", "used 2", "done");
        assertThat(used(limiter)).isZero();
        assertThat(store.releases).isEqualTo(6);
    }

    /** Reactor throws such an error on, and signals nothing. */
    @Test
    void permitsAreReleasedIfAClassOfTheWorkIsMissing() {
        Mono<String> work = limiter.whileHolding("a", Mono.defer(() -> {
            throw new NoClassDefFoundError("x");
        }));
        assertThatThrownBy(work::subscribe).isInstanceOf(NoClassDefFoundError.class);
        assertThat(used(limiter)).isZero();
        assertThat(limiter.holders()).isZero();
    }

    @Test
    void limitedWorkHoldsItsPermitUntilItEnds() {
        Sinks.One<String> first = Sinks.one();
        run(first.asMono().transform(limiter.limited("a")));
        Disposable second = Flux.never().transform(limiter.limited("a")).subscribe();
        time.pass(Duration.ofMinutes(5));
        assertThat(used(limiter)).isEqualTo(2);
        run(Mono.just("third").transform(limiter.limited("a")));
        assertThat(events).containsExactly("RateLimitedException");
        first.tryEmitValue("first");
        second.dispose();
        assertThat(events).containsExactly("RateLimitedException", "first", "done");
        assertThat(used(limiter)).isZero();
    }

    @Test
    void aStreamHoldsItsPermitUntilItEnds() {
        Sinks.Many<String> stream = Sinks.many().unicast().onBackpressureBuffer();
        StepVerifier.create(limiter.whileHolding("a", stream.asFlux()), 1)
                .then(() -> stream.tryEmitNext("1"))
                .expectNext("1")
                .then(() -> assertThat(used(limiter)).isEqualTo(1))
                .thenRequest(5)
                .then(() -> stream.tryEmitNext("2"))
                .expectNext("2")
                .then(stream::tryEmitComplete)
                .verifyComplete();
        assertThat(used(limiter)).isZero();
    }

    @Test
    void deniedWorkIsNotSubscribedTo() {
        AtomicInteger subscriptions = new AtomicInteger();
        run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        StepVerifier.create(limiter.whileHolding("a", Mono.fromSupplier(subscriptions::incrementAndGet)))
                .verifyErrorSatisfies(error -> assertThat(error)
                        .isInstanceOfSatisfying(
                                RateLimitedException.class,
                                denied -> assertThat(denied.retryAfter()).contains(Duration.ofSeconds(1))));
        assertThat(subscriptions).hasValue(0);
    }

    @Test
    void eachSubscriptionHoldsItsOwnPermit() {
        Mono<String> work = limiter.whileHolding("a", Mono.never());
        assertThat(used(limiter)).isZero();
        run(work);
        run(work);
        assertThat(used(limiter)).isEqualTo(2);
    }

    /** The store emits its decision while the subscriber cancels. */
    @Test
    void aGrantThatArrivesAfterTheCancellationIsReleased() {
        List<Runnable> replies = new ArrayList<>();
        RateLimiter slow = RateLimiter.builder("test")
                .store(new Unprotected(store) {
                    @Override
                    public Mono<StoreDecision> take(List<Claim> claims) {
                        return new Mono<>() {
                            @Override
                            public void subscribe(CoreSubscriber<? super StoreDecision> actual) {
                                actual.onSubscribe(Operators.emptySubscription());
                                StoreDecision made =
                                        store.take(StoreRequest.take(claims)).block();
                                replies.add(() -> actual.onNext(made));
                            }
                        };
                    }
                })
                .limit(TWO)
                .build();
        for (Supplier<Publisher<?>> work : List.<Supplier<Publisher<?>>>of(
                () -> slow.whileHolding("a", Mono.never()), () -> slow.tryAcquire("a"))) {
            Disposable running = Flux.from(work.get()).subscribe();
            assertThat(used(limiter)).isEqualTo(1);
            running.dispose();
            replies.remove(0).run();
            assertThat(used(limiter)).isZero();
            assertThat(slow.holders()).isZero();
        }
    }

    @Test
    void longWorkIsRenewedInBatches() {
        RateLimiter many = RateLimiter.builder("many")
                .store(store)
                .limit(Limit.concurrent(1_000).hold(Duration.ofSeconds(30)))
                .build();
        List<Disposable> running = IntStream.range(0, 300)
                .mapToObj(i -> run(many.whileHolding("a", Mono.never())))
                .toList();
        time.pass(Duration.ofMinutes(5));
        assertThat(used(many)).isEqualTo(300);
        assertThat(events).isEmpty();
        // Three commands every 10 s.
        assertThat(store.renewals).isBetween(60, 120);
        running.forEach(Disposable::dispose);
        assertThat(used(many)).isZero();
        int renewals = store.renewals;
        time.pass(Duration.ofMinutes(5));
        assertThat(store.renewals).isEqualTo(renewals);
    }

    @Test
    void workThatCouldNotBeRenewedEndsBeforeOthersGetItsPermit() {
        Disposable first = run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        time.pass(Duration.ofSeconds(25));
        store.failsRenewals = true;
        time.pass(Duration.ofSeconds(51));
        assertThat(events).isEmpty();
        assertThat(used(limiter)).isEqualTo(2);
        // It was renewed at 20 s, so it is held until 80 s.
        time.pass(Duration.ofSeconds(3));
        assertThat(events).containsExactly("HoldExpiredException");
        assertThat(first.isDisposed()).isTrue();
        assertThat(used(limiter)).isZero();
        assertThat(limiter.holders()).isZero();
    }

    /** Two attempts can fail. */
    @Test
    void aFailedRenewalIsRepeated() {
        run(limiter.whileHolding("a", Mono.never()));
        store.failsRenewals = true;
        time.pass(Duration.ofSeconds(50));
        store.failsRenewals = false;
        time.pass(Duration.ofMinutes(2));
        assertThat(events).isEmpty();
        assertThat(used(limiter)).isEqualTo(1);
    }

    @Test
    void aStoreThatHangsDoesNotKeepTheWorkAlive() {
        run(limiter.whileHolding("a", Mono.never()));
        store.hangsRenewals = true;
        time.pass(Duration.ofSeconds(58));
        assertThat(events).containsExactly("HoldExpiredException");
    }

    @Test
    void permitsThatTheStoreHasLostAreHeldAgain() {
        run(limiter.whileHolding("a", Mono.never()));
        limiter.reset("a").block();
        assertThat(used(limiter)).isZero();
        time.pass(Duration.ofSeconds(21));
        assertThat(used(limiter)).isEqualTo(1);
        assertThat(events).isEmpty();
    }

    @Test
    void workEndsAfterTheLongestHold() {
        RateLimiter brief = RateLimiter.builder("test")
                .store(store)
                .limit(TWO)
                .longestHold(Duration.ofMinutes(10))
                .build();
        run(brief.whileHolding("a", Mono.never()));
        time.pass(Duration.ofMinutes(9));
        assertThat(events).isEmpty();
        time.pass(Duration.ofMinutes(2));
        assertThat(events).containsExactly("HoldExpiredException");
        assertThat(used(limiter)).isZero();
    }

    @Test
    void theErrorOfLostWorkSaysWhy() {
        store.failsRenewals = true;
        Sinks.One<Throwable> failure = Sinks.one();
        limiter.whileHolding("secret", Mono.never()).subscribe(null, failure::tryEmitValue);
        time.pass(Duration.ofMinutes(1));
        assertThat(failure.asMono().block())
                .hasMessage("the permits of 2 concurrent are lost after 57000 ms: they could not be renewed");
    }

    @Test
    void aKeptDecisionIsRenewedUntilItIsDisposedOf() {
        List<HoldExpiredException> expired = new ArrayList<>();
        Disposable kept = limiter.keepHolding(limiter.tryAcquire("a").block(), expired::add);
        time.pass(Duration.ofMinutes(5));
        assertThat(used(limiter)).isEqualTo(1);
        kept.dispose();
        kept.dispose();
        assertThat(kept.isDisposed()).isTrue();
        assertThat(used(limiter)).isZero();
        assertThat(store.releases).isEqualTo(1);
        assertThat(expired).isEmpty();

        store.failsRenewals = true;
        limiter.keepHolding(limiter.tryAcquire("a").block(), expired::add);
        time.pass(Duration.ofMinutes(1));
        assertThat(expired).hasSize(1);
        assertThat(limiter.keepHolding(limiter.tryAcquire(Charge.of("a", 3)).block(), expired::add)
                        .isDisposed())
                .isTrue();
    }

    /** Others may have its permits. The store would take them again, above the limit. */
    @Test
    void aDecisionThatIsKeptAfterItsHoldTimeIsLostAtOnce() {
        Decision late = limiter.tryAcquire("a").block();
        time.pass(Duration.ofMinutes(1));
        run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        Disposable kept = limiter.keepHolding(late, expired -> events.add(String.valueOf(expired.getMessage())));
        assertThat(kept.isDisposed()).isTrue();
        assertThat(events)
                .containsExactly("the permits of 2 concurrent are lost after 60000 ms:"
                        + " the decision took longer than their hold time");
        assertThat(limiter.holders()).isEqualTo(1);
        time.pass(Duration.ofMinutes(5));
        assertThat(used(limiter)).isEqualTo(2);
        assertThat(events).hasSize(1);
    }

    /** A renewal would take its permits again. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aKeptDecisionThatIsReleasedOrRefundedIsNotRenewed(boolean isRefunded) {
        Decision made = limiter.tryAcquire(Charge.of("a", 2)).block();
        Disposable kept = limiter.keepHolding(made, expired -> events.add("lost"));
        (isRefunded ? limiter.refund(made) : limiter.release(made)).block();
        assertThat(used(limiter)).isZero();
        time.pass(Duration.ofMinutes(5));
        assertThat(used(limiter)).isZero();
        assertThat(limiter.holders()).isZero();
        assertThat(kept.isDisposed()).isTrue();
        assertThat(limiter.keepHolding(made, expired -> events.add("lost")).isDisposed())
                .isTrue();
        assertThat(events).isEmpty();
    }

    /** A renewal would take them again, even above the limit. */
    @Test
    void permitsOfAKeptDecisionThatAreRefundedOnTheirOwnAreNotRenewed() {
        Decision made =
                limiter.tryAcquire(Charge.of("tenant"), Charge.of("user")).block();
        Disposable kept = limiter.keepHolding(made, expired -> events.add("lost"));
        limiter.refund(made, usage -> usage.key().equals("user")).block();
        assertThat(used("tenant")).isEqualTo(1);
        assertThat(used("user")).isZero();
        time.pass(Duration.ofMinutes(5));
        assertThat(used("tenant")).isEqualTo(1);
        assertThat(used("user")).isZero();
        kept.dispose();
        assertThat(used("tenant")).isZero();
        assertThat(used("user")).isZero();
        assertThat(events).isEmpty();
    }

    /** For example, because the work is retried. */
    @Test
    void aKeptDecisionThatWasDisposedOfIsNotRenewedIfItIsKeptAgain() {
        Decision made = limiter.tryAcquire(Charge.of("a", 2)).block();
        limiter.keepHolding(made, expired -> events.add("lost")).dispose();
        run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        Disposable again = limiter.keepHolding(made, expired -> events.add("lost"));
        time.pass(Duration.ofMinutes(5));
        assertThat(used(limiter)).isEqualTo(2);
        assertThat(again.isDisposed()).isTrue();
        assertThat(events).isEmpty();
    }

    @Test
    void aDecisionThatIsKeptTwiceIsNotRenewedOnceItIsDisposedOf() {
        Decision made = limiter.tryAcquire(Charge.of("a", 2)).block();
        Disposable first = limiter.keepHolding(made, expired -> events.add("lost"));
        Disposable second = limiter.keepHolding(made, expired -> events.add("lost"));
        first.dispose();
        run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        time.pass(Duration.ofMinutes(5));
        assertThat(used(limiter)).isEqualTo(2);
        assertThat(second.isDisposed()).isTrue();
        assertThat(limiter.holders()).isEqualTo(1);
        assertThat(events).isEmpty();
    }

    @Test
    void aKeptDecisionThatIsNotRenewedEndsWithTheHoldTimeOfItsRequest() {
        Decision late = limiter.tryAcquire("a").block();
        time.pass(Duration.ofSeconds(40));
        store.failsRenewals = true;
        limiter.keepHolding(late, expired -> events.add("lost"));
        time.passMillis(16_999);
        assertThat(events).isEmpty();
        time.passMillis(1);
        assertThat(events).containsExactly("lost");
    }

    @Test
    void workEndsIfAnotherRequestGotThePermitsBeforeALateRenewal() {
        List<HoldExpiredException> expired = new ArrayList<>();
        limiter.keepHolding(limiter.tryAcquire(Charge.of("a", 2)).block(), expired::add);
        RateLimiter others = RateLimiter.builder("test").store(store).limit(TWO).build();
        // The process is suspended just before it sends the renewal.
        store.beforeRenewal = () -> {
            time.pass(Duration.ofMinutes(1));
            run(Mono.<String>never().transform(others.limited(Charge.of("a", 2))));
        };
        time.pass(Duration.ofSeconds(20));
        assertThat(expired).hasSize(1);
        assertThat(limiter.holders()).isZero();
        assertThat(used(limiter)).isEqualTo(2);
        assertThat(events).isEmpty();
    }

    /** The monotonic clock stands still while a machine is suspended. */
    @Test
    void workOfAMachineThatWasSuspendedEndsIfTheStoreHasForgottenItsPermits() {
        run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        RateLimiter others = RateLimiter.builder("test").store(store).limit(TWO).build();
        time.pass(Duration.ofSeconds(30));
        time.suspend(Duration.ofMinutes(1));
        Disposable other = others.tryAcquire(Charge.of("a", 2))
                .map(made -> others.keepHolding(made, lost -> {}))
                .block();
        assertThat(other.isDisposed()).isFalse();
        time.pass(Duration.ofSeconds(20));
        assertThat(events).containsExactly("HoldExpiredException");
        assertThat(limiter.holders()).isZero();
        assertThat(used(limiter)).isEqualTo(2);
        other.dispose();
        assertThat(used(limiter)).isZero();
    }

    @Test
    void workOfAMachineThatWasSuspendedBrieflyGoesOn() {
        run(limiter.whileHolding("a", Mono.never()));
        time.suspend(Duration.ofSeconds(35));
        time.pass(Duration.ofMinutes(5));
        assertThat(events).isEmpty();
        assertThat(used(limiter)).isEqualTo(1);
    }

    /** The request may have been sent a whole deadline ago. */
    @Test
    void aDecisionIsKeptIfTheDeadlineIsAsLongAsTheHoldTime() {
        RateLimiter brief = RateLimiter.builder("test")
                .store(new Unprotected(store) {
                    @Override
                    public Optional<Duration> deadline() {
                        return Optional.of(Duration.ofSeconds(2));
                    }
                })
                .limit(TWO.hold(Duration.ofSeconds(2)))
                .build();
        Disposable kept = brief.keepHolding(
                brief.tryAcquire("a").block(), expired -> events.add(String.valueOf(expired.getMessage())));
        time.pass(Duration.ofSeconds(20));
        assertThat(events).isEmpty();
        assertThat(used(limiter)).isEqualTo(1);
        kept.dispose();
        assertThat(used(limiter)).isZero();
    }

    @Test
    void aNodeThatDoesNotReplyDoesNotEndTheWorkOfOthers() {
        RateLimiter cluster = RateLimiter.builder("test")
                .store(new WithoutDeadline(store) {
                    @Override
                    public String node(List<Claim> claims) {
                        return claims.get(0).key();
                    }

                    @Override
                    public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
                        return holds.stream().anyMatch(hold -> hold.key().equals("down"))
                                ? Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"))
                                : super.renew(holds);
                    }
                })
                .fallback(Fallback.error())
                .limit(TWO)
                .build();
        run(cluster.whileHolding("down", Mono.never()));
        run(cluster.whileHolding("a", Mono.never()));
        run(cluster.whileHolding("a", Mono.never()));
        time.pass(Duration.ofMinutes(2));
        assertThat(events).containsExactly("HoldExpiredException");
        assertThat(cluster.holders()).isEqualTo(2);
    }

    @Test
    void workThatRunsWhileTheLimiterIsClosedReleasesItsPermit() {
        Disposable running = run(limiter.whileHolding("a", Mono.never()));
        Decision taken = limiter.tryAcquire("a").block();
        limiter.close();
        RateLimiter other = RateLimiter.builder("test").store(store).limit(TWO).build();
        time.pass(Duration.ofSeconds(50));
        assertThat(used(other)).isEqualTo(2);
        running.dispose();
        limiter.release(taken).block();
        assertThat(used(other)).isZero();
    }

    // Waiting

    @Test
    void waitersAreServedInOrderWhenPermitsAreReleased() {
        Sinks.One<String> work = Sinks.one();
        run(work.asMono().transform(limiter.limited(Charge.of("a", 2))));
        for (String name : List.of("1", "2", "3")) {
            limiter.acquire("a", Duration.ofHours(1)).subscribe(decision -> events.add(name));
        }
        assertThat(events).isEmpty();
        work.tryEmitEmpty();
        assertThat(events).containsExactly("1", "2", "done");
        assertThat(used(limiter)).isEqualTo(2);
    }

    @Test
    void aWaiterAsksAgainForPermitsThatOtherInstancesRelease() {
        RateLimiter other = RateLimiter.builder("test").store(store).limit(TWO).build();
        Disposable running = run(Mono.<String>never().transform(other.limited(Charge.of("a", 2))));
        limiter.acquire("a", Duration.ofHours(1)).subscribe(decision -> events.add("served"));
        int takes = store.takes;
        time.pass(Duration.ofSeconds(100));
        assertThat(store.takes - takes).isBetween(80, 134);
        running.dispose();
        assertThat(events).isEmpty();
        time.passMillis(1_250);
        assertThat(events).containsExactly("served");
    }

    @Test
    void aWaiterAsksAgainAfterTheRetryTimeOfTheLimitAndAtLeastOnceASecond() {
        assertThat(takesIn100SecondsOf(TWO.retryAfter(Duration.ofMillis(200)))).isBetween(400, 668);
        assertThat(takesIn100SecondsOf(TWO.retryAfter(Duration.ofMinutes(1)))).isBetween(80, 134);
    }

    private int takesIn100SecondsOf(Limit limit) {
        RateLimiter waiting =
                RateLimiter.builder("waiting").store(store).limit(limit).build();
        RateLimiter other =
                RateLimiter.builder("waiting").store(store).limit(limit).build();
        Disposable running = run(Mono.<String>never().transform(other.limited(Charge.of("a", 2))));
        Disposable waiter = waiting.acquire("a", Duration.ofHours(1)).subscribe();
        int takes = store.takes;
        time.pass(Duration.ofSeconds(100));
        waiter.dispose();
        running.dispose();
        return store.takes - takes;
    }

    @Test
    void aWaiterIsDeniedAfterItsLongestWait() {
        run(Mono.<String>never().transform(limiter.limited(Charge.of("a", 2))));
        limiter.acquire("a", Duration.ofMillis(2_600))
                .subscribe(decision -> events.add("first " + decision.isAllowed()));
        limiter.acquire("a", Duration.ofMillis(300))
                .subscribe(decision -> events.add("second " + decision.isAllowed()));
        limiter.acquire("a", Duration.ZERO).subscribe(decision -> events.add("third " + decision.isAllowed()));
        time.passMillis(1);
        assertThat(events).containsExactly("third false");
        time.passMillis(298);
        assertThat(events).hasSize(1);
        time.passMillis(2);
        assertThat(events).containsExactly("third false", "second false");
        time.passMillis(2_300);
        assertThat(events).containsExactly("third false", "second false", "first false");
        assertThat(limiter.queues().size()).isZero();
        assertThat(limiter.queues().reserved()).isZero();
    }

    @Test
    void aRateBoundsTheWaitBesideAConcurrencyLimit() {
        RateLimiter both = RateLimiter.builder("both")
                .store(store)
                .limit(TWO)
                .limit(Limit.of(2, Duration.ofMinutes(1)))
                .build();
        run(Mono.<String>never().transform(both.limited(Charge.of("a", 2))));
        both.acquire("a", Duration.ofSeconds(30)).subscribe(decision -> events.add("" + decision.isAllowed()));
        assertThat(events).containsExactly("false");
    }

    // Misuse

    @Test
    void aThrottledStreamHasNoConcurrencyLimit() {
        assertThatIllegalStateException()
                .isThrownBy(() -> limiter.throttle("a"))
                .withMessageContaining("concurrency limit")
                .withMessageContaining("for example");
        RateLimiter lookedUp = RateLimiter.builder("test")
                .store(store)
                .limit(Limit.perHour(5))
                .lookup(LimitLookup.of(key -> Mono.just(List.of(TWO))))
                .build();
        StepVerifier.create(Flux.just(1).transform(lookedUp.throttle("a"))).verifyError(IllegalStateException.class);
        assertThat(used(limiter)).isZero();
    }

    @Test
    void aThrottledStreamFailsWhenItGetsAConcurrencyLimit() {
        RateLimiter replaced = RateLimiter.builder("test")
                .store(store)
                .limit(Limit.perSecond(2))
                .build();
        Flux.range(0, 100).transform(replaced.throttle("a")).subscribe(element -> {}, error -> events.add("" + error));
        time.pass(Duration.ofSeconds(1));
        replaced.replaceLimits(List.of(TWO));
        time.pass(Duration.ofSeconds(1));
        assertThat(events).singleElement().asString().contains("limiter test has a concurrency limit");
        assertThat(used(replaced)).isZero();
    }

    @Test
    void aLongestHoldIsPositive() {
        for (Duration longest : List.of(Duration.ZERO, Duration.ofSeconds(-1), Duration.ofDays(367))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> RateLimiter.builder("test").longestHold(longest))
                    .withMessageContaining("longestHold " + longest)
                    .withMessageContaining("for example");
        }
    }

    private long used(String key) {
        return limiter.peek(key).block().limits().get(0).used();
    }

    private long used(RateLimiter one) {
        return one.peek("a").block().limits().get(0).used();
    }

    private Disposable run(Mono<String> work) {
        return work.subscribe(
                events::add, error -> events.add(error.getClass().getSimpleName()), () -> events.add("done"));
    }

    /** Counts commands, and fails when it is told to. */
    private static final class CountingStore extends Unprotected {

        private int takes;
        private int releases;
        private int renewals;
        private boolean failsRenewals;
        private boolean hangsRenewals;
        private Runnable beforeRenewal = () -> {};

        CountingStore(LocalStore store) {
            super(store);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            takes++;
            return super.take(claims);
        }

        @Override
        public Mono<Void> release(List<Claim> holds) {
            releases++;
            return super.release(holds);
        }

        @Override
        public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
            renewals++;
            Runnable before = beforeRenewal;
            beforeRenewal = () -> {};
            before.run();
            return failsRenewals
                    ? Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"))
                    : hangsRenewals ? Mono.never() : super.renew(holds);
        }
    }
}
