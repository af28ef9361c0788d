package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.DecidedClaims;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How long a count is in doubt. */
class UnansweredCallsTest {

    private static final RateLimiter LIMITER = RateLimiter.builder("api")
            .store(LocalStore.bounded(16))
            .limit(Limit.perMinute(10))
            .build();

    private final UnansweredCalls calls = new UnansweredCalls();

    @Test
    void aCountIsInDoubtUntilItsLastUnansweredCallEnds() {
        List<Claim> a = claims("a");
        List<Claim> both = claims("a", "b");
        calls.begin(a);
        assertThat(isInDoubt("a")).isTrue();
        assertThat(isInDoubt("b")).isFalse();
        calls.begin(both);
        calls.begin(a);
        calls.end(a);
        calls.end(both);
        assertThat(isInDoubt("a")).as("one of three is open").isTrue();
        assertThat(isInDoubt("b")).isFalse();
        calls.end(a);
        assertThat(isInDoubt("a")).isFalse();
        assertThat(calls.size()).isZero();
    }

    private boolean isInDoubt(String key) {
        return calls.on(claims(key).get(0).identity());
    }

    private static List<Claim> claims(String... keys) {
        List<Charge> charges = List.of(keys).stream().map(Charge::of).toList();
        return DecidedClaims.of(LIMITER.peek(charges).block());
    }
}
