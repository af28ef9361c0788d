package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.testkit.Unprotected;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A fallback of the application's own, and a local fallback without a primary store. */
class ResilientStoreCustomFallbackTest extends ResilientStoreFixture {

    @ParameterizedTest
    @ValueSource(strings = {"10/1m", "10/1m counter"})
    void aRefundOfAPrimaryGrantFreesNoPermitsOfACustomFallback(String text) {
        RateLimiter limiter = RateLimiter.builder("api")
                .store(remote)
                .fallback(new Unprotected(LocalStore.bounded(1_000, time)))
                .limit(Limit.parse(text))
                .build();
        Decision byPrimary = now(limiter.tryAcquire(Charge.of("a").permits(5)));
        assertThat(byPrimary.source()).isEqualTo(Source.OTHER);
        open(limiter);
        int granted = granted(limiter);
        limiter.refund(byPrimary).subscribe();
        assertThat(granted + granted(limiter)).isEqualTo(10);
    }

    private int granted(RateLimiter limiter) {
        int granted = 0;
        for (int i = 0; i < 20; i++) {
            Decision decision = now(limiter.tryAcquire("a"));
            assertThat(decision.source()).isEqualTo(Source.LOCAL);
            granted += decision.isAllowed() ? 1 : 0;
        }
        return granted;
    }

    @Test
    void theStateContainsTheNumbersOfACustomFallback() {
        ResilientStore store = ResilientStore.builder(remote)
                .fallback(new Unprotected(LocalStore.bounded(1_000, time)) {
                    @Override
                    public StoreState state() {
                        return new StoreState(Source.LOCAL, StoreState.Breaker.NONE, false, null, 0, 0, 7, 3, 2, 0);
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
}
