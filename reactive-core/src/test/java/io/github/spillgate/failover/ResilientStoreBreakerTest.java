package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.model.LossyStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Mono;

/** When the breaker opens and closes, and the state that it reports. */
class ResilientStoreBreakerTest extends ResilientStoreFixture {

    @Test
    void aProblemAtTheStartIsNotReportedForever() {
        LimitStore inParts = new WithoutDeadline(remote) {
            @Override
            public String node(List<Claim> claims) {
                return claims.isEmpty() ? "" : "node";
            }

            @Override
            public Mono<Void> prepare(String node) {
                return Mono.error(new LimitStoreException(Kind.UNREACHABLE, "another node is not there yet"));
            }
        };
        RateLimiter limiter = limiterOn(inParts);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        time.pass(Duration.ofSeconds(30));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().source()).isEqualTo(Source.OTHER);
    }

    @Test
    void theStoreIsNotCalledWhileTheBreakerIsOpen() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        assertThat(limiter.state().isFallbackActive()).isTrue();
        assertThat(limiter.state().source()).isEqualTo(Source.LOCAL);
        assertThat(remote.calls()).isEqualTo(10);
        now(limiter.tryAcquire("b"));
        assertThat(remote.calls()).isEqualTo(10);
    }

    @Test
    void aFewProbesCallTheStoreWithoutWaitingForIt() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        remote.holdsReplies();
        time.passMillis(1_400);
        int before = remote.calls();
        for (int i = 0; i < 8; i++) {
            assertThat(now(limiter.peek("a")).source()).isEqualTo(Source.LOCAL);
        }
        assertThat(remote.calls() - before).isEqualTo(3);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.HALF_OPEN);
        remote.replyToAll();
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().isFallbackActive()).isFalse();
        remote.isAvailable();
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void aProbeThatTheStoreDidNotExecuteIsFollowedByAnother() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        time.passMillis(1_400);
        remote.failsWith(new LimitStoreException(Kind.LATE, "too late"));
        for (int i = 0; i < 10; i++) {
            now(limiter.peek("a"));
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.HALF_OPEN);
        }
        remote.isAvailable();
        for (int i = 0; i < 3; i++) {
            now(limiter.peek("a"));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void unansweredProbesOpenTheBreakerAgain() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        remote.neverReplies();
        for (int round = 0; round < 5; round++) {
            time.passMillis(1_400);
            for (int i = 0; i < 3; i++) {
                assertThat(now(limiter.peek("b")).source()).isEqualTo(Source.LOCAL);
            }
            time.passMillis(100);
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
        }
    }

    /**
     * Otherwise an instance would report the fallback for ever if it is taken out of service for that. A Redis that
     * starts, and loads its data, refuses to be prepared as well.
     */
    @ParameterizedTest
    @CsvSource({"UNREACHABLE, UNREACHABLE", "UNREACHABLE, UNAVAILABLE", "UNAVAILABLE, UNAVAILABLE"})
    void anOutageEndsWithoutRequests(Kind requests, Kind probes) {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsToPrepareWith(new LimitStoreException(requests, "it does not start"));
        ask(limiter, 10);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        remote.failsToPrepareWith(new LimitStoreException(probes, "it is loading its data"));
        time.pass(Duration.ofSeconds(8));
        assertThat(limiter.state().isFallbackActive()).isTrue();
        assertThat(limiter.state().problem()).hasValue("it is loading its data");
        remote.isAvailable();
        time.pass(Duration.ofSeconds(8));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().isFallbackActive()).isFalse();
        assertThat(used("a")).isEqualTo(1);
    }

    @Test
    void aProbeWithoutRequestsReleasesItsCapacity() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(10).build();
        RateLimiter limiter = on(store);
        remote.holdsReplies();
        for (int i = 0; i < 7; i++) {
            listen(limiter.peek("a"));
            time.passMillis(100);
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().isFallbackActive()).isTrue();
        remote.replyToAll();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().isFallbackActive()).isFalse();
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(10);
    }

    @Test
    void anOutageAtTheStartEndsWithoutRequests() {
        remote.isUnreachable();
        ResilientStore store = ResilientStore.of(remote);
        time.pass(Duration.ofSeconds(8));
        assertThat(store.state().isFallbackActive()).isTrue();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(8));
        assertThat(store.state().isFallbackActive()).isFalse();
    }

    static Stream<Throwable> refusals() {
        return Stream.of(
                new LimitStoreException(Kind.UNAVAILABLE, "it is out of memory"),
                new LimitStoreException(Kind.REFUSED, "it denied this user the command"));
    }

    /** The next decision would be refused as well. */
    @Test
    void aRefusedDecisionOpensTheBreakerAtOnce() {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsWith(new LimitStoreException(Kind.REFUSED, "it denied this user the command"));
        now(limiter.tryAcquire("a"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    /** A probe takes no permits, so it does not show whether a store that has refused to decide would decide. */
    @ParameterizedTest
    @MethodSource("refusals")
    void anOutageOfAStoreThatRefusesToDecideLastsUntilARequest(Throwable refusal) {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsWith(refusal);
        for (int i = 0; i < 10; i++) {
            now(limiter.peek("key-" + i));
        }
        remote.isAvailable();
        time.pass(Duration.ofSeconds(8));
        assertThat(limiter.state().isFallbackActive()).isTrue();
    }

    /** The breaker does not count the refusal: its window holds only successes before and after that. */
    @Test
    void aRefusalBeforeTheLastSuccessesDoesNotMakeAnOutageLastUntilARequest() {
        RateLimiter limiter = on(ResilientStore.builder(remote)
                .fallback(local)
                .breaker(settings -> settings.ignoreException(error -> !Kind.UNREACHABLE.isOf(error)))
                .build());
        ask(limiter, 20);
        remote.fails();
        ask(limiter, 1);
        remote.isAvailable();
        ask(limiter, 20);
        remote.failsWith(new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
        ask(limiter, 1);
        assertThat(limiter.state().isFallbackActive()).isTrue();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(8));
        assertThat(limiter.state().isFallbackActive()).isFalse();
    }

    /** The reconciliation is one success of the three that close the breaker. */
    @Test
    void anOutageEndsWithoutRequestsOnceTheStoreHasReconciledAfterARefusal() {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsWith(new LimitStoreException(Kind.UNAVAILABLE, "it is out of memory"));
        for (int i = 0; i < 10; i++) {
            now(limiter.tryAcquire("a"));
        }
        time.pass(Duration.ofSeconds(8));
        assertThat(limiter.state().isFallbackActive()).isTrue();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(15));
        assertThat(used("a")).isEqualTo(10);
        assertThat(limiter.state().isFallbackActive()).isFalse();
    }

    /** Otherwise it would seem to be available again, and the next callers would wait for it. */
    @Test
    void anOutageOfAStoreWithoutPreparationLastsUntilARequest() {
        LimitStore store = new WithoutDeadline(remote) {
            @Override
            public Mono<Void> prepare(String node) {
                return Mono.empty();
            }
        };
        RateLimiter limiter = limiterOn(store);
        open(limiter);
        time.pass(Duration.ofSeconds(8));
        assertThat(limiter.state().isFallbackActive()).isTrue();
        remote.isAvailable();
        for (int i = 0; i < 3; i++) {
            now(limiter.peek("a"));
        }
        assertThat(limiter.state().isFallbackActive()).isFalse();
    }

    @Test
    void aClosedStoreIsNotProbed() {
        ResilientStore store = ResilientStore.of(remote);
        open(on(store));
        store.close();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(8));
        assertThat(store.state().isFallbackActive()).isTrue();
    }

    @Test
    void aProbeIsNotChargedTwice() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        remote.isAvailable();
        time.passMillis(1_400);
        for (int i = 0; i < 3; i++) {
            assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.LOCAL);
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(used("b")).isEqualTo(3);
        assertThat(now(limiter.tryAcquire("b")).remaining()).isEqualTo(6);
    }

    /** The store has lost its data, which are not restored yet. It still decides on all other keys. */
    @Test
    void repliesThatDoNotFitAreNoOutage() {
        LossyStore lossy = new LossyStore(time);
        RateLimiter limiter = limiterOn(new WithoutDeadline(lossy) {
            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                return corrections.get(0) instanceof Reconciliation one
                                && !one.lost().isEmpty()
                        ? Mono.never()
                        : super.correct(corrections);
            }
        });
        now(limiter.tryAcquire(Charge.of("a", 10)));
        time.passMillis(2);
        lossy.loseAll();
        for (int i = 0; i < 20; i++) {
            Decision denied = now(limiter.tryAcquire("a"));
            assertThat(denied.source()).isEqualTo(Source.LOCAL);
            assertThat(denied.isAllowed()).isFalse();
            time.passMillis(100);
        }
        assertThat(limiter.state().isFallbackActive()).isFalse();
    }

    /** The gate does not report every success to the breaker; the omitted ones must make no difference. */
    @Test
    void onlyTheLastTwentyCallsCountForTheBreaker() {
        RateLimiter limiter = limiter(LIMIT);
        ask(limiter, 1_000);
        for (int i = 0; i < 5; i++) {
            remote.fails();
            ask(limiter, 9);
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
            remote.isAvailable();
            ask(limiter, 20 + i);
        }
        remote.fails();
        ask(limiter, 9);
        remote.isAvailable();
        ask(limiter, 10);
        remote.fails();
        ask(limiter, 1);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    @Test
    void theProblemOfALateErrorIsClearedByTheNextReply() {
        RateLimiter limiter = limiter(LIMIT);
        remote.holdsReplies();
        listen(limiter.tryAcquire("a"));
        time.passMillis(100);
        remote.isAvailable();
        ask(limiter, 30);
        assertThat(limiter.state().problem()).isEmpty();
        remote.failAllHeld(new LimitStoreException(Kind.UNREACHABLE, "nothing listens there"));
        ask(limiter, 30);
        assertThat(limiter.state().problem()).isEmpty();
    }

    @Test
    void slowRepliesOpenTheBreakerAfterManyFastOnes() {
        RateLimiter limiter = on(ResilientStore.builder(remote)
                .fallback(local)
                .breaker(settings -> settings.slowCallDurationThreshold(Duration.ofMillis(20))
                        .slowCallRateThreshold(50))
                .build());
        ask(limiter, 1_000);
        remote.holdsReplies();
        for (int i = 0; i < 10; i++) {
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
            listen(limiter.peek("a"));
            time.passMillis(21);
            remote.replyToAll();
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }

    private void ask(RateLimiter limiter, int times) {
        for (int i = 0; i < times; i++) {
            now(limiter.peek("key-" + i));
        }
    }

    @Test
    void aCallerGetsADecisionIfTheBreakerThrows() {
        ResilientStore store = ResilientStore.builder(remote)
                .fallback(local)
                .breaker(settings -> settings.ignoreException(e -> {
                    throw new IllegalStateException("broken");
                }))
                .build();
        RateLimiter limiter = on(store);
        int capacity = store.failover().gates().whole().freeCapacity();
        remote.holdsReplies();
        List<Decision> decisions = new ArrayList<>();
        limiter.tryAcquire("a").subscribe(decisions::add);
        remote.fails();
        limiter.tryAcquire("b").onErrorComplete().subscribe(decisions::add);
        time.passMillis(1_000);
        assertThat(decisions).extracting(Decision::source).containsExactlyInAnyOrder(Source.LOCAL, Source.LOCAL);
        assertThat(store.failover().gates().whole().freeCapacity()).isGreaterThanOrEqualTo(capacity - 1);
    }

    static Stream<Function<RateLimiter, Mono<?>>> answeredOperations() {
        return Stream.of(
                limiter -> limiter.tryAcquire("a").map(Decision::source),
                limiter -> limiter.reset("a").thenReturn(Source.OTHER));
    }

    @ParameterizedTest
    @MethodSource("answeredOperations")
    void aCallerGetsTheReplyIfTheBreakerThrowsOnSuccess(Function<RateLimiter, Mono<?>> question) {
        ResilientStore store = throwsWhenTheBreakerOpens(1);
        RateLimiter limiter = on(store);
        int capacity = store.failover().gates().whole().freeCapacity();
        remote.holdsReplies();
        listen(question.apply(limiter));
        time.passMillis(2);
        remote.replyToAll();
        assertThat(signals).containsExactly(Source.OTHER);
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(capacity);
    }

    @Test
    void refundsCloseTheBreakerToo() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        time.passMillis(1_400);
        remote.isAvailable();
        for (int i = 0; i < 3; i++) {
            limiter.refund(Charge.of("a", 1)).block();
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void anImmediateReplyIsNotSlowInALongRunningProcess() {
        RateLimiter limiter = on(ResilientStore.builder(remote)
                .fallback(local)
                .breaker(settings -> settings.slowCallRateThreshold(10))
                .build());
        time.pass(Duration.ofHours(1));
        for (int i = 0; i < 15; i++) {
            limiter.refund(Charge.of("a", 1)).block();
        }
        remote.fails();
        now(limiter.peek("a"));
        now(limiter.peek("a"));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void theBreakerClosesAlthoughUnansweredCallsTakeAllPlaces() {
        RateLimiter limiter = on(
                ResilientStore.builder(remote).fallback(local).maxInFlight(20).build());
        remote.neverReplies();
        for (int i = 0; i < 30; i++) {
            listen(limiter.tryAcquire("key-" + i));
        }
        time.passMillis(100);
        remote.isAvailable();
        for (int i = 0; i < 50; i++) {
            time.passMillis(100);
            now(limiter.peek("other"));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    @Test
    void anErrorWithoutAMessageIsReportedByItsClassName() {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsWith(new IllegalStateException());
        now(limiter.tryAcquire("a"));
        assertThat(limiter.state().problem()).hasValue("java.lang.IllegalStateException");
    }

    static Stream<Function<RateLimiter, Mono<Void>>> changes() {
        return Stream.of(limiter -> limiter.refund(Charge.of("a", 1)), limiter -> limiter.reset("a"));
    }

    /** A class or method that is missing at run time, noticed on another thread after the request was sent. */
    @ParameterizedTest
    @MethodSource("changes")
    void aLateLinkageErrorFallsBackAndOpensTheBreaker(Function<RateLimiter, Mono<Void>> change) {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a"));
        remote.holdsReplies();
        listen(change.apply(limiter).thenReturn("done"));
        time.passMillis(20);
        remote.failAllHeld(new NoSuchMethodError("missing"));
        assertThat(signals).containsExactly("done");
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }
}
