package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.RateLimiter;
import io.github.spillgate.StoreState.Breaker;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** A class or method that is missing at run time, noticed on another thread after a refund or reset was sent. */
class ResilientStoreLinkageErrorTest extends ResilientStoreFixture {

    private final RateLimiter limiter =
            on(ResilientStore.builder(remote).fallback(local).build());

    @Test
    void aLateLinkageErrorOfARefundFallsBackAndOpensTheBreaker() {
        now(limiter.tryAcquire("a"));
        assertFallsBack(limiter.refund("a", 1));
    }

    @Test
    void aLateLinkageErrorOfAResetFallsBackAndOpensTheBreaker() {
        now(limiter.tryAcquire("a"));
        assertFallsBack(limiter.reset("a"));
    }

    private void assertFallsBack(Mono<Void> change) {
        List<Object> ends = new ArrayList<>();
        remote.holdsReplies();
        change.subscribe(nothing -> {}, ends::add, () -> ends.add("done"));
        time.passMillis(20);
        remote.failAllHeld(new NoSuchMethodError("missing"));
        assertThat(ends).containsExactly("done");
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.OPEN);
    }
}
