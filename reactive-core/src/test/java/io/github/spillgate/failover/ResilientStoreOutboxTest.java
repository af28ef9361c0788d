package io.github.spillgate.failover;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.SoftAssertions.assertSoftly;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.ledger.Ledger;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** What must reach the primary store later: each permit once, whatever the store replies. */
class ResilientStoreOutboxTest extends ResilientStoreFixture {

    private static final Limit HOURLY = Limit.perHour(100);

    private static <T> Mono<T> notYet() {
        return Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "not yet"));
    }

    @Test
    void aReplyWithTooFewResultsCountsNothingTwice() {
        ResilientStore store =
                ResilientStore.builder(remote).fallback(local).maxInFlight(10).build();
        RateLimiter limiter = on(store);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 3)));
        now(limiter.tryAcquire(Charge.of("b", 4)));
        remote.isAvailable();
        remote.reconciles(charged -> charged.map(all -> all.subList(0, all.size() - 1)));
        time.pass(Duration.ofSeconds(20));
        assertSoftly(all -> {
            all.assertThat(store.failover().gates().whole().freeCapacity())
                    .as("capacity")
                    .isEqualTo(10);
            all.assertThat(limiter.state().reconciled()).as("reconciled").isLessThanOrEqualTo(7);
            all.assertThat(limiter.state().toReconcile()).as("toReconcile").isNotNegative();
            all.assertThat(limiter.state().lost()).as("lost").isZero();
        });
    }

    /** The ledgers are bounded, and so must be what they have handed over. */
    @Test
    void refusedGrantsOfEvictedCountsAreDropped() {
        LocalFallback small = Fallback.local(16, time);
        RateLimiter limiter = limiterWith(small, HOURLY);
        remote.reconciles(charged ->
                charged.map(all -> Collections.nCopies(all.size(), Corrected.of(CorrectionOutcome.NOT_POSSIBLE))));
        for (int i = 0; i < 300; i++) {
            remote.fails();
            for (int j = 0; j < 5; j++) {
                now(limiter.tryAcquire("key-" + i + "-" + j));
            }
            remote.isAvailable();
            time.pass(Duration.ofSeconds(3));
        }
        time.pass(Duration.ofSeconds(60));
        assertThat(limiter.state().toReconcile()).isLessThanOrEqualTo(100);
    }

    /** The first one is within 20 ms after an attempt, and must not be the only one that counts. */
    @ParameterizedTest
    @ValueSource(ints = {5, 25})
    void alsoALaterRequestEndsThePause(int firstAfterMillis) {
        RateLimiter limiter = limiter(HOURLY);
        remote.fails();
        now(limiter.tryAcquire("a"));
        remote.isAvailable();
        remote.reconciles(charged -> notYet());
        for (int i = 0; i < 40; i++) {
            for (int j = 0; j < 3; j++) {
                now(limiter.tryAcquire("other-" + i + "-" + j));
            }
            time.passMillis(100);
        }
        int before = remote.batches().size();
        while (remote.batches().size() == before) {
            time.passMillis(1);
        }
        remote.reconciles(charged -> charged);
        time.passMillis(firstAfterMillis);
        now(limiter.peek("a"));
        for (int i = 0; i < 5; i++) {
            time.passMillis(30);
            now(limiter.peek("a"));
        }
        time.passMillis(1);
        assertThat(remote.batches()).hasSize(before + 2);
    }

    private void evict(RateLimiter limiter, LocalFallback small, Decision decision) {
        Ledger ledger =
                requireNonNull(small.ledgers().apply(DecidedClaims.of(decision).get(0), false, Function.identity()));
        for (int i = 0; i < 500 && !ledger.isEvicted(); i++) {
            remote.fails();
            now(limiter.tryAcquire("evicting-" + i));
            remote.isAvailable();
            for (int j = 0; j < 3; j++) {
                now(limiter.tryAcquire("good-" + i + "-" + j));
            }
        }
        assertThat(ledger.isEvicted()).isTrue();
    }

    /** As LimitStore.correct promises. */
    @Test
    void aBatchHasACountOnceAlthoughItWasEvicted() {
        LocalFallback small = Fallback.local(16, time);
        RateLimiter limiter = limiterWith(small, HOURLY);
        remote.fails();
        Decision first = now(limiter.tryAcquire(Charge.of("a", 7)));
        remote.isAvailable();
        remote.reconciles(charged -> notYet());
        time.passMillis(1_001);
        assertThat(remote.batches()).hasSize(1);
        evict(limiter, small, first);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 3)));
        remote.isAvailable();
        remote.reconciles(charged -> charged);
        time.pass(Duration.ofSeconds(10));
        assertThat(remote.batches())
                .allSatisfy(batch -> assertThat(batch)
                        .extracting(one -> one.claim().identity())
                        .doesNotHaveDuplicates());
    }

    @Test
    void theEndCountsLostSettlements() {
        ResilientStore store = ResilientStore.builder(remote).fallback(local).build();
        RateLimiter limiter = on(store);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 5)));
        remote.losesReplies(new LimitStoreException(Kind.UNANSWERED, "the connection broke"));
        limiter.settle(decision, 1).subscribe();
        store.close();
        time.pass(Duration.ofSeconds(5));
        assertThat(limiter.state().lostSettlements()).isEqualTo(1);
    }

    /** A reset has removed them: nothing is lost to the store. */
    @Test
    void grantsInFlightThatAResetHasRemovedAreNotLost() {
        RateLimiter limiter = limiter(HOURLY);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 7)));
        remote.isAvailable();
        remote.reconciles(charged -> notYet());
        time.passMillis(1_001);
        assertThat(remote.batches()).hasSize(1);
        limiter.reset("a").subscribe();
        time.pass(Duration.ofSeconds(5));
        assertThat(limiter.state().toReconcile()).isZero();
        assertThat(limiter.state().lost()).isZero();
    }

    /** Nodes that are gone take no place. */
    @Test
    void aNodeThatFailsDelaysNoOtherAfterAThousandNodesAreGone() {
        Map<String, String> nodes = new HashMap<>();
        boolean[] isDown = {false};
        LimitStore store = new WithoutDeadline(remote) {
            @Override
            public String node(List<Claim> claims) {
                return nodes.getOrDefault(claims.get(0).key(), "node");
            }

            @Override
            public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
                boolean fails = isDown[0]
                        && corrections.stream()
                                .anyMatch(one -> one.claim().key().equals("down"));
                return fails ? notYet() : super.correct(corrections);
            }
        };
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .fallback(Fallback.local(10_000, time))
                .limit(HOURLY)
                .build();
        remote.fails();
        for (int i = 0; i < 1_000; i++) {
            nodes.put("key-" + i, "old-" + i);
            now(limiter.tryAcquire("key-" + i));
        }
        remote.isAvailable();
        time.pass(Duration.ofSeconds(60));
        assertThat(limiter.state().reconciled()).isEqualTo(1_000);
        nodes.put("down", "down");
        nodes.put("up", "up");
        isDown[0] = true;
        remote.fails();
        now(limiter.tryAcquire("down"));
        now(limiter.tryAcquire("up"));
        remote.isAvailable();
        time.pass(Duration.ofSeconds(60));
        assertThat(limiter.state().reconciled()).isEqualTo(1_001);
    }
}
