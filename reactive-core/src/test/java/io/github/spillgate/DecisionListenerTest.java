package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.assertj.core.groups.Tuple.tuple;

import io.github.spillgate.failover.Fallback;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.test.StepVerifier;
import reactor.test.publisher.TestPublisher;

/** A listener gets each decision that is emitted, once. */
class DecisionListenerTest extends AcquireFixture {

    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final String LOGGED = "A listener of limiter";

    private final Queue<Reported> reported = new ConcurrentLinkedQueue<>();

    @Test
    void eachDecisionOfTryAcquireIsReportedOnce() {
        RateLimiter limiter = limiter(store, Limit.perMinute(1));
        Mono<Decision> asked = limiter.tryAcquire("a");
        assertThat(reported).as("nothing happens before the subscription").isEmpty();
        List<Decision> emitted = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            emitted.add(asked.block());
        }
        emitted.add(limiter.tryAcquire(Charge.of("a", 0)).block());
        emitted.add(limiter.tryAcquire(Charge.of("b"), Charge.of("c")).block());
        emitted.add(limiter.tryAcquire(Charge.of("a", 2)).block());
        assertThat(reported).extracting(Reported::limiter).containsOnly("test");
        assertThat(reported).extracting(Reported::decision).containsExactlyElementsOf(emitted);
        assertThat(reported)
                .extracting(one -> one.decision().isAllowed())
                .containsExactly(true, false, true, true, false);
        assertThat(emitted.get(4).source()).as("a cost that never fits").isEqualTo(Source.LIMITER);
    }

    @Test
    void decisionsWithALookupAreReportedOnce() {
        RateLimiter limiter = builder(store, Limit.perMinute(1))
                .lookup(LimitLookup.of(key -> switch (key) {
                            case "slow" -> Mono.delay(Duration.ofMillis(20)).thenReturn(List.of(Limit.perMinute(7)));
                            case "broken" -> Mono.error(new IllegalStateException("told to fail"));
                            default -> Mono.empty();
                        })
                        .whenFailed(LimitLookup.Otherwise.deny())
                        .whenEmpty(LimitLookup.Otherwise.allow()))
                .build();
        limiter.tryAcquire("slow").subscribe();
        time.passMillis(20);
        limiter.tryAcquire("broken").block();
        limiter.tryAcquire("any").block();
        limiter.acquire("any", LONG).block();
        assertThat(reported)
                .extracting(
                        one -> one.decision().source(), one -> one.decision().isAllowed(), Reported::took)
                .containsExactly(
                        tuple(Source.LOCAL, true, Duration.ofMillis(20)),
                        tuple(Source.LIMITER, false, Duration.ZERO),
                        tuple(Source.LIMITER, true, Duration.ZERO),
                        tuple(Source.LIMITER, true, Duration.ZERO));
    }

    @Test
    void limitedReportsBeforeTheWorkAndBeforeTheError() {
        RateLimiter limiter = limiter(store, Limit.perMinute(1));
        List<Integer> atWork = new ArrayList<>();
        Mono<Integer> work = Mono.fromSupplier(() -> {
            atWork.add(reported.size());
            return 1;
        });
        StepVerifier.create(work.transform(limiter.limited("a"))).expectNext(1).verifyComplete();
        StepVerifier.create(work.transform(limiter.limited("a"))).verifyError(RateLimitedException.class);
        assertThat(atWork).containsExactly(1);
        assertThat(reported).hasSize(2);
    }

    @Test
    void acquireReportsTheWaitOnceAndNoAttemptOfTheQueue() {
        RateLimiter limiter = limiter(store, Limit.perSecond(1));
        for (int i = 0; i < 3; i++) {
            limiter.acquire("a", LONG).subscribe();
        }
        limiter.acquire("a", Duration.ZERO).subscribe();
        assertThat(reported).extracting(one -> one.decision().isAllowed()).containsExactly(true, false);
        time.passMillis(10_000);
        assertThat(reported)
                .extracting(Reported::took)
                .containsExactly(Duration.ZERO, Duration.ZERO, Duration.ofMillis(1_001), Duration.ofMillis(2_002));
    }

    @Test
    void throttleReportsEachElementWithItsPermit() {
        RateLimiter limiter = limiter(store, Limit.perSecond(1));
        List<Integer> reportedBefore = new ArrayList<>();
        Flux.range(0, 3)
                .transform(limiter.throttle("a", element -> element == 1 ? 0 : 1))
                .subscribe(element -> reportedBefore.add(reported.size()));
        time.passMillis(10_000);
        assertThat(reportedBefore)
                .as("an element that costs nothing has no decision")
                .containsExactly(1, 1, 2);
        assertThat(reported).extracting(Reported::took).containsExactly(Duration.ZERO, Duration.ofMillis(1_001));
    }

    @Test
    void throttleReportsNoPermitThatItReturns() {
        RateLimiter limiter = limiter(store, Limit.perSecond(5));
        List<Integer> out = new ArrayList<>();
        Flux.range(0, 6).transform(limiter.throttle("a")).subscribe(element -> {
            out.add(element);
            // Keeps the stream for longer than a permit may wait.
            time.passMillis(20);
        });
        time.passMillis(10_000);
        assertThat(out).hasSize(6);
        assertThat(reported).hasSize(6).allMatch(one -> one.decision().isAllowed());
    }

    @Test
    void theDenialThatEndsAStreamIsReported() {
        RateLimiter limiter = limiter(store, Limit.perSecond(5));
        StepVerifier.create(Flux.just(1, 6, 1).transform(limiter.throttle("a", element -> element)))
                .expectNext(1)
                .verifyError(IllegalArgumentException.class);
        assertThat(reported).extracting(one -> one.decision().isAllowed()).containsExactly(true, false);
    }

    @Test
    void cancelledRequestsAreNotReported() {
        RateLimiter limiter = limiter(held, Limit.perSecond(1));
        Disposable tried = limiter.tryAcquire("a").subscribe();
        Disposable waits = limiter.acquire("b", LONG).subscribe();
        Disposable work = Mono.just(1).transform(limiter.limited("c")).subscribe();
        Disposable stream = Flux.range(0, 10).transform(limiter.throttle("d")).subscribe();
        assertThat(held.held()).isEqualTo(4);
        for (Disposable one : List.of(tried, waits, work, stream)) {
            one.dispose();
        }
        held.answerAll();
        assertThat(reported).isEmpty();
        limiter.tryAcquire("e").subscribe();
        held.answerAll();
        assertThat(reported).hasSize(1);
    }

    @Test
    void aDecisionThatArrivesAfterCancellationIsNotReported() {
        Decision decision = limiter(store, Limit.perSecond(1)).peek("a").block();
        TestPublisher<Decision> late = TestPublisher.createNoncompliant(TestPublisher.Violation.CLEANUP_ON_TERMINATE);
        DecisionListeners.of("test", List.of(this::add))
                .reporting(late.mono())
                .subscribe()
                .dispose();
        late.next(decision);
        assertThat(reported).isEmpty();
    }

    @Test
    void errorsPeeksRefundsAndResetsAreNotReported() {
        RateLimiter limiter = limiter(store, Limit.perSecond(1));
        Decision decision = limiter.tryAcquire("a").block();
        limiter.peek("a").block();
        limiter.refund(decision).block();
        limiter.reset("a").block();
        RateLimiter failing = limiter(held, Limit.perSecond(1));
        Disposable failed = failing.tryAcquire("b").subscribe(any -> {}, error -> {});
        held.fail(0);
        assertThat(failed.isDisposed()).isTrue();
        assertThat(reported).hasSize(1);
    }

    @Test
    void aListenerThatThrowsChangesNoDecisionAndIsLoggedOnceAMinute() {
        RateLimiter limiter = builder(store, Limit.perSecond(2))
                .listener((name, decision, took) -> {
                    throw new NoClassDefFoundError("missing\nkey");
                })
                .listener(this::add)
                .build();
        try (LogForTests log = LogForTests.listen()) {
            List<Boolean> allowed = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                allowed.add(limiter.tryAcquire("a").block().isAllowed());
            }
            StepVerifier.create(Flux.range(0, 2).transform(limiter.throttle("b")))
                    .expectNext(0, 1)
                    .verifyComplete();
            assertThat(limiter.acquire("c", LONG).block().isAllowed()).isTrue();
            assertThat(allowed).containsExactly(true, true, false);
            // The first is reported twice: by the builder's listener, and by the one after the broken one.
            assertThat(reported).hasSize(12);
            assertThat(log.lines(LOGGED))
                    .singleElement()
                    .asString()
                    .contains("limiter test failed; decisions are not affected: \"java.lang.NoClassDefFoundError")
                    .contains("missing\\u000akey");
            time.pass(Duration.ofMinutes(1));
            limiter.tryAcquire("a").block();
            limiter.tryAcquire("a").block();
            assertThat(log.lines(LOGGED)).hasSize(2);
        }
    }

    @Test
    void aListenerCannotBeNull() {
        assertThatNullPointerException()
                .isThrownBy(() -> RateLimiter.builder("test").listener(null))
                .withMessage("listener is null: expected one, for example DecisionMetrics.of(registry)");
    }

    @Test
    void withoutAListenerNothingIsAddedToADecision() {
        assertThat(DecisionListeners.of("test", List.of())).isNull();
    }

    /** Equal requests are merged into one command, and repeated denials cause none. */
    @Test
    void mergedRequestsAndCachedDenialsOfRedisAreReportedOnceEach() {
        time.close();
        try (RedisStore redis = RedisStore.create(RedisForTests.first().uri());
                RateLimiter limiter = RateLimiter.builder("heard-" + System.nanoTime())
                        .store(redis)
                        .fallback(Fallback.error())
                        .deadline(Duration.ofSeconds(30))
                        .limit(Limit.perDay(50))
                        .limit(Limit.perDay(1_000).named("day"))
                        .listener(this::add)
                        .build()) {
            limiter.ready().retry(3).block(PATIENCE);
            List<Decision> emitted = Flux.range(0, 200)
                    .flatMap(i -> limiter.tryAcquire("a"), 200)
                    .collectList()
                    .block(PATIENCE);
            assertThat(reported).extracting(Reported::decision).containsExactlyInAnyOrderElementsOf(emitted);
            assertThat(reported).filteredOn(one -> one.decision().isAllowed()).hasSize(50);
            reported.clear();
            assertThat(limiter.tryAcquire("a").block(PATIENCE).source()).isEqualTo(Source.CACHED_DENIAL);
            assertThat(reported).hasSize(1);
        }
    }

    @Override
    RateLimiterBuilder builder(LimitStore on, Limit... limits) {
        return super.builder(on, limits).listener(this::add);
    }

    private void add(String limiter, Decision decision, Duration took) {
        reported.add(new Reported(limiter, decision, took));
    }

    private record Reported(String limiter, Decision decision, Duration took) {}
}
