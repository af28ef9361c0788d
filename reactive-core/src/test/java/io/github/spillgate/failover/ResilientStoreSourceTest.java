package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.WithoutDeadline;
import java.util.List;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** Stores and fallbacks with decisions of the same source: each decision belongs to the store that has made it. */
class ResilientStoreSourceTest extends ResilientStoreFixture {

    /** A primary store that decides in this process, and states no deadline. */
    private final LimitStore inProcess = new WithoutDeadline(LocalStore.bounded(1_000, time));

    private final RateLimiter counted = on(new Unprotected(inProcess));

    @Test
    void aPrimaryStoreInThisProcessIsReady() {
        listen(limiterOn(inProcess, local).ready().thenReturn("ready"));
        assertThat(signals).containsExactly("ready");
    }

    @Test
    void aPrimaryStoreInThisProcessRefundsItsDecisions() {
        RateLimiter limiter = limiterOn(inProcess, local);
        Decision decision = now(limiter.tryAcquire(Charge.of("a", 3)));
        assertThat(decision.source()).isEqualTo(Source.LOCAL);
        assertThat(usedIn(counted)).isEqualTo(3);
        listen(limiter.refund(decision));
        assertThat(usedIn(counted)).isZero();
        Decision settled = now(limiter.tryAcquire(Charge.of("a", 3)));
        listen(limiter.settle(settled, 1));
        assertThat(usedIn(counted)).isEqualTo(1);
    }

    /** Otherwise the fallback would return permits of its own grants, and grant too many. */
    @Test
    void aFallbackRefundsNoDecisionOfThePrimaryStore() {
        LimitStore other = new Unprotected(LocalStore.bounded(1_000, time));
        boolean[] isDown = new boolean[1];
        RateLimiter limiter = limiterOn(failing(inProcess, isDown), other);
        Decision byPrimary = now(limiter.tryAcquire(Charge.of("a", 3)));
        isDown[0] = true;
        Decision byFallback = now(limiter.tryAcquire(Charge.of("a", 3)));
        assertThat(byFallback.source()).isEqualTo(byPrimary.source());
        assertThat(usedIn(on(other))).isEqualTo(3);
        listen(limiter.refund(byPrimary));
        assertThat(usedIn(on(other))).isEqualTo(3);
        listen(limiter.refund(byFallback));
        assertThat(usedIn(on(other))).isZero();
        assertThat(usedIn(counted)).isEqualTo(3);
    }

    /** Each of the two stores knows its own decisions. */
    @Test
    void aFallbackMayHaveAFallback() {
        boolean[] isDown = new boolean[1];
        ResilientStore inner = ResilientStore.builder(failing(inProcess, isDown))
                .fallback(local)
                .build();
        remote.isUnreachable();
        RateLimiter limiter = limiterOn(remote, inner);
        Decision byInner = now(limiter.tryAcquire(Charge.of("a", 3)));
        assertThat(usedIn(counted)).isEqualTo(3);
        listen(limiter.refund(byInner));
        assertThat(usedIn(counted)).isZero();
        isDown[0] = true;
        Decision byInnermost = now(limiter.tryAcquire(Charge.of("a", 4)));
        assertThat(usedIn(limiter)).isEqualTo(4);
        listen(limiter.refund(byInnermost));
        assertThat(usedIn(limiter)).isZero();
        assertThat(List.of(byInner, byInnermost))
                .extracting(one -> ((StoreDecision) one).fallbacks())
                .containsExactly(1, 2);
    }

    private static LimitStore failing(LimitStore store, boolean[] isDown) {
        return WithoutDeadline.taking(
                store,
                claims -> isDown[0]
                        ? Mono.error(new LimitStoreException(Kind.UNREACHABLE, "told to fail"))
                        : store.take(StoreRequest.take(claims)));
    }

    private static long usedIn(RateLimiter limiter) {
        return now(limiter.peek("a")).limits().get(0).used();
    }
}
