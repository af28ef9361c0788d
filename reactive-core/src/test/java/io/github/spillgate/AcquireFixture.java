package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.testkit.VirtualTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AutoClose;
import reactor.core.Disposable;

/** A limiter with a virtual clock, and callers that wait for its permits. */
abstract class AcquireFixture {

    static final Duration LONG = Duration.ofHours(1);

    @AutoClose
    final VirtualTime time = new VirtualTime();

    final LocalStore store = LocalStore.bounded(100, time);
    final HeldStore held = new HeldStore(store);
    final List<String> served = new ArrayList<>();
    final List<Decision> decisions = new ArrayList<>();

    Disposable waitFor(RateLimiter limiter, String key) {
        return limiter.acquire(key, LONG).subscribe(decision -> note(key, decision));
    }

    Disposable wait(RateLimiter limiter, String name, long permits, Duration longestWait) {
        return limiter.acquire(List.of(Charge.of("a", permits)), longestWait)
                .subscribe(decision -> note(name, decision));
    }

    private void note(String name, Decision decision) {
        if (decision.isAllowed()) {
            served.add(name);
        } else {
            decisions.add(decision);
        }
    }

    void assertOneDenial(Duration retryAfter) {
        assertThat(decisions).extracting(Decision::retryAfter).containsExactly(Optional.of(retryAfter));
    }

    RateLimiter limiter(Limit... limits) {
        return limiter(store, limits);
    }

    RateLimiter heldLimiter(Limit limit) {
        return limiter(held, limit);
    }

    RateLimiter limiter(LimitStore on, Limit... limits) {
        return builder(on, limits).build();
    }

    RateLimiterBuilder builder(LimitStore on, Limit... limits) {
        RateLimiterBuilder builder = RateLimiter.builder("test").store(on).clock(time);
        List.of(limits).forEach(builder::limit);
        return builder;
    }

    List<Claim> claims(RateLimiter limiter, String key, long permits) {
        return CountClaim.of(
                store, limiter.name(), CountClaim.prefixes(limiter.name(), limiter.limits()), Charge.of(key, permits));
    }

    long used(String key) {
        return used(key, Limit.perSecond(5));
    }

    long used(String key, Limit limit) {
        return limiter(limit).peek(key).block().limits().get(0).used();
    }
}
