package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Corrected.CorrectionOutcome;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.github.spillgate.testkit.WithoutDeadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** What an instance counts as its own holds when replies of the primary store are late. */
class HoldLedgerTest {

    @AutoClose
    private final VirtualTime time = new VirtualTime();

    private final LateStore store = new LateStore(LocalStore.bounded(100, time));
    private final RateLimiter limiter = RateLimiter.builder("test")
            .store(store)
            .fallback(Fallback.local(100, time))
            .limit(Limit.concurrent(2).hold(Duration.ofMinutes(10)))
            .build();

    @Test
    void aLateGrantOfWorkThatHasEndedIsNotHeld() {
        limiter.whileHolding("a", Mono.just("done")).subscribe();
        time.passMillis(1_000);
        assertThatTheFallbackGrantsBoth();
    }

    @Test
    void aLateRenewalOfWorkThatHasEndedIsNotHeld() {
        store.isLate = false;
        Disposable work = limiter.whileHolding("a", Mono.never()).subscribe();
        store.isLate = true;
        // The renewal begins after a third of the hold time. The fallback answers it at the deadline.
        time.passMillis(200_150);
        work.dispose();
        time.passMillis(1_000);
        assertThatTheFallbackGrantsBoth();
    }

    /** Another request was granted here, and Redis has been told of it, before the reply arrives. */
    @ParameterizedTest
    @ValueSource(longs = {1, 800})
    void aReplyThatIsOlderThanAReconciliationIsCheckedAgainstIt(long reconciliationTakes) {
        HeldStore held = new HeldStore(LocalStore.bounded(100, time));
        RateLimiter one = RateLimiter.builder("test")
                .store(held)
                .fallback(Fallback.local(100, time))
                .deadline(Duration.ofSeconds(30))
                .limit(Limit.concurrent(1))
                .build();
        held.reconciliationTakes = Duration.ofMillis(reconciliationTakes);
        List<Decision> decisions = new ArrayList<>();
        one.tryAcquire("a").subscribe(decisions::add);
        held.isDown = true;
        one.tryAcquire("a").subscribe(decisions::add);
        held.isDown = false;
        assertThat(decisions).extracting(Decision::source).containsExactly(Source.LOCAL);
        assertThat(decisions).allMatch(Decision::isAllowed);
        time.passMillis(1_500);
        held.reply.tryEmitEmpty();
        time.passMillis(5_000);
        assertThat(one.state().toReconcile()).isZero();
        assertThat(decisions).extracting(Decision::isAllowed).containsExactly(true, false);

        one.release(decisions.get(0)).subscribe();
        time.passMillis(1_000);
        one.tryAcquire("a").subscribe(decisions::add);
        assertThat(decisions).extracting(Decision::isAllowed).containsExactly(true, false, true);
    }

    /** The reply is recorded for one limit after the other, and the fallback may decide in between. */
    @Test
    void aGrantOfSeveralLimitsIsHeldFromItsReplyOn() {
        RateLimiter both = RateLimiter.builder("test")
                .store(new Unprotected(LocalStore.bounded(100, time)))
                .limit(Limit.concurrent(1))
                .limit(Limit.perHour(5))
                .build();
        LocalFallback fallback = Fallback.local(100, time);
        StoreDecision reply = (StoreDecision) both.tryAcquire("a").block();
        StoreUsage holds = reply.usages().get(0);
        boolean fit =
                fallback.ledgers().apply(holds.claim(), true, ledger -> ledger.confirm(holds, reply.isCharged(), 0));
        assertThat(fit).isTrue();
        Claim other = holds.claim().withHoldId(new UUID(0, 2));
        assertThat(fallback.take(StoreRequest.take(List.of(other))).block().isAllowed())
                .isFalse();
        fallback.releaseHolds(List.of(holds.claim()));
        assertThat(fallback.take(StoreRequest.take(List.of(other))).block().isAllowed())
                .isTrue();
    }

    private void assertThatTheFallbackGrantsBoth() {
        List<Decision> decisions = new ArrayList<>();
        limiter.tryAcquire(Charge.of("a", 2)).subscribe(decisions::add);
        time.passMillis(150);
        assertThat(decisions).singleElement().satisfies(decision -> {
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
            assertThat(decision.isAllowed()).isTrue();
        });
    }

    /** Executes at once, and replies after the deadline. */
    private static final class LateStore extends WithoutDeadline {

        private boolean isLate = true;

        LateStore(LocalStore store) {
            super(store);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            return late(super.take(claims));
        }

        @Override
        public Mono<List<HoldRenewal>> renew(List<Claim> holds) {
            return late(super.renew(holds));
        }

        private <T> Mono<T> late(Mono<T> reply) {
            return isLate ? reply.delayElement(Duration.ofMillis(300)) : reply;
        }
    }

    /** Executes at once. Holds the first reply back, and is down for some requests. */
    private static final class HeldStore extends WithoutDeadline {

        private final Sinks.Empty<Void> reply = Sinks.empty();
        private boolean isDown;
        private boolean hasReplied;
        private Duration reconciliationTakes = Duration.ZERO;

        HeldStore(LocalStore store) {
            super(store);
        }

        @Override
        public Mono<StoreDecision> take(List<Claim> claims) {
            if (isDown) {
                return Mono.error(new LimitStoreException(Kind.UNAVAILABLE, "told to fail"));
            }
            Mono<StoreDecision> made = super.take(claims).cache();
            made.subscribe();
            boolean isFirst = !hasReplied;
            hasReplied = true;
            return isFirst ? reply.asMono().then(made) : made;
        }

        @Override
        public Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
            List<Claim> holds = ((Reconciliation) corrections.get(0)).holds();
            return renew(holds)
                    .thenReturn(List.of(Corrected.of(CorrectionOutcome.APPLIED)))
                    .delayElement(reconciliationTakes);
        }
    }
}
