package io.github.spillgate.resilience;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Claim;
import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import java.util.List;
import org.junit.jupiter.api.Test;

class ResetsTest {

    private final RateLimiter limiter = RateLimiter.builder("api")
            .store(LocalStore.bounded(100))
            .limit(Limit.perHour(10))
            .build();
    private final Resets resets = new Resets();

    @Test
    void whoAskedBeforeAResetIsTold() {
        long before = Deadlines.now();
        resets.note(claims("a"));
        assertThat(resets.isAnySince(claims("a"), before)).isTrue();
        assertThat(resets.isAnySince(claims("b"), before)).isFalse();
        assertThat(resets.isAnySince(claims("a"), Deadlines.now() + 1)).isFalse();
    }

    @Test
    void thereIsABoundAndWhatIsForgottenMayHaveBeen() {
        long first = Deadlines.now();
        int most = 0;
        long last = first;
        for (int i = 0; i < 150_000; i++) {
            last = i == 140_000 ? Deadlines.now() : last;
            resets.note(claims("user:" + i));
            most = Math.max(most, resets.size());
        }
        assertThat(most).isBetween(50_000, 100_000);
        assertThat(resets.isAnySince(claims("never reset"), first)).isTrue();
        assertThat(resets.isAnySince(claims("never reset"), last)).isFalse();
        assertThat(resets.isAnySince(claims("user:140000"), last)).isTrue();
    }

    private List<Claim> claims(String key) {
        return limiter.peek(key).block().limits().stream().map(Usage::claim).toList();
    }
}
