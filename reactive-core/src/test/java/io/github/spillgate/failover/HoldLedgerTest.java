package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;

/** What an instance counts as its own holds when replies of the primary store are late. */
class HoldLedgerTest {

    private final VirtualTime time = new VirtualTime();
    private final LateStore store = new LateStore(LocalStore.bounded(100, time));
    private final RateLimiter limiter = RateLimiter.builder("test")
            .store(store)
            .fallback(Fallback.local(100, time))
            .limit(Limit.concurrent(2).hold(Duration.ofMinutes(10)))
            .build();

    @AfterEach
    void restoreRealTime() {
        time.close();
    }

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

    private void assertThatTheFallbackGrantsBoth() {
        List<Decision> decisions = new ArrayList<>();
        limiter.tryAcquire("a", 2).subscribe(decisions::add);
        time.passMillis(150);
        assertThat(decisions).singleElement().satisfies(decision -> {
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
            assertThat(decision.isAllowed()).isTrue();
        });
    }

    /** Executes at once, and replies after the deadline. */
    private static final class LateStore extends Unprotected {

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

        @Override
        public Optional<Duration> deadline() {
            return Optional.empty();
        }
    }
}
