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

    private final UnansweredCalls doubts = new UnansweredCalls();

    @Test
    void aCountIsInDoubtUntilTheLastQuestionThatIsOpenOnItHasEnded() {
        List<Claim> a = claims("a");
        List<Claim> both = claims("a", "b");
        doubts.begin(a);
        assertThat(isOn("a")).isTrue();
        assertThat(isOn("b")).isFalse();
        doubts.begin(both);
        doubts.begin(a);
        doubts.end(a);
        doubts.end(both);
        assertThat(isOn("a")).as("one of three is open").isTrue();
        assertThat(isOn("b")).isFalse();
        doubts.end(a);
        assertThat(isOn("a")).isFalse();
        assertThat(doubts.size()).isZero();
    }

    private boolean isOn(String key) {
        return doubts.on(claims(key).get(0).identity());
    }

    private static List<Claim> claims(String... keys) {
        List<Charge> charges = List.of(keys).stream().map(Charge::of).toList();
        return DecidedClaims.of(LIMITER.peek(charges).block());
    }
}
