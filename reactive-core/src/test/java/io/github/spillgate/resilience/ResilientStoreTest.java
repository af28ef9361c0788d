package io.github.spillgate.resilience;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import io.github.spillgate.Charge;
import io.github.spillgate.Claim;
import io.github.spillgate.Decision;
import io.github.spillgate.ForeignValueException;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitLookup;
import io.github.spillgate.LimitStore;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreUnansweredException;
import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.LimitStoreUnreachableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Settlement;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.Disposable;
import reactor.core.Exceptions;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Operators;
import reactor.core.publisher.Sinks;
import reactor.test.publisher.TestPublisher;

/** The deadline, the breaker, the fallback and the settling, in a time that passes when it is told to. */
class ResilientStoreTest {

    private static final Limit LIMIT = Limit.of(10, Duration.ofMinutes(1));
    private static final Duration A_MILLI = Duration.ofMillis(1);

    private final VirtualTime time = new VirtualTime();
    private final Elsewhere elsewhere = new Elsewhere(time);
    private final LocalStore local = LocalStore.bounded(1_000, time);
    private final List<Object> said = new ArrayList<>();

    @AfterEach
    void backToRealTime() {
        time.close();
    }

    // The deadline

    @Test
    void whoIsAnsweredInTimeIsAnsweredByTheStore() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire("a"));
        assertThat(decision.source()).isEqualTo(Source.OTHER);
        assertThat(decision.remaining()).isEqualTo(9);
        assertThat(limiter.state().decides()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().fellBack()).isZero();
    }

    @Test
    void whoIsNotAnsweredByTheDeadlineIsAnsweredByTheFallbackThen() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a"));
        time.passMillis(99);
        assertThat(said).isEmpty();
        time.pass(A_MILLI);
        assertThat(sources()).containsExactly(Source.LOCAL);
        assertThat(limiter.state().fellBack()).isEqualTo(1);
        assertThat(limiter.state().problem()).hasValue("Elsewhere has not answered within 100 ms");
    }

    static Stream<java.util.function.Function<RateLimiter, Mono<?>>> everyQuestion() {
        return Stream.of(
                limiter -> limiter.tryAcquire("a", 3),
                limiter -> limiter.peek("a"),
                limiter -> limiter.acquire("a", Duration.ZERO),
                limiter -> limiter.refund("a", 1).thenReturn("done"),
                limiter -> limiter.reset("a").thenReturn("done"),
                limiter -> Flux.just("element").transform(limiter.throttle("a")).next());
    }

    @ParameterizedTest
    @MethodSource("everyQuestion")
    void everyQuestionEndsByTheDeadline(java.util.function.Function<RateLimiter, Mono<?>> question) {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isDeaf();
        listen(question.apply(limiter));
        time.passMillis(99);
        assertThat(said).isEmpty();
        time.pass(A_MILLI);
        assertThat(said).hasSize(1).doesNotHaveAnyElementsOfTypes(Throwable.class);
    }

    @Test
    void aRefundOfADecisionEndsByTheDeadline() {
        RateLimiter limiter = limiter(LIMIT);
        Decision decision = now(limiter.tryAcquire("a"));
        elsewhere.isDeaf();
        listen(limiter.refund(decision).thenReturn("done"));
        time.passMillis(100);
        assertThat(said).containsExactly("done");
    }

    @Test
    void manyThatAreDueAtOnceAreAllAnswered() {
        RateLimiter limiter = limiter(Limit.of(1_000, Duration.ofMinutes(1)));
        elsewhere.isDeaf();
        for (int i = 0; i < 1_000; i++) {
            listen(limiter.tryAcquire("a"));
        }
        time.passMillis(100);
        assertThat(sources()).hasSize(1_000).containsOnly(Source.LOCAL);
    }

    @Test
    void anErrorIsAnsweredByTheFallbackAtOnce() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().problem()).hasValue("told to fail");
        elsewhere.answers();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void aStoreThatThrowsIsAStoreThatFails() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.failsWith(new IllegalStateException("not one of ours"));
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        RateLimiter other = RateLimiter.builder("other")
                .store(new Careless(elsewhere) {
                    @Override
                    public Mono<Decision> take(List<Claim> claims) {
                        throw new IllegalStateException("thrown before there is anything to subscribe to");
                    }
                })
                .limit(LIMIT)
                .build();
        assertThat(now(other.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
    }

    /** Another store, which promises nothing about the time that it takes. */
    private static class Careless extends Unprotected {

        Careless(LimitStore store) {
            super(store);
        }

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }
    }

    @Test
    void whoAsksIsAnsweredAlsoIfTheStoreCannotTellWhichPartDecides() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(new Careless(elsewhere) {
                    @Override
                    public String part(List<Claim> claims) {
                        throw new IllegalStateException("broken");
                    }
                })
                .fallback(Fallback.deny())
                .limit(LIMIT)
                .build();
        List<Throwable> dropped = new ArrayList<>();
        Hooks.onErrorDropped(dropped::add);
        try {
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.FALLBACK);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(dropped).singleElement().satisfies(error -> assertThat(error).hasMessage("broken"));
        assertThat(elsewhere.questions()).isZero();
    }

    @Test
    void theTimeOfALookupIsInsideTheDeadline() {
        elsewhere.hangs();
        // However late it is.
        time.pass(Duration.ofHours(1));
        RateLimiter limiter = RateLimiter.builder("api")
                .store(elsewhere)
                .fallback(local)
                .lookup(LimitLookup.of(key -> Mono.delay(Duration.ofMillis(40)).thenReturn(List.of(LIMIT)))
                        .whenEmpty(LimitLookup.Otherwise.deny())
                        .whenFailed(LimitLookup.Otherwise.deny())
                        .whenHanging(LimitLookup.Otherwise.deny()))
                .build();
        listen(limiter.tryAcquire("a"));
        time.passMillis(99);
        assertThat(said).isEmpty();
        time.pass(A_MILLI);
        assertThat(sources()).containsExactly(Source.LOCAL);
        // The store has had 60 milliseconds, which says nothing about it yet.
        assertThat(limiter.state().problem()).isEmpty();
        time.passMillis(40);
        assertThat(limiter.state().problem()).isPresent();
    }

    @Test
    void aLookupThatMayTakeTheWholeDeadlineIsRefused() {
        RateLimiter.Builder builder = RateLimiter.builder("api")
                .store(elsewhere)
                .deadline(Duration.ofMillis(50))
                .limit(LIMIT)
                .lookup(LimitLookup.of(key -> Mono.empty()));
        assertThatIllegalStateException()
                .isThrownBy(builder::build)
                .withMessageContaining("deadline of PT0.05S")
                .withMessageContaining(".timeout(Duration.ofMillis(25))");
    }

    @Test
    void whoWaitsInALineHasTheWholeDeadlineWhenHisTurnComes() {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(elsewhere)
                .fallback(local)
                .lookup(LimitLookup.of(key -> Mono.delay(Duration.ofMillis(40)).thenReturn(List.of(Limit.perSecond(1))))
                        .whenEmpty(LimitLookup.Otherwise.deny())
                        .whenFailed(LimitLookup.Otherwise.deny())
                        .whenHanging(LimitLookup.Otherwise.deny()))
                .build();
        listen(limiter.acquire("a", Duration.ofSeconds(5)));
        listen(limiter.acquire("a", Duration.ofSeconds(5)));
        time.passMillis(1_200);
        assertThat(sources()).containsExactly(Source.OTHER, Source.OTHER);
    }

    // A store in parts

    @Test
    void whatWasWrongAtTheStartIsNotToldForEver() {
        LimitStore inParts = new Unprotected(elsewhere) {
            @Override
            public String part(List<Claim> claims) {
                return claims.isEmpty() ? "" : "node";
            }

            @Override
            public Mono<Void> prepare() {
                return Mono.error(new LimitStoreUnreachableException("another node is not there yet", null));
            }

            @Override
            public Optional<Duration> deadline() {
                return Optional.empty();
            }
        };
        RateLimiter limiter = RateLimiter.builder("api")
                .store(inParts)
                .fallback(local)
                .limit(LIMIT)
                .build();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        time.pass(Duration.ofSeconds(30));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().decides()).isEqualTo(Source.OTHER);
    }

    // Those who leave

    @Test
    void whoLeavesIsNoFailure() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        for (int i = 0; i < 50; i++) {
            Disposable impatient = listen(limiter.tryAcquire("key-" + i));
            time.passMillis(20);
            impatient.dispose();
            elsewhere.goOn();
        }
        assertThat(said).isEmpty();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().problem()).isEmpty();
        assertThat(limiter.state().fellBack()).isZero();
    }

    @Test
    void aStoreThatHangsIsFoundOutAlsoWhereNobodyWaitsForSoLong() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isDeaf();
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
        assertThat(elsewhere.questions()).isZero();
    }

    @Test
    void whoRequestsTwiceHasAskedOnce() {
        BaseSubscriber<Decision> twice = asker();
        twice.request(1);
        twice.request(1);
        assertThat(elsewhere.questions()).isEqualTo(1);
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void whoRequestsAfterHeHasLeftHasAskedNothing() {
        BaseSubscriber<Decision> leaves = asker();
        Subscription asked = requireNonNull(upstream);
        leaves.cancel();
        asked.request(1);
        assertThat(elsewhere.questions()).isZero();
    }

    private @Nullable Subscription upstream;

    /** Asks nothing before it is told to. */
    private BaseSubscriber<Decision> asker() {
        ResilientStore store = ResilientStore.builder(elsewhere).fallback(local).build();
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
        return now(elsewhere.asItIs("api").limit(LIMIT).build().peek(key)).limits().stream()
                .map(usage -> usage.claim().asking(1))
                .toList();
    }

    @Test
    void whoLeavesKeepsHisPlaceUntilTheStoreHasAnswered() {
        RateLimiter limiter =
                on(ResilientStore.builder(elsewhere).fallback(local).mostOpen(3).build());
        elsewhere.hangs();
        for (int i = 0; i < 3; i++) {
            listen(limiter.tryAcquire("a")).dispose();
        }
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(elsewhere.held()).isEqualTo(3);
        elsewhere.goOn();
        elsewhere.answers();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void whoIsToldOfAnErrorLeavesHisPlace() {
        ResilientStore store =
                ResilientStore.builder(elsewhere).fallback(local).mostOpen(1).build();
        RateLimiter limiter = on(store);
        elsewhere.fails();
        now(limiter.tryAcquire("a"));
        elsewhere.answers();
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void whoFallsBackForWhatIsToBeSettledLeavesHisPlace() {
        ResilientStore store =
                ResilientStore.builder(elsewhere).fallback(local).mostOpen(1).build();
        RateLimiter limiter = on(store);
        elsewhere.fails();
        now(limiter.tryAcquire("a"));
        elsewhere.answers();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void whoIsAnsweredIsNotKeptUntilHisTimeIsUp() {
        ResilientStore store = ResilientStore.builder(elsewhere).fallback(local).build();
        RateLimiter limiter = on(store);
        for (int i = 0; i < 100; i++) {
            now(limiter.tryAcquire("a"));
        }
        assertThat(store.deadlines().size()).isLessThanOrEqualTo(1);
        elsewhere.hangs();
        for (int i = 0; i < 100; i++) {
            listen(limiter.peek("a"));
        }
        time.passMillis(100);
        assertThat(store.late().size()).isEqualTo(100);
        elsewhere.goOn();
        time.pass(Duration.ofSeconds(2));
        listen(limiter.peek("a"));
        time.passMillis(100);
        assertThat(store.late().size()).isEqualTo(1);
    }

    @Test
    void whatIsGivenUpIsCancelled() {
        List<String> cancelled = new ArrayList<>();
        RateLimiter limiter = on(new Careless(elsewhere) {
            @Override
            public Mono<Decision> take(List<Claim> claims) {
                return Mono.<Decision>never().doOnCancel(() -> cancelled.add("cancelled"));
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
                ResilientStore.builder(elsewhere).fallback(local).mostOpen(1).build();
        RateLimiter limiter = on(store);
        elsewhere.isDeaf();
        listen(limiter.tryAcquire("a"));
        time.passMillis(100);
        assertThat(store.gate().freePlaces()).isZero();
        assertThat(store.doubts().size()).isEqualTo(1);
        elsewhere.answers();
        time.pass(Duration.ofMinutes(1));
        assertThat(store.gate().freePlaces()).isEqualTo(1);
        assertThat(store.doubts().size()).isZero();
        assertThat(store.deadlines().size()).isZero();
        assertThat(store.late().size()).isZero();
    }

    /** Else more and more would be let through to a store that hangs. */
    @Test
    void whatIsAnsweredAfterItWasGivenUpFreesNoSecondPlace() {
        List<CoreSubscriber<? super Decision>> asked = new ArrayList<>();
        LimitStore careless = new Careless(elsewhere) {
            @Override
            public Mono<Decision> take(List<Claim> claims) {
                return new Mono<>() {
                    @Override
                    public void subscribe(CoreSubscriber<? super Decision> actual) {
                        actual.onSubscribe(Operators.emptySubscription());
                        asked.add(actual);
                    }
                };
            }
        };
        ResilientStore store =
                ResilientStore.builder(careless).fallback(local).mostOpen(2).build();
        RateLimiter limiter = on(store);
        listen(limiter.tryAcquire("a"));
        listen(limiter.tryAcquire("a"));
        assertThat(store.gate().freePlaces()).isZero();
        time.pass(Duration.ofSeconds(61));
        assertThat(store.gate().freePlaces()).isEqualTo(2);
        asked.get(0).onError(new LimitStoreUnavailableException("late", null));
        asked.get(1).onComplete();
        assertThat(store.gate().freePlaces()).isEqualTo(2);
    }

    // The breaker

    @Test
    void aStoreThatFailsIsNotAskedAnyMore() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        assertThat(limiter.state().isFallenBack()).isTrue();
        assertThat(limiter.state().decides()).isEqualTo(Source.LOCAL);
        assertThat(elsewhere.questions()).isEqualTo(10);
        now(limiter.tryAcquire("b"));
        assertThat(elsewhere.questions()).isEqualTo(10);
    }

    @Test
    void aStoreThatCannotBeReachedIsNotAskedTwice() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a"));
        now(limiter.tryAcquire("a"));
        assertThat(elsewhere.questions()).isEqualTo(1);
        assertThat(limiter.state().problem()).hasValue("nothing listens there");
    }

    @Test
    void aForeignValueSaysNothingAboutTheStore() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.failsWith(new ForeignValueException("not ours", null));
        for (int i = 0; i < 50; i++) {
            assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void theStoreIsTriedByAFewWhoDoNotWaitForIt() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        elsewhere.hangs();
        time.passMillis(1_400);
        int before = elsewhere.questions();
        for (int i = 0; i < 8; i++) {
            assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.LOCAL);
        }
        assertThat(elsewhere.questions() - before).isEqualTo(3);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.HALF_OPEN);
        elsewhere.goOn();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        elsewhere.answers();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void aStoreThatDoesNotAnswerThoseWhoTryItStaysGivenUp() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        elsewhere.isDeaf();
        for (int round = 0; round < 5; round++) {
            time.passMillis(1_400);
            for (int i = 0; i < 3; i++) {
                assertThat(now(limiter.peek("b")).source()).isEqualTo(Source.LOCAL);
            }
            time.passMillis(100);
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        }
    }

    @Test
    void whoTriesTheStoreDoesNotChargeTwice() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        elsewhere.answers();
        time.passMillis(1_400);
        for (int i = 0; i < 3; i++) {
            assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.LOCAL);
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(used("b")).isEqualTo(3);
        assertThat(now(limiter.tryAcquire("b")).remaining()).isEqualTo(6);
    }

    /** The breaker is not told of each success; what it is not told of must make no difference. */
    @Test
    void onlyTheLastTwentyAnswersCountHoweverManyWentWellBefore() {
        RateLimiter limiter = limiter(LIMIT);
        ask(limiter, 1_000);
        for (int i = 0; i < 5; i++) {
            elsewhere.fails();
            ask(limiter, 9);
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
            elsewhere.answers();
            ask(limiter, 20 + i);
        }
        elsewhere.fails();
        ask(limiter, 9);
        elsewhere.answers();
        ask(limiter, 10);
        elsewhere.fails();
        ask(limiter, 1);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    @Test
    void whatIsHeardLateIsForgottenWithTheNextAnswer() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a"));
        time.passMillis(100);
        elsewhere.answers();
        ask(limiter, 30);
        assertThat(limiter.state().problem()).isEmpty();
        elsewhere.failsToGoOn(new LimitStoreUnreachableException("nothing listens there", null));
        ask(limiter, 30);
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void slowAnswersCountHoweverManyWereFastBefore() {
        RateLimiter limiter = on(ResilientStore.builder(elsewhere)
                .fallback(local)
                .breaker(settings -> settings.slowCallDurationThreshold(Duration.ofMillis(20))
                        .slowCallRateThreshold(50))
                .build());
        ask(limiter, 1_000);
        elsewhere.hangs();
        for (int i = 0; i < 10; i++) {
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
            listen(limiter.peek("a"));
            time.passMillis(21);
            elsewhere.goOn();
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    private void ask(RateLimiter limiter, int times) {
        for (int i = 0; i < times; i++) {
            now(limiter.peek("key-" + i));
        }
    }

    @Test
    void whoAsksIsAnsweredAlsoIfTheBreakerThrows() {
        ResilientStore store = ResilientStore.builder(elsewhere)
                .fallback(local)
                .breaker(settings -> settings.ignoreException(e -> {
                    throw new IllegalStateException("broken");
                }))
                .build();
        RateLimiter limiter = on(store);
        int places = store.gate().freePlaces();
        elsewhere.hangs();
        List<Decision> told = new ArrayList<>();
        limiter.tryAcquire("a").subscribe(told::add);
        elsewhere.fails();
        limiter.tryAcquire("b").onErrorComplete().subscribe(told::add);
        time.passMillis(1_000);
        assertThat(told).extracting(Decision::source).containsExactlyInAnyOrder(Source.LOCAL, Source.LOCAL);
        assertThat(store.gate().freePlaces()).isGreaterThanOrEqualTo(places - 1);
    }

    static Stream<java.util.function.Function<RateLimiter, Mono<?>>> questionsThatAreAnswered() {
        return Stream.of(
                limiter -> limiter.tryAcquire("a").map(Decision::source),
                limiter -> limiter.reset("a").thenReturn(Source.OTHER));
    }

    @ParameterizedTest
    @MethodSource("questionsThatAreAnswered")
    void whoAsksIsAnsweredAlsoIfTheBreakerThrowsAtASuccess(java.util.function.Function<RateLimiter, Mono<?>> question) {
        ResilientStore store = throwsWhereItOpens(1);
        RateLimiter limiter = on(store);
        int places = store.gate().freePlaces();
        elsewhere.hangs();
        listen(question.apply(limiter));
        time.passMillis(2);
        elsewhere.goOn();
        assertThat(said).containsExactly(Source.OTHER);
        assertThat(store.gate().freePlaces()).isEqualTo(places);
    }

    /** Its breaker opens at so many answers, if one of them has taken more than a millisecond, or would if it did not throw. */
    private ResilientStore throwsWhereItOpens(int calls) {
        return ResilientStore.builder(elsewhere)
                .fallback(local)
                .breaker(settings -> settings.slowCallDurationThreshold(A_MILLI)
                        .slowCallRateThreshold(1)
                        .failureRateThreshold(100)
                        .minimumNumberOfCalls(calls)
                        .waitIntervalFunctionInOpenState(attempt -> {
                            throw new IllegalStateException("broken");
                        }))
                .build();
    }

    @Test
    void alsoWhoGivesBackFindsOutThatTheStoreIsBack() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        time.passMillis(1_400);
        elsewhere.answers();
        for (int i = 0; i < 3; i++) {
            limiter.refund("a", 1).block();
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void whatIsAnsweredAtOnceIsNotSlowHoweverLongTheProcessHasRun() {
        RateLimiter limiter = on(ResilientStore.builder(elsewhere)
                .fallback(local)
                .breaker(settings -> settings.slowCallRateThreshold(10))
                .build());
        time.pass(Duration.ofHours(1));
        for (int i = 0; i < 15; i++) {
            limiter.refund("a", 1).block();
        }
        elsewhere.fails();
        now(limiter.peek("a"));
        now(limiter.peek("a"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void theSettingsOfTheBreakerCanBeChanged() {
        RateLimiter limiter = on(ResilientStore.builder(elsewhere)
                .fallback(local)
                .breaker(settings -> settings.minimumNumberOfCalls(2).waitDurationInOpenState(Duration.ofSeconds(5)))
                .build());
        elsewhere.fails();
        now(limiter.tryAcquire("a"));
        now(limiter.tryAcquire("b"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(4));
        now(limiter.peek("c"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        assertThat(limiter.state().problem()).hasValue("told to fail");
    }

    // What to fall back on

    @Test
    void allowLetsEverythingThrough() {
        RateLimiter limiter = limiterWith(Fallback.allow());
        elsewhere.isNotThere();
        for (int i = 0; i < 30; i++) {
            Decision decision = now(limiter.tryAcquire("a"));
            assertThat(decision.isAllowed()).isTrue();
            assertThat(decision.isCharged()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.FALLBACK);
        }
        assertThat(limiter.state().decides()).isEqualTo(Source.FALLBACK);
        assertThat(limiter.state().lost()).isZero();
    }

    @Test
    void denyTurnsEverythingAwayForASecond() {
        RateLimiter limiter = limiterWith(Fallback.deny());
        elsewhere.isNotThere();
        Decision decision = now(limiter.tryAcquire("a"));
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.retryAfter()).hasValue(Duration.ofSeconds(1));
        assertThat(decision.remaining()).isZero();
        assertThat(decision.violated()).isEmpty();
    }

    @Test
    void errorSaysWhatTheStoreHasSaid() {
        RateLimiter limiter = limiterWith(Fallback.error());
        elsewhere.fails();
        assertThatExceptionOfType(LimitStoreUnavailableException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .withMessage("told to fail");
        elsewhere.isNotThere();
        assertThatExceptionOfType(LimitStoreUnavailableException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .withMessage("nothing listens there");
        assertThatExceptionOfType(LimitStoreUnavailableException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .withMessage("Elsewhere is not asked for now, because it did not answer well: nothing listens there");
    }

    @Test
    void whereThereIsNothingToFallBackOnAlsoThoseWhoTryTheStoreWaitForIt() {
        RateLimiter limiter = limiterWith(Fallback.error());
        elsewhere.isNotThere();
        listen(limiter.tryAcquire("a"));
        said.clear();
        time.passMillis(1_400);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a"));
        time.passMillis(99);
        assertThat(said).isEmpty();
        time.passMillis(1);
        assertThat(said).hasSize(1).hasOnlyElementsOfType(LimitStoreUnansweredException.class);
    }

    @Test
    void aFallbackOfTheUsersOwnDecidesButNothingOfItIsSettled() {
        RateLimiter limiter = limiterWith(new Unprotected(local));
        elsewhere.isNotThere();
        assertThat(now(limiter.tryAcquire("a", 4)).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().lost()).isEqualTo(4);
    }

    @Test
    void aFallbackOfTheUsersOwnThatThrowsHasFailed() {
        RateLimiter limiter = limiterWith(new Unprotected(local) {
            @Override
            public Mono<Decision> take(List<Claim> claims) {
                throw new IllegalStateException("thrown by the fallback");
            }
        });
        elsewhere.isNotThere();
        listen(limiter.tryAcquire("a"));
        assertThat(said).singleElement().isInstanceOf(IllegalStateException.class);
    }

    @Test
    void whatAFallbackOfTheUsersOwnHasGrantedIsGivenBackToIt() {
        RateLimiter limiter = limiterWith(new Unprotected(local));
        elsewhere.isNotThere();
        Decision granted = now(limiter.tryAcquire("a", 4));
        limiter.refund(granted).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void whatTheStoreHasChargedIsGivenBackThereAlsoWhereTheFallbackCountsNothing() {
        RateLimiter limiter = limiterWith(Fallback.deny());
        Decision taken = now(limiter.tryAcquire("a", 4));
        now(limiter.tryAcquire("a", 3));
        limiter.refund(taken).block();
        assertThat(used("a")).isEqualTo(3);
        limiter.reset("a").block();
        assertThat(used("a")).isZero();
    }

    @Test
    void acquireWaitsForADenialToPassAlsoWhereEverythingIsDenied() {
        RateLimiter limiter = limiterWith(Fallback.deny());
        elsewhere.isNotThere();
        listen(limiter.acquire("a", Duration.ofSeconds(10)));
        time.passMillis(1_500);
        elsewhere.answers();
        assertThat(said).isEmpty();
        time.pass(Duration.ofSeconds(8));
        assertThat(sources()).containsExactly(Source.OTHER);
    }

    // A fallback that remembers

    @Test
    void theFallbackStartsFromWhatTheStoreHasSaid() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a", 7));
        elsewhere.isNotThere();
        assertThat(now(limiter.tryAcquire("a", 4)).isAllowed()).isFalse();
        Decision decision = now(limiter.tryAcquire("a", 2));
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.remaining()).isEqualTo(1);
        assertThat(decision.limits().get(0).used()).isEqualTo(9);
        assertThat(now(limiter.tryAcquire("b")).remaining()).isEqualTo(9);
    }

    @Test
    void whoWasAtHisLimitIsStillAtItUntilTheStoreWouldHaveLetHimIn() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a", 10));
        time.passMillis(20_000);
        elsewhere.isNotThere();
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.retryAfter()).hasValue(Duration.ofMillis(40_001));
        time.passMillis(40_000);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        time.passMillis(1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
    }

    @Test
    void eachInstanceGrantsItsShareAndTakesItsShareOfWhatWasUsed() {
        Limit limit = Limit.of(100, Duration.ofMinutes(1));
        local.share(0.25);
        RateLimiter limiter = limiter(limit);
        now(limiter.tryAcquire("a", 30));
        elsewhere.isNotThere();
        // floor(100 × 0.25) − ceil(30 × 0.25)
        Decision decision = now(limiter.peek("a"));
        assertThat(decision.remaining()).isEqualTo(17);
        assertThat(decision.limits().get(0).limit()).isEqualTo(limit);
        assertThat(now(limiter.tryAcquire("a", 18)).isAllowed()).isFalse();
        assertThat(now(limiter.tryAcquire("a", 17)).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    @Test
    void theShareMayBeSetWhileTheFallbackDecides() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        assertThat(now(limiter.tryAcquire("a", 4)).remaining()).isEqualTo(6);
        local.share(0.5);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
        local.share(0.01);
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        // Of every limit one permit is left.
        assertThat(now(limiter.tryAcquire("b")).isAllowed()).isTrue();
        assertThat(now(limiter.tryAcquire("b")).isAllowed()).isFalse();
        local.share(1);
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(6);
    }

    @Test
    void aCostThatIsMoreThanTheShareIsDeniedUntilTheStoreMayBeBack() {
        local.share(0.5);
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        Decision denied = now(limiter.tryAcquire("a", 6));
        assertThat(denied.isAllowed()).isFalse();
        assertThat(denied.retryAfter()).hasValue(Duration.ofSeconds(1));
    }

    @Test
    void aRefundIsRememberedToo() {
        RateLimiter limiter = limiter(LIMIT);
        Decision first = now(limiter.tryAcquire("a", 4));
        now(limiter.tryAcquire("a", 6));
        elsewhere.isNotThere();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        limiter.refund(first).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(4);
        limiter.refund("a", 3).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(7);
        limiter.reset("a").block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    @Test
    void whatTheStoreHasGotBackIsRememberedToo() {
        RateLimiter limiter = limiter(LIMIT);
        Decision first = now(limiter.tryAcquire("a", 4));
        now(limiter.tryAcquire("a", 6));
        limiter.refund(first).block();
        elsewhere.isNotThere();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(4);
    }

    /** What the store says after it was given something back has that in it. */
    @Test
    void whatIsGivenBackIsForgottenOnceAlsoIfTheStoreHasAnsweredOthersMeanwhile() {
        RateLimiter limiter = limiter(LIMIT);
        Decision first = now(limiter.tryAcquire("a", 4));
        elsewhere.hangs();
        listen(limiter.refund(first).thenReturn("given back"));
        elsewhere.answers();
        assertThat(now(limiter.tryAcquire("a", 6)).limits().get(0).used()).isEqualTo(6);
        elsewhere.goOn();
        assertThat(said).containsExactly("given back");
        elsewhere.isNotThere();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(4);
    }

    /** Whether the store has done it is not known; what it says of the count afterwards may have it in it. */
    @Test
    void whatIsGivenBackToAKeyIsForgottenOnceAlsoIfTheAnswerIsLost() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a", 8));
        elsewhere.hangs();
        listen(limiter.refund("a", 2).thenReturn("given back"));
        elsewhere.answers();
        time.passMillis(1);
        assertThat(now(limiter.tryAcquire("a", 1)).limits().get(0).used()).isEqualTo(7);
        time.passMillis(99);
        assertThat(said).containsExactly("given back");
        elsewhere.isNotThere();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
    }

    @Test
    void whatIsGivenBackAfterItWasSettledIsForgottenOnceAlsoIfTheAnswerIsLost() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        Decision granted = now(limiter.tryAcquire("a", 8));
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(8);
        elsewhere.hangs();
        listen(limiter.refund(granted).thenReturn("given back"));
        elsewhere.answers();
        time.passMillis(1);
        now(limiter.tryAcquire("a", 9));
        assertThat(used("a")).isEqualTo(9);
        time.passMillis(99);
        assertThat(said).containsExactly("given back");
        elsewhere.isNotThere();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
    }

    @Test
    void whatIsGivenBackAfterAResetIsNotAmongWhatIsKnownSince() {
        RateLimiter limiter = limiter(LIMIT);
        Decision forgotten = now(limiter.tryAcquire("a", 3));
        limiter.reset("a").block();
        time.passMillis(10);
        now(limiter.tryAcquire("a", 10));
        limiter.refund(forgotten).block();
        assertThat(used("a")).isEqualTo(10);
        elsewhere.isNotThere();
        assertThat(now(limiter.peek("a")).remaining()).isZero();
    }

    /** What has been told since must not be forgotten with it. */
    @Test
    void aResetOfWhichTheAnswerIsLostForgetsNothingThatHasComeAfterIt() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a", 10));
        elsewhere.hangs();
        listen(limiter.reset("a").thenReturn("reset"));
        elsewhere.answers();
        time.passMillis(1);
        assertThat(now(limiter.tryAcquire("a", 4)).isAllowed()).isTrue();
        elsewhere.fails();
        assertThat(now(limiter.tryAcquire("a", 6)).isAllowed()).isTrue();
        time.passMillis(99);
        assertThat(said).containsExactly("reset");
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        assertThat(limiter.state().toSettle()).isEqualTo(6);
    }

    // Settling

    @Test
    void whatWasGrantedInPlaceOfTheStoreIsChargedThereWhenItIsBack() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a", 2));
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a", 3));
        now(limiter.tryAcquire("b", 5));
        assertThat(limiter.state().toSettle()).isEqualTo(8);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(5));
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(limiter.state().settled()).isEqualTo(8);
        assertThat(limiter.state().lost()).isZero();
        assertThat(limiter.state().unknown()).isZero();
        assertThat(used("a")).isEqualTo(5);
        assertThat(used("b")).isEqualTo(5);
    }

    @Test
    void theStoreIsFoundToBeBackAlsoWhereNobodyAsks() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a"));
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void nothingIsDoneWhereNothingIsToBeSettled() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a"));
        int before = elsewhere.questions();
        time.pass(Duration.ofMinutes(10));
        assertThat(elsewhere.questions()).isEqualTo(before);
    }

    @Test
    void aBatchIsSmallAndTheNextIsSentWhenItIsAnswered() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        for (int i = 0; i < 100; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        elsewhere.hangs();
        while (elsewhere.batches().isEmpty()) {
            time.passMillis(100);
        }
        time.passMillis(500);
        assertThat(elsewhere.batches()).hasSize(1);
        assertThat(elsewhere.batches().get(0)).hasSize(Settler.BATCH);
        elsewhere.goOn();
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(elsewhere.batches().stream().mapToInt(List::size)).containsExactly(64, 36);
        assertThat(limiter.state().settled()).isEqualTo(100);
    }

    @Test
    void aSettlementWhoseAnswerIsLostIsSentAgainUnderItsIdAndChargedOnce() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a", 4));
        elsewhere.losesAnswersWith(new LimitStoreUnansweredException("the connection broke", null));
        time.passMillis(2_500);
        assertThat(elsewhere.batches()).isNotEmpty();
        assertThat(limiter.state().toSettle()).isEqualTo(4);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(5));
        assertThat(elsewhere.batches().stream().flatMap(List::stream).map(Settlement::id))
                .hasSizeGreaterThan(1)
                .containsOnly(elsewhere.batches().get(0).get(0).id());
        assertThat(used("a")).isEqualTo(4);
        assertThat(limiter.state().settled()).isEqualTo(4);
    }

    @Test
    void whatIsOnItsWayToBeSettledStillCountsHere() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a", 10));
        elsewhere.isDeaf();
        time.passMillis(2_500);
        assertThat(elsewhere.batches()).isEmpty();
        assertThat(elsewhere.questions()).isGreaterThan(1);
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    @Test
    void whatHasLeftItsWindowIsNotSettled() {
        RateLimiter limiter = limiter(Limit.of(10, Duration.ofSeconds(10)));
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a", 4));
        time.pass(Duration.ofSeconds(11));
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(limiter.state().settled()).isZero();
        assertThat(elsewhere.batches()).isEmpty();
    }

    @Test
    void whatWasGivenBackIsNotSettled() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        Decision first = now(limiter.tryAcquire("a", 4));
        now(limiter.tryAcquire("a", 3));
        limiter.refund(first).block();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(3);
    }

    @Test
    void whatIsGivenBackAfterItWasSettledIsGivenBackInTheStore() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        Decision first = now(limiter.tryAcquire("a", 4));
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(4);
        now(limiter.tryAcquire("a", 2));
        limiter.refund(first).block();
        assertThat(used("a")).isEqualTo(2);
        limiter.refund(first).block();
        assertThat(used("a")).isEqualTo(2);
    }

    @Test
    void aStoreThatCannotSettleHasLostIt() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a", 4));
        elsewhere.cannotSettle();
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(limiter.state().settled()).isZero();
        assertThat(limiter.state().lost()).isEqualTo(4);
    }

    @Test
    void theStoreGrantsNothingBeforeItKnowsWhatWasGrantedInItsPlace() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        now(limiter.tryAcquire("a", 10));
        for (int i = 0; i < 200; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        elsewhere.answers();
        long granted = 10;
        boolean decidedElsewhere = false;
        for (int i = 0; i < 3_000; i++) {
            time.passMillis(1);
            Decision decision = now(limiter.tryAcquire("a"));
            granted += decision.isAllowed() ? 1 : 0;
            decidedElsewhere |= decision.source() == Source.OTHER;
        }
        assertThat(decidedElsewhere).isTrue();
        assertThat(granted).isEqualTo(10);
    }

    @Test
    void whatSomebodyAsksForIsSettledFirst() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        for (int i = 0; i < 300; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        elsewhere.answers();
        while (limiter.state().breaker() != Breaker.CLOSED) {
            time.passMillis(100);
            now(limiter.peek("other"));
        }
        for (int i = 0; i < 300 && now(limiter.tryAcquire("key-77")).source() != Source.OTHER; i++) {
            assertThat(i).as("milliseconds until the store decides").isLessThan(30);
            time.passMillis(1);
        }
        assertThat(used("key-77")).isGreaterThanOrEqualTo(2);
    }

    @Test
    void aBatchThatTheStoreRefusesIsLostAndTheOthersAreNot() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        for (int i = 0; i < 80; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        elsewhere.refusesToSettle(1);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(6));
        assertThat(limiter.state().lost()).isEqualTo(64);
        assertThat(limiter.state().settled()).isEqualTo(16);
        assertThat(limiter.state().toSettle()).isZero();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 50})
    void aStoreThatHasNotGotTheSettlementDoesNotDecide(int failsAfter) {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 10));
        elsewhere.answers();
        Mono<Decision> lost = Mono.error(new LimitStoreUnansweredException("the connection broke", null));
        elsewhere.settles(charged -> lost.delaySubscription(Duration.ofMillis(failsAfter)));
        while (elsewhere.batches().isEmpty()) {
            time.passMillis(10);
        }
        time.passMillis(failsAfter + 10);
        elsewhere.settles(charged -> charged);
        for (int i = 0; i < 40; i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
            time.passMillis(25);
        }
        assertThat(limiter.state().settled()).isEqualTo(10);
        assertThat(now(limiter.tryAcquire("a")).source()).isIn(Source.OTHER, Source.SHORTCUT);
    }

    @Test
    void eachOutageIsSettledAlsoWhereNobodyAsks() {
        RateLimiter limiter = limiter(LIMIT);
        for (int outage = 1; outage <= 3; outage++) {
            elsewhere.fails();
            now(limiter.tryAcquire("a"));
            elsewhere.answers();
            time.pass(Duration.ofSeconds(5));
            assertThat(limiter.state().settled()).isEqualTo(outage);
        }
    }

    @Test
    void whoAsksHurriesEverySettlement() {
        RateLimiter limiter = limiter(LIMIT);
        for (int times = 1; times <= 3; times++) {
            elsewhere.fails();
            now(limiter.tryAcquire("a"));
            elsewhere.answers();
            time.passMillis(25);
            now(limiter.peek("a"));
            time.passMillis(1);
            assertThat(limiter.state().settled()).isEqualTo(times);
            time.pass(Duration.ofSeconds(2));
        }
    }

    @Test
    void nothingIsHandedOverBeforeTheStoreIsReadyForIt() {
        List<String> prepared = new ArrayList<>();
        LimitStore slowly = new Careless(elsewhere) {
            @Override
            public Mono<Void> prepare(String part) {
                return Mono.defer(() -> {
                    prepared.add(part);
                    return prepared.size() > 1
                            ? Mono.empty()
                            : Mono.error(new LimitStoreUnavailableException("not yet", null));
                });
            }
        };
        // A breaker that opens tries again at a time of its own.
        ResilientStore store = ResilientStore.builder(slowly)
                .fallback(local)
                .breaker(settings -> settings.slidingWindowSize(1_000).minimumNumberOfCalls(1_000))
                .build();
        RateLimiter limiter = on(store);
        elsewhere.fails();
        for (int i = 0; i < 2 * Settler.BATCH; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        elsewhere.answers();
        prepared.clear();
        time.passMillis(1_500);
        assertThat(prepared).hasSize(1);
        assertThat(elsewhere.batches()).isEmpty();
        time.passMillis(1_000);
        assertThat(prepared).hasSize(2);
        assertThat(elsewhere.batches()).hasSize(2);
        assertThat(limiter.state().toSettle()).isZero();
    }

    @Test
    void whatHasLeftItsWindowIsNotSentAgain() {
        RateLimiter limiter = limiter(Limit.of(10, Duration.ofSeconds(5)));
        elsewhere.fails();
        now(limiter.tryAcquire("a"));
        elsewhere.answers();
        elsewhere.settles(charged -> Mono.error(new LimitStoreUnavailableException("told to fail", null)));
        time.passMillis(1_500);
        assertThat(elsewhere.batches()).hasSize(1);
        elsewhere.fails();
        time.passMillis(3_000);
        now(limiter.tryAcquire("b"));
        time.passMillis(1_000);
        elsewhere.answers();
        elsewhere.settles(charged -> charged);
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().settled()).isEqualTo(1);
        assertThat(elsewhere.batches()).hasSize(2);
        assertThat(elsewhere.batches().get(1))
                .singleElement()
                .satisfies(one -> assertThat(one.claim().key()).isEqualTo("b"));
    }

    @Test
    void aSettlementThatFailsLeavesItsPlaceAndKeepsOthersFromNothing() {
        ResilientStore store =
                ResilientStore.builder(elsewhere).fallback(local).mostOpen(2).build();
        RateLimiter limiter = on(store);
        elsewhere.fails();
        now(limiter.tryAcquire("a"));
        elsewhere.answers();
        elsewhere.settles(charged -> charged.then(Mono.error(new LimitStoreUnansweredException("lost", null))));
        sendTheSettlement(limiter);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
        assertThat(store.gate().freePlaces()).isEqualTo(2);
    }

    @Test
    void whatIsOwedIsSettledAlsoIfTheBreakerThrows() {
        ResilientStore store = throwsWhereItOpens(2);
        RateLimiter limiter = on(store);
        int places = store.gate().freePlaces();
        elsewhere.fails();
        now(limiter.tryAcquire("a"));
        elsewhere.answers();
        elsewhere.settles(charged -> charged.delayElement(Duration.ofMillis(2)));
        time.pass(Duration.ofSeconds(2));
        assertThat(limiter.state().settled()).isEqualTo(1);
        assertThat(store.gate().freePlaces()).isEqualTo(places);
    }

    @Test
    void aStoreThatHasGotOnlyTheFirstPartDoesNotDecide() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 4));
        elsewhere.answers();
        elsewhere.settles(charged -> charged.delayElement(Duration.ofMillis(200)));
        while (elsewhere.batches().isEmpty()) {
            time.passMillis(10);
        }
        // The first part is on its way, and the store may decide; until it fails, and the fallback decides once more.
        elsewhere.fails();
        now(limiter.tryAcquire("a", 6));
        elsewhere.answers();
        for (int i = 0; i < 60; i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
            time.passMillis(25);
        }
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void whoHasNothingToSendHasNotFoundTheStoreWell() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isDeaf();
        listen(limiter.tryAcquire("hot"));
        time.passMillis(100);
        for (int i = 0; i < 200; i++) {
            listen(limiter.tryAcquire("hot"));
            listen(limiter.tryAcquire("key-" + i));
            time.passMillis(20);
        }
        assertThat(limiter.state().isFallenBack()).isTrue();
        for (int second = 0; second < 30; second++) {
            time.passMillis(1_000);
            assertThat(limiter.state().isFallenBack()).isTrue();
        }
        assertThat(limiter.state().problem()).isPresent();
    }

    @Test
    void aPeekTellsWhatATakeWouldAnswer() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 10));
        elsewhere.answers();
        assertThat(now(limiter.peek("a")).isAllowed()).isFalse();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
    }

    @Test
    void aRefundOfWhatAResetHasForgottenGivesNothingBack() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        Decision forgotten = now(limiter.tryAcquire("a", 5));
        limiter.reset("a").block();
        time.passMillis(10);
        now(limiter.tryAcquire("a", 10));
        elsewhere.answers();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(10);
        limiter.refund(forgotten).block();
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void aStoreThatIsBackIsFoundOutAlsoWhereAllPlacesAreTakenForGood() {
        RateLimiter limiter = on(
                ResilientStore.builder(elsewhere).fallback(local).mostOpen(20).build());
        elsewhere.isDeaf();
        for (int i = 0; i < 30; i++) {
            listen(limiter.tryAcquire("key-" + i));
        }
        time.passMillis(100);
        elsewhere.answers();
        for (int i = 0; i < 50; i++) {
            time.passMillis(100);
            now(limiter.peek("other"));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void whoThrowsWhenHeIsAnsweredHarmsNobody() {
        ResilientStore store = ResilientStore.builder(elsewhere).fallback(local).build();
        RateLimiter limiter = on(store);
        now(limiter.tryAcquire("a", 9));
        elsewhere.isDeaf();
        Hooks.onErrorDropped(error -> said.add(error.getMessage()));
        try {
            limiter.tryAcquire("a").subscribe(new Throwing());
            time.passMillis(100);
        } finally {
            Hooks.resetOnErrorDropped();
        }
        assertThat(said).containsExactly("thrown by a subscriber");
        assertThat(limiter.state().toSettle()).isEqualTo(1);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(90));
        assertThat(store.doubts().size()).isZero();
        assertThat(store.gate().freePlaces()).isEqualTo(10_000);
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

    // Answers that come too late

    @Test
    void aLateAnswerThatAllowsCancelsTheSettlement() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        assertThat(sources()).containsExactly(Source.LOCAL);
        assertThat(limiter.state().toSettle()).isEqualTo(3);
        time.pass(Duration.ofSeconds(20));
        assertThat(elsewhere.batches()).as("what is in doubt is not settled").isEmpty();
        elsewhere.goOn();
        elsewhere.answers();
        assertThat(limiter.state().toSettle()).isZero();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(3);
        assertThat(limiter.state().unknown()).isZero();
        assertThat(limiter.state().settled()).isZero();
    }

    /** Two who decide apart let in no more than one: what the store admits in time has to fit together with what the fallback has. */
    @Test
    void whatIsUnderWayWhenTheFallbackBeginsIsHeldAgainstWhatThatHasGranted() {
        RateLimiter limiter = limiter(LIMIT);
        beginToFallBackWithTenUnderWay(limiter);
        // The first five are not answered in time, and the fallback, which has heard of nothing, goes on to its limit.
        take(limiter, 10);
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(10);
        elsewhere.goOn();
        assertThat(decisions()).hasSize(20);
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(10);
        assertThat(sources()).containsOnly(Source.LOCAL);
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(limiter.state().settled()).isEqualTo(5);
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void whatIsUnderWayWhenTheFallbackBeginsIsLetInAsFarAsThereIsRoom() {
        RateLimiter limiter = limiter(LIMIT);
        beginToFallBackWithTenUnderWay(limiter);
        take(limiter, 2);
        elsewhere.goOn();
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(10);
        assertThat(sources()).filteredOn(source -> source == Source.OTHER).hasSize(3);
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void aVerdictOverSeveralCountsIsLetInUnderAllOfThemOrUnderNone() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire(Charge.of("a").permits(2), Charge.of("b").permits(2)));
        elsewhere.fails();
        assertThat(now(limiter.tryAcquire("b", 9)).isAllowed()).isTrue();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(decisions()).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
        });
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isZero();
        assertThat(used("b")).isEqualTo(9);
        assertThat(now(limiter.tryAcquire("a", 10)).isAllowed()).isTrue();
    }

    @Test
    void eachInstanceHoldsAgainstTheStoreWhatItHasGrantedOfItsShare() {
        local.share(0.5);
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        take(limiter, 7);
        elsewhere.fails();
        assertThat(now(limiter.tryAcquire("a", 5)).isAllowed()).isTrue();
        elsewhere.goOn();
        assertThat(sources()).filteredOn(source -> source == Source.OTHER).hasSize(5);
        assertThat(decisions()).filteredOn(Decision::isAllowed).hasSize(5);
    }

    /** The store knows of what the fallback has granted, and not yet of him: that becomes known with the answer to the settlement. */
    @Test
    void whoIsAnsweredWhileASettlementIsOnItsWayWaitsUntilItsFateIsKnown() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 6));
        elsewhere.answers();
        elsewhere.settles(charged -> charged.delayElement(Duration.ofMillis(30)));
        sendTheSettlement(limiter);
        listen(limiter.tryAcquire("a", 4));
        assertThat(said).isEmpty();
        time.passMillis(25);
        assertThat(said).isEmpty();
        time.passMillis(6);
        assertThat(decisions()).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isTrue();
            assertThat(decision.source()).isEqualTo(Source.OTHER);
        });
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void whoIsAnsweredWhileASettlementIsOnItsWayWaitsNoLongerThanToTheDeadline() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 6));
        elsewhere.answers();
        elsewhere.settles(charged -> charged.delayElement(Duration.ofMillis(500)));
        sendTheSettlement(limiter);
        listen(limiter.tryAcquire("a", 4));
        time.passMillis(99);
        assertThat(said).isEmpty();
        time.passMillis(1);
        assertThat(decisions()).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
        });
        assertThat(limiter.state().isFallenBack()).isFalse();
        time.pass(Duration.ofSeconds(2));
        assertThat(used("a")).isEqualTo(6);
    }

    @Test
    void nobodyWaitsForTheFateOfASettlementThatIsNotOnItsWay() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 5));
        elsewhere.fails();
        now(limiter.tryAcquire("a", 6));
        elsewhere.answers();
        elsewhere.settles(charged -> charged.then(Mono.error(new LimitStoreUnansweredException("lost", null))));
        sendTheSettlement(limiter);
        elsewhere.goOn();
        assertThat(decisions()).singleElement().satisfies(decision -> {
            assertThat(decision.isAllowed()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
        });
    }

    @Test
    void aSettlementThatComesBetweenTheStoresAnswerAndItsAskerIsNotOverlooked() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 5));
        elsewhere.fails();
        now(limiter.tryAcquire("a", 6));
        elsewhere.answers();
        sendTheSettlement(limiter);
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(used("a")).isEqualTo(11);
        elsewhere.goOn();
        assertThat(decisions()).singleElement().matches(decision -> !decision.isAllowed());
        assertThat(used("a")).isEqualTo(6);
    }

    /** Whoever asks has it sent at once, and is answered by the fallback. */
    private void sendTheSettlement(RateLimiter limiter) {
        time.passMillis(25);
        assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.LOCAL);
        time.passMillis(1);
        assertThat(elsewhere.batches()).hasSize(1);
    }

    /** Five who fall back, and five who are still waiting for the store. */
    private void beginToFallBackWithTenUnderWay(RateLimiter limiter) {
        elsewhere.hangs();
        take(limiter, 5);
        time.passMillis(60);
        take(limiter, 5);
        time.passMillis(40);
        elsewhere.answers();
    }

    private void take(RateLimiter limiter, int times) {
        for (int i = 0; i < times; i++) {
            listen(limiter.tryAcquire("a"));
        }
    }

    @Test
    void aLateAnswerThatDeniesLeavesItToBeSettled() {
        RateLimiter limiter = limiter(LIMIT);
        now(elsewhere.asItIs("api").limit(LIMIT).build().tryAcquire("a", 9));
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        elsewhere.goOn();
        elsewhere.answers();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
        now(limiter.peek("b"));
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().settled()).isEqualTo(3);
    }

    /** What the store has charged, it has been told to forget since; nobody else knows of what the fallback has granted. */
    @Test
    void aLateAnswerOfBeforeAResetCancelsNoSettlement() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        limiter.tryAcquire("b", 3).subscribe();
        limiter.reset("a").subscribe();
        time.passMillis(100);
        assertThat(decisions().get(0).isAllowed()).isTrue();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
        now(limiter.peek("c"));
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().settled()).isEqualTo(3);
        assertThat(used("a")).isEqualTo(3);
        assertThat(used("b")).isEqualTo(3);
    }

    /** The store may have been asked after the reset was, and have heard of it before that. */
    @Test
    void aResetIsOfTheMomentAtWhichItEnds() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        limiter.reset("a").subscribe();
        time.passMillis(50);
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        assertThat(decisions().get(0).isAllowed()).isTrue();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
    }

    /** The store charges first and forgets then, and so come its answers. */
    @Test
    void aResetIsOfTheMomentAtWhichItBegins() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(60);
        limiter.reset("a").subscribe();
        time.passMillis(60);
        assertThat(decisions().get(0).isAllowed()).isTrue();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
    }

    @Test
    void aResetThatNobodyWaitsForAnyMoreIsOfTheMomentAtWhichHeLeft() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.hangs();
        Disposable leaves = limiter.reset("a").subscribe();
        time.passMillis(50);
        listen(limiter.tryAcquire("a", 3));
        leaves.dispose();
        time.passMillis(100);
        assertThat(decisions().get(0).isAllowed()).isTrue();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
    }

    @Test
    void aLateAnswerOfAfterAResetCancelsTheSettlement() {
        RateLimiter limiter = limiter(LIMIT);
        limiter.reset("a").block();
        time.passMillis(1);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        assertThat(decisions().get(0).isAllowed()).isTrue();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(limiter.state().toSettle()).isZero();
        assertThat(used("a")).isEqualTo(3);
    }

    @Test
    void whatTheStoreAllowsLateAndTheFallbackHasDeniedIsGivenBack() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a", 10));
        elsewhere.asItIs("api").limit(LIMIT).build().reset("a").block();
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        assertThat(decisions().get(0).isAllowed()).isFalse();
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(used("a")).isZero();
    }

    static Stream<LimitStore> fallbacksThatDecideNothing() {
        return Stream.of(
                Fallback.error(), deciding(Mono.empty()), deciding(Mono.error(new LimitStoreException("no", null))));
    }

    private static LimitStore deciding(Mono<Decision> what) {
        return new Unprotected(LocalStore.bounded(16)) {
            @Override
            public Mono<Decision> take(List<Claim> claims) {
                return what;
            }
        };
    }

    @ParameterizedTest
    @MethodSource("fallbacksThatDecideNothing")
    void whatTheStoreAllowsLateAndTheFallbackHasNotDecidedIsGivenBack(LimitStore fallback) {
        ResilientStore store =
                ResilientStore.builder(elsewhere).fallback(fallback).build();
        RateLimiter limiter = on(store);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3).switchIfEmpty(Mono.error(new LimitStoreException("nothing", null))));
        time.passMillis(100);
        assertThat(said).hasSize(1).hasOnlyElementsOfType(LimitStoreException.class);
        elsewhere.answers();
        elsewhere.goOn();
        assertThat(used("a")).isZero();
        assertThat(store.doubts().size()).isZero();
    }

    @Test
    void whatFailsLateIsSettled() {
        ResilientStore store = ResilientStore.builder(elsewhere).fallback(local).build();
        RateLimiter limiter = on(store);
        elsewhere.hangs();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        elsewhere.answers();
        elsewhere.failsToGoOn(new LimitStoreUnavailableException("late", null));
        assertThat(store.doubts().size()).isZero();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().settled()).isEqualTo(3);
        assertThat(limiter.state().unknown()).isZero();
    }

    @Test
    void whatIsNeverAnsweredIsSettledAndToldAsUnknown() {
        RateLimiter limiter = limiter(Limit.of(10, Duration.ofMinutes(5)));
        elsewhere.isDeaf();
        listen(limiter.tryAcquire("a", 3));
        time.passMillis(100);
        elsewhere.answers();
        time.pass(Duration.ofSeconds(50));
        assertThat(limiter.state().unknown()).isZero();
        assertThat(limiter.state().toSettle()).isEqualTo(3);
        time.pass(Duration.ofSeconds(15));
        assertThat(limiter.state().unknown()).isEqualTo(3);
        assertThat(limiter.state().settled()).isEqualTo(3);
    }

    @Test
    void whatTheStoreIsNotAbleToDecideLateIsNotUnknown() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        time.passMillis(1_400);
        elsewhere.fails();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().toSettle()).isEqualTo(1);
        assertThat(limiter.state().unknown()).isZero();
    }

    @Test
    void aStoreThatAnswersNothingHasFailed() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.saysNothing();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().problem().orElseThrow()).contains("has answered nothing");
    }

    @Test
    void anAnswerThatIsLostIsUnknownAtOnce() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.losesAnswersWith(new LimitStoreUnansweredException("the connection broke", null));
        now(limiter.tryAcquire("a", 3));
        assertThat(limiter.state().unknown()).isEqualTo(3);
        elsewhere.answers();
        now(limiter.peek("a"));
        time.pass(Duration.ofSeconds(3));
        // At least what was granted; this is the one case in which it may be more.
        assertThat(used("a")).isEqualTo(6);
    }

    // Ends

    @Test
    void whatIsLeftHasALastChanceWhenTheLimiterCloses() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 4));
        elsewhere.answers();
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(100);
        assertThat(said).containsExactly("closed");
        assertThat(used("a")).isEqualTo(4);
    }

    @Test
    void theLastChanceIsShort() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.fails();
        now(limiter.tryAcquire("a", 4));
        elsewhere.isDeaf();
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(999);
        assertThat(said).isEmpty();
        time.passMillis(1);
        assertThat(said).containsExactly("closed");
        int before = elsewhere.questions();
        time.pass(Duration.ofMinutes(5));
        assertThat(elsewhere.questions()).as("questions after the end").isEqualTo(before);
    }

    @Test
    void whatHasEndedDoesNotGoOn() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.isNotThere();
        for (int i = 0; i < 900; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        elsewhere.answers();
        elsewhere.settles(charged -> charged.delayElement(Duration.ofMillis(100)));
        time.passMillis(2_500);
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(1_000);
        assertThat(said).containsExactly("closed");
        int batches = elsewhere.batches().size();
        time.pass(Duration.ofSeconds(10));
        assertThat(elsewhere.batches()).hasSize(batches);
    }

    @Test
    void anErrorWithoutAMessageIsNamed() {
        RateLimiter limiter = limiter(LIMIT);
        elsewhere.failsWith(new IllegalStateException());
        now(limiter.tryAcquire("a"));
        assertThat(limiter.state().problem()).hasValue("java.lang.IllegalStateException");
    }

    @Test
    void closingTwiceIsClosingOnce() {
        RateLimiter limiter = limiter(LIMIT);
        limiter.close();
        listen(limiter.closeLater().thenReturn("closed"));
        time.pass(Duration.ofSeconds(1));
        assertThat(said).containsExactly("closed");
    }

    // What is wrong is said

    @Test
    void aStoreThatAnswersInTimeNeedsNothingAroundIt() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ResilientStore.of(local))
                .withMessageContaining("answers in time by itself")
                .withMessageContaining("RedisStore.create(redisClient)");
        RateLimiter limiter = on(local);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.NONE);
    }

    @Test
    void aFallbackInTwoPlacesIsRefused() {
        RateLimiter.Builder builder = RateLimiter.builder("api")
                .store(ResilientStore.of(elsewhere))
                .fallback(local)
                .limit(LIMIT);
        assertThatIllegalStateException()
                .isThrownBy(builder::build)
                .withMessageContaining("limiter api has a fallback, a deadline or a shortcut")
                .withMessageContaining("ResilientStore.builder(redisStore)");
    }

    @Test
    void aLocalStoreStandsInForOneStoreOnly() {
        ResilientStore.builder(elsewhere).fallback(local).build();
        for (LimitStore store : List.of(elsewhere, new Elsewhere(time))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(
                            () -> ResilientStore.builder(store).fallback(local).build())
                    .withMessageContaining("stands in for Elsewhere already")
                    .withMessageContaining("one ResilientStore that several limiters share");
        }
    }

    @Test
    void numbersOutOfRangeAreRefused() {
        ResilientStore.Builder builder = ResilientStore.builder(elsewhere);
        for (Duration wrong : List.of(Duration.ZERO, Duration.ofMillis(-1), Duration.ofMinutes(2))) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> builder.deadline(wrong))
                    .withMessageContaining(wrong.toString())
                    .withMessageContaining("Duration.ofMillis(100)");
        }
        for (int wrong : List.of(0, -1, 1_000_001)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> builder.mostOpen(wrong))
                    .withMessageContaining(Integer.toString(wrong));
        }
        for (double wrong : List.of(0.0, -0.1, 1.1, Double.NaN)) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> local.share(wrong))
                    .withMessageContaining(Double.toString(wrong))
                    .withMessageContaining("0.25");
        }
    }

    @Test
    void theLargestAndTheSmallestNumbersAreTaken() {
        Duration minute = Duration.ofMinutes(1);
        ResilientStore store = ResilientStore.builder(elsewhere)
                .shortcut(Duration.ZERO)
                .shortcut(minute)
                .mostOpen(1_000_000)
                .mostOpen(1)
                .deadline(Duration.ofNanos(1))
                .deadline(minute)
                .build();
        assertThat(store.deadline()).hasValue(minute);
        assertThat(store.gate().freePlaces()).isEqualTo(1);
    }

    @Test
    void theContextOfWhoeverAsksReachesBothStores() {
        List<Optional<String>> seen = new ArrayList<>();
        LimitStore watching = new Unprotected(local) {
            @Override
            public Mono<Decision> take(List<io.github.spillgate.Claim> claims) {
                return Mono.deferContextual(context -> {
                    seen.add(context.getOrEmpty("who"));
                    return super.take(claims);
                });
            }
        };
        RateLimiter limiter = limiterWith(watching);
        elsewhere.fails();
        now(limiter.tryAcquire("a").contextWrite(context -> context.put("who", "me")));
        assertThat(seen).containsExactly(Optional.of("me"));
    }

    @Test
    void severalLimitsAreOneVerdictAlsoInTheFallback() {
        RateLimiter limiter = limiter(LIMIT, Limit.of(3, Duration.ofHours(1)));
        now(limiter.tryAcquire("a"));
        elsewhere.isNotThere();
        assertThat(now(limiter.tryAcquire("a", 2)).isAllowed()).isTrue();
        Decision denied = now(limiter.tryAcquire("a"));
        assertThat(denied.violated()).containsExactly(Limit.of(3, Duration.ofHours(1)));
        assertThat(denied.limits().get(0).used()).isEqualTo(3);
        assertThat(limiter.state().toSettle()).isEqualTo(4);
        assertThat(now(limiter.peek(Charge.of("a"))).isAllowed()).isFalse();
    }

    private RateLimiter limiter(Limit... limits) {
        RateLimiter.Builder builder =
                RateLimiter.builder("api").store(elsewhere).fallback(local);
        Stream.of(limits).forEach(builder::limit);
        return builder.build();
    }

    private static RateLimiter on(LimitStore store) {
        return RateLimiter.builder("api").store(store).limit(LIMIT).build();
    }

    private RateLimiter limiterWith(LimitStore fallback) {
        return RateLimiter.builder("api")
                .store(elsewhere)
                .fallback(fallback)
                .limit(LIMIT)
                .build();
    }

    private void open(RateLimiter limiter) {
        elsewhere.isNotThere();
        now(limiter.peek("open"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    /** What the store itself has counted. */
    private long used(String key) {
        return now(elsewhere.asItIs("api").limit(LIMIT).build().peek(key))
                .limits()
                .get(0)
                .used();
    }

    private Disposable listen(Mono<?> answer) {
        return answer.subscribe(said::add, said::add);
    }

    private List<Decision> decisions() {
        return said.stream().map(Decision.class::cast).toList();
    }

    private List<Source> sources() {
        return decisions().stream().map(Decision::source).toList();
    }

    private static Decision now(Mono<Decision> decision) {
        Sinks.One<Decision> answer = Sinks.one();
        decision.subscribe(answer::tryEmitValue, answer::tryEmitError, answer::tryEmitEmpty);
        return requireNonNull(answer.asMono().block(Duration.ZERO));
    }
}
