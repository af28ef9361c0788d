package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.spi.Corrected;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** Grants of the fallback are charged once when the store is back. */
class ResilientStoreReconciliationTest extends ResilientStoreFixture {

    @Test
    void localGrantsAreChargedWhenTheStoreIsBack() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire(Charge.of("a", 2)));
        remote.isUnreachable();
        now(limiter.tryAcquire(Charge.of("a", 3)));
        now(limiter.tryAcquire(Charge.of("b", 5)));
        assertThat(limiter.state().toReconcile()).isEqualTo(8);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(limiter.state().reconciled()).isEqualTo(8);
        assertThat(limiter.state().lost()).isZero();
        assertThat(limiter.state().unknown()).isZero();
        assertThat(used("a")).isEqualTo(5);
        assertThat(used("b")).isEqualTo(5);
    }

    @Test
    void noCallsAreMadeIfNothingIsToReconcile() {
        RateLimiter limiter = limiter(LIMIT);
        now(limiter.tryAcquire("a"));
        int before = remote.calls();
        time.pass(Duration.ofMinutes(10));
        assertThat(remote.calls()).isEqualTo(before);
    }

    @Test
    void theNextBatchIsSentWhenTheFirstIsAnswered() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        for (int i = 0; i < 100; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        remote.holdsReplies();
        while (remote.batches().isEmpty()) {
            time.passMillis(100);
        }
        time.passMillis(500);
        assertThat(remote.batches()).hasSize(1);
        assertThat(remote.batches().get(0)).hasSize(Outbox.BATCH);
        remote.replyToAll();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(remote.batches().stream().mapToInt(List::size)).containsExactly(64, 36);
        assertThat(limiter.state().reconciled()).isEqualTo(100);
    }

    @Test
    void aReconciliationWithALostReplyIsRetriedIdempotently() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        now(limiter.tryAcquire(Charge.of("a", 4)));
        remote.losesReplies(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        time.passMillis(2_500);
        assertThat(remote.batches()).isNotEmpty();
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        remote.isAvailable();
        time.pass(Duration.ofSeconds(5));
        assertThat(remote.batches().stream().flatMap(List::stream).map(AdmissionOracle::idOf))
                .hasSizeGreaterThan(1)
                .containsOnly(AdmissionOracle.idOf(remote.batches().get(0).get(0)));
        assertThat(used("a")).isEqualTo(4);
        assertThat(limiter.state().reconciled()).isEqualTo(4);
    }

    @Test
    void grantsAreLostIfTheStoreCannotReconcile() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        now(limiter.tryAcquire(Charge.of("a", 4)));
        remote.reconciles(charged -> Mono.empty());
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(limiter.state().reconciled()).isZero();
        assertThat(limiter.state().lost()).isEqualTo(4);
    }

    @Test
    void aStoreThatForgetsAResultDoesNotEndReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        now(limiter.tryAcquire(Charge.of("a", 4)));
        remote.reconciles(charged -> Mono.just(List.of()));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().toReconcile()).isEqualTo(4);
        remote.reconciles(charged -> charged);
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(4);
    }

    @Test
    void theStoreGrantsNothingBeforeLocalGrantsAreCharged() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        now(limiter.tryAcquire(Charge.of("a", 10)));
        for (int i = 0; i < 200; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        remote.isAvailable();
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
    void aRequestedKeyIsReconciledFirst() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        for (int i = 0; i < 300; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        remote.isAvailable();
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
    void onlyARefusedBatchIsLost() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        for (int i = 0; i < 80; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        remote.rejectsAReconciliation();
        remote.isAvailable();
        time.pass(Duration.ofSeconds(6));
        assertThat(limiter.state().lost()).isEqualTo(64);
        assertThat(limiter.state().reconciled()).isEqualTo(16);
        assertThat(limiter.state().toReconcile()).isZero();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 50})
    void theStoreDoesNotDecideIfTheReconciliationWasLost(int failsAfter) {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 10)));
        remote.isAvailable();
        Mono<List<Corrected>> lost = Mono.error(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        remote.reconciles(charged -> lost.delaySubscription(Duration.ofMillis(failsAfter)));
        while (remote.batches().isEmpty()) {
            time.passMillis(10);
        }
        time.passMillis(failsAfter + 10);
        remote.reconciles(charged -> charged);
        for (int i = 0; i < 40; i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
            time.passMillis(25);
        }
        assertThat(limiter.state().reconciled()).isEqualTo(10);
        assertThat(now(limiter.tryAcquire("a")).source()).isIn(Source.OTHER, Source.CACHED_DENIAL);
    }

    @Test
    void eachOutageIsReconciledWithoutFurtherRequests() {
        RateLimiter limiter = limiter(LIMIT);
        for (int outage = 1; outage <= 3; outage++) {
            remote.fails();
            now(limiter.tryAcquire("a"));
            remote.isAvailable();
            time.pass(Duration.ofSeconds(5));
            assertThat(limiter.state().reconciled()).isEqualTo(outage);
        }
    }

    @Test
    void aRequestSpeedsUpTheReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        for (int times = 1; times <= 3; times++) {
            remote.fails();
            now(limiter.tryAcquire("a"));
            remote.isAvailable();
            time.passMillis(25);
            now(limiter.peek("a"));
            time.passMillis(1);
            assertThat(limiter.state().reconciled()).isEqualTo(times);
            time.pass(Duration.ofSeconds(2));
        }
    }

    @Test
    void expiredGrantsAreNotSentAgain() {
        RateLimiter limiter = limiter(Limit.of(10, Duration.ofSeconds(5)));
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.isAvailable();
        remote.reconciles(charged -> Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail")));
        time.passMillis(1_500);
        int sent = remote.batches().size();
        assertThat(sent).isPositive();
        remote.fails();
        time.passMillis(3_000);
        now(limiter.tryAcquire("b"));
        time.passMillis(1_000);
        remote.isAvailable();
        remote.reconciles(charged -> charged);
        time.pass(Duration.ofSeconds(3));
        assertThat(limiter.state().reconciled()).isEqualTo(1);
        assertThat(remote.batches()).hasSize(sent + 1);
        assertThat(remote.batches().get(sent))
                .singleElement()
                .satisfies(one -> assertThat(one.claim().key()).isEqualTo("b"));
    }

    @Test
    void aFailedReconciliationFreesItsPlaceAndBlocksNoOtherKey() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(2).build();
        RateLimiter limiter = on(store);
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.isAvailable();
        remote.reconciles(charged -> charged.then(Mono.error(new LimitStoreException(Kind.UNANSWERED, "lost"))));
        sendTheReconciliation(limiter);
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.LOCAL);
        assertThat(now(limiter.tryAcquire("b")).source()).isEqualTo(Source.OTHER);
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(2);
    }

    @Test
    void grantsAreReconciledIfTheBreakerThrows() {
        ResilientStore store = throwsWhenTheBreakerOpens(2);
        RateLimiter limiter = on(store);
        int capacity = store.failover().gates().whole().freeCapacity();
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.isAvailable();
        remote.reconciles(charged -> charged.delayElement(Duration.ofMillis(2)));
        time.pass(Duration.ofSeconds(2));
        assertThat(limiter.state().reconciled()).isEqualTo(1);
        assertThat(store.failover().gates().whole().freeCapacity()).isEqualTo(capacity);
    }

    @Test
    void theStoreDoesNotDecideBeforeTheSecondReconciliation() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 4)));
        remote.isAvailable();
        remote.reconciles(charged -> charged.delayElement(Duration.ofMillis(200)));
        while (remote.batches().isEmpty()) {
            time.passMillis(10);
        }
        // The first reconciliation is in flight, so the store may decide; then it fails, and the fallback decides
        // again.
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 6)));
        remote.isAvailable();
        for (int i = 0; i < 60; i++) {
            assertThat(now(limiter.tryAcquire("a")).isAllowed()).isFalse();
            time.passMillis(25);
        }
        assertThat(used("a")).isEqualTo(10);
    }

    @Test
    void theFallbackStaysActiveIfNothingIsToSend() {
        RateLimiter limiter = limiter(LIMIT);
        remote.neverReplies();
        listen(limiter.tryAcquire("hot"));
        time.passMillis(100);
        for (int i = 0; i < 200; i++) {
            listen(limiter.tryAcquire("hot"));
            listen(limiter.tryAcquire("key-" + i));
            time.passMillis(20);
        }
        assertThat(limiter.state().isFallbackActive()).isTrue();
        for (int second = 0; second < 30; second++) {
            time.passMillis(1_000);
            assertThat(limiter.state().isFallbackActive()).isTrue();
        }
        assertThat(limiter.state().problem()).isPresent();
    }
}
