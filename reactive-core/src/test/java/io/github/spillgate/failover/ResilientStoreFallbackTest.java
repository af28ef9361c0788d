package io.github.spillgate.failover;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.StoreForTests;
import io.github.spillgate.testkit.Unprotected;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The fallbacks there are to choose from, and the usage that a local fallback starts from. */
class ResilientStoreFallbackTest extends ResilientStoreFixture {

    @Test
    void allowAllowsEveryRequest() {
        RateLimiter limiter = limiterWith(Fallback.allow());
        remote.isUnreachable();
        for (int i = 0; i < 30; i++) {
            Decision decision = now(limiter.tryAcquire("a"));
            assertThat(decision.isAllowed()).isTrue();
            assertThat(decision.isCharged()).isFalse();
            assertThat(decision.source()).isEqualTo(Source.FALLBACK);
        }
        assertThat(limiter.state().source()).isEqualTo(Source.FALLBACK);
        assertThat(limiter.state().lost()).isZero();
    }

    @Test
    void denyDeniesEveryRequestForASecond() {
        RateLimiter limiter = limiterWith(Fallback.deny());
        remote.isUnreachable();
        Decision decision = now(limiter.tryAcquire("a"));
        assertThat(decision.isAllowed()).isFalse();
        assertThat(decision.retryAfter()).hasValue(Duration.ofSeconds(1));
        assertThat(decision.remaining()).isZero();
        assertThat(decision.violated()).isEmpty();
    }

    @Test
    void errorPropagatesTheErrorOfTheStore() {
        RateLimiter limiter = limiterWith(Fallback.error());
        remote.fails();
        assertThatExceptionOfType(LimitStoreException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .is(kind(Kind.UNAVAILABLE))
                .withMessage("told to fail");
        remote.isUnreachable();
        assertThatExceptionOfType(LimitStoreException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .is(kind(Kind.UNREACHABLE))
                .withMessage("nothing listens there");
        assertThatExceptionOfType(LimitStoreException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .is(kind(Kind.UNAVAILABLE))
                .withMessage("ControlledStore was not asked, because it is unavailable: nothing listens there");
    }

    @Test
    void theErrorStatesThatTooManyRequestsAreInFlight() {
        RateLimiter limiter = on(ResilientStore.builder(remote)
                .fallback(Fallback.error())
                .maxInFlight(1)
                .build());
        remote.neverReplies();
        limiter.tryAcquire("a").subscribe(decision -> {}, error -> {});
        assertThatExceptionOfType(LimitStoreException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block())
                .is(kind(Kind.UNAVAILABLE))
                .withMessage("ControlledStore was not asked, because too many requests are in flight");
    }

    @Test
    void theErrorStatesThatNoTimeIsLeft() {
        RateLimiter limiter = limiterWith(Fallback.error());
        long since = Schedulers.parallel().now(TimeUnit.NANOSECONDS) - TimeUnit.SECONDS.toNanos(1);
        assertThatExceptionOfType(LimitStoreException.class)
                .isThrownBy(() -> limiter.tryAcquire("a")
                        .contextWrite(context -> context.put(LimitStore.WAITING_SINCE, since))
                        .block())
                .is(kind(Kind.UNAVAILABLE))
                .withMessage("ControlledStore was not asked, because no time is left");
    }

    @Test
    void probesWaitForTheStoreIfTheFallbackIsAnError() {
        RateLimiter limiter = limiterWith(Fallback.error());
        remote.isUnreachable();
        listen(limiter.tryAcquire("a"));
        signals.clear();
        time.passMillis(1_400);
        remote.holdsReplies();
        listen(limiter.tryAcquire("a"));
        time.passMillis(99);
        assertThat(signals).isEmpty();
        time.passMillis(1);
        assertThat(signals).hasSize(1).are(kind(Kind.UNANSWERED));
    }

    @Test
    void grantsOfACustomFallbackAreNotReconciled() {
        RateLimiter limiter = limiterWith(new Unprotected(local));
        remote.isUnreachable();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 4))).source()).isEqualTo(Source.LOCAL);
        assertThat(limiter.state().lost()).isEqualTo(4);
    }

    @Test
    void anExceptionThrownByACustomFallbackIsSignalled() {
        RateLimiter limiter = limiterWith(StoreForTests.taking(local, claims -> {
            throw new IllegalStateException("thrown by the fallback");
        }));
        remote.isUnreachable();
        listen(limiter.tryAcquire("a"));
        assertThat(signals).singleElement().isInstanceOf(IllegalStateException.class);
    }

    @Test
    void chargesOfTheStoreAreRefundedThereIfTheFallbackCountsNothing() {
        RateLimiter limiter = limiterWith(Fallback.deny());
        Decision taken = now(limiter.tryAcquire(Charge.of("a", 4)));
        now(limiter.tryAcquire(Charge.of("a", 3)));
        limiter.refund(taken).block();
        assertThat(used("a")).isEqualTo(3);
        limiter.reset("a").block();
        assertThat(used("a")).isZero();
    }

    @Test
    void acquireWaitsWhileTheFallbackDeniesEverything() {
        RateLimiter limiter = limiterWith(Fallback.deny());
        remote.isUnreachable();
        listen(limiter.acquire("a", Duration.ofSeconds(10)));
        time.passMillis(1_500);
        remote.isAvailable();
        assertThat(signals).isEmpty();
        time.pass(Duration.ofSeconds(8));
        assertThat(sources()).containsExactly(Source.OTHER);
    }

    @Test
    void theFallbackStartsFromTheUsageReportedByTheStore() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire(Charge.of("a", 7)));
        remote.isUnreachable();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 4))).isAllowed()).isFalse();
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 2)));
        assertThat(decision.isAllowed()).isTrue();
        assertThat(decision.remaining()).isEqualTo(1);
        assertThat(decision.limits().get(0).used()).isEqualTo(9);
        assertThat(now(limiter.tryAcquire("b")).remaining()).isEqualTo(9);
    }

    @Test
    void refundsDuringAnOutageReduceTheUsage() {
        RateLimiter limiter = limiter(LIMIT);
        Decision first = now(limiter.tryAcquire(Charge.of("a", 4)));
        now(limiter.tryAcquire(Charge.of("a", 6)));
        remote.isUnreachable();
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
        limiter.refund(first).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(4);
        limiter.refund(Charge.of("a", 3)).block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(7);
        limiter.reset("a").block();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(10);
    }

    /** An answer that the store gives after a refund already contains the refund. */
    @Test
    void aRefundIsSubtractedOnceIfTheStoreRepliesToOthersDuringIt() {
        RateLimiter limiter = limiter(LIMIT);
        Decision first = now(limiter.tryAcquire(Charge.of("a", 4)));
        remote.holdsReplies();
        listen(limiter.refund(first).thenReturn("given back"));
        remote.isAvailable();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 6))).limits().get(0).used())
                .isEqualTo(6);
        remote.replyToAll();
        assertThat(signals).containsExactly("given back");
        remote.isUnreachable();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(4);
    }

    /** It is unknown whether the store made the refund; its later answers may already contain it. */
    @Test
    void aRefundOfAKeyIsSubtractedOnceIfItsReplyIsLost() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire(Charge.of("a", 8)));
        remote.holdsReplies();
        listen(limiter.refund(Charge.of("a", 2)).thenReturn("given back"));
        remote.isAvailable();
        time.passMillis(1);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 1))).limits().get(0).used())
                .isEqualTo(7);
        time.passMillis(99);
        assertThat(signals).containsExactly("given back");
        remote.isUnreachable();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(3);
    }

    @Test
    void aRefundOfAReconciledGrantIsSubtractedOnceIfItsReplyIsLost() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        Decision granted = now(limiter.tryAcquire(Charge.of("a", 8)));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(used("a")).isEqualTo(8);
        remote.holdsReplies();
        listen(limiter.refund(granted).thenReturn("given back"));
        remote.isAvailable();
        time.passMillis(1);
        now(limiter.tryAcquire(Charge.of("a", 9)));
        assertThat(used("a")).isEqualTo(9);
        time.passMillis(99);
        assertThat(signals).containsExactly("given back");
        remote.isUnreachable();
        assertThat(now(limiter.peek("a")).remaining()).isEqualTo(1);
    }

    /** The reset must not discard usage that was reported after it. */
    @Test
    void aResetWithALostReplyKeepsLaterUsage() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire(Charge.of("a", 10)));
        remote.holdsReplies();
        listen(limiter.reset("a").thenReturn("reset"));
        remote.isAvailable();
        time.passMillis(1);
        assertThat(now(limiter.tryAcquire(Charge.of("a", 4))).isAllowed()).isTrue();
        remote.fails();
        assertThat(now(limiter.tryAcquire(Charge.of("a", 6))).isAllowed()).isTrue();
        time.passMillis(99);
        assertThat(signals).containsExactly("reset");
        assertThat(now(limiter.peek("a")).remaining()).isZero();
        assertThat(limiter.state().toReconcile()).isEqualTo(6);
    }

    @Test
    void theContextOfTheSubscriberReachesTheFallback() {
        List<Optional<String>> seen = new ArrayList<>();
        LimitStore watching = StoreForTests.taking(
                local,
                claims -> Mono.deferContextual(context -> {
                    seen.add(context.getOrEmpty("caller"));
                    return local.take(StoreRequest.take(claims));
                }));
        RateLimiter limiter = limiterWith(watching);
        remote.fails();
        now(limiter.tryAcquire("a").contextWrite(context -> context.put("caller", "me")));
        assertThat(seen).containsExactly(Optional.of("me"));
    }

    @Test
    void theStateContainsTheNumbersOfACustomFallback() {
        ResilientStore store = ResilientStore.builder(remote)
                .fallback(new Unprotected(LocalStore.bounded(1_000, time)) {
                    @Override
                    public StoreState state() {
                        return StoreState.ofFallback(Source.LOCAL, 7, 3, 2);
                    }
                })
                .build();
        assertThat(store.state().toReconcile()).isEqualTo(7);
        assertThat(store.state().reconciled()).isEqualTo(3);
        assertThat(store.state().lost()).isEqualTo(2);
    }

    /** There is no primary store in which its grants could be charged. */
    @Test
    void anUnboundLocalFallbackHasNothingToReconcile() {
        RateLimiter limiter = on(Fallback.local(1_000, time));
        assertThat(now(limiter.tryAcquire("a")).isAllowed()).isTrue();
        assertThat(limiter.state().toReconcile()).isZero();
    }

    // Without a primary store.

    static Stream<LimitStore> allowAndDeny() {
        return Stream.of(Fallback.allow(), Fallback.deny());
    }

    @ParameterizedTest
    @MethodSource("allowAndDeny")
    void allowAndDenyCountNothing(LimitStore fallback) {
        RateLimiter limiter = on(fallback);
        Decision before = limiter.peek("a").block();
        for (int i = 0; i < 3; i++) {
            limiter.tryAcquire("a").block();
        }
        limiter.refund(Charge.of("a", 1)).block();
        limiter.refund(Charge.of("a"), Charge.of("b")).block();
        limiter.reset("a").block();
        Decision after = limiter.peek("a").block();
        assertThat(after.isAllowed()).isEqualTo(before.isAllowed());
        assertThat(after.limits()).isEmpty();
        assertThat(after.source()).isEqualTo(Source.FALLBACK);
        assertThat(StoreForTests.refund(fallback, (StoreDecision) after).blockOptional())
                .isEmpty();
    }

    @Test
    void errorFailsEveryOperation() {
        LimitStore nothing = Fallback.error();
        RateLimiter limiter = on(nothing);
        Decision decision = on(Fallback.allow()).tryAcquire("a").block();
        for (Mono<?> question : List.of(
                limiter.tryAcquire("a"),
                limiter.peek("a"),
                limiter.refund(Charge.of("a", 1)),
                StoreForTests.refund(nothing, (StoreDecision) decision),
                limiter.reset("a"))) {
            assertThatExceptionOfType(LimitStoreException.class)
                    .isThrownBy(() -> question.block())
                    .is(kind(Kind.UNAVAILABLE))
                    .withMessage("the store does not answer, and there is nothing to fall back on");
        }
    }

    @Test
    void fallbacksNeedNoResilientStore() {
        for (LimitStore fallback : List.of(Fallback.allow(), Fallback.deny(), Fallback.error())) {
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> ResilientStore.of(fallback))
                    .withMessageContaining("store " + fallback + " has a deadline of its own");
        }
        assertThat(Fallback.allow()).hasToString("Fallback[allow]");
        assertThat(Fallback.deny()).hasToString("Fallback[deny]");
        assertThat(Fallback.error()).hasToString("Fallback[error]");
    }
}
