package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreUnavailableException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** When a limiter with a fallback is ready. */
class ResilientStoreReadyTest extends ResilientStoreFixture {

    @Test
    void aStoreThatDecidesIsReadyAtOnce() {
        RateLimiter limiter = limiter(LIMIT);
        listen(limiter.ready().thenReturn("ready"));
        assertThat(signals).containsExactly("ready");
    }

    /** As if Redis had started right after the first attempt to connect. */
    @Test
    void aStoreIsReadyWhenItDecidesAgain() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        remote.isAvailable();
        listen(limiter.ready().thenReturn("ready"));
        assertThat(signals).isEmpty();
        for (int millis = 0; millis < 2_000 && signals.isEmpty(); millis++) {
            time.passMillis(1);
        }
        assertThat(signals).containsExactly("ready");
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void aStoreWithAFallbackThatAllowsIsReadyWhenItDecidesAgain() {
        RateLimiter limiter = limiterWith(Fallback.allow());
        open(limiter);
        remote.isAvailable();
        listen(limiter.ready().thenReturn("ready"));
        assertThat(signals).isEmpty();
        time.pass(Duration.ofSeconds(2));
        assertThat(signals).containsExactly("ready");
        assertThat(now(limiter.tryAcquire("a")).source()).isEqualTo(Source.OTHER);
    }

    @Test
    void aStoreThatDoesNotDecideIsNotReady() {
        RateLimiter limiter = limiter(LIMIT);
        open(limiter);
        listen(limiter.ready().thenReturn("ready"));
        time.pass(Duration.ofSeconds(5));
        assertThat(signals).hasSize(1).first().isInstanceOf(LimitStoreUnavailableException.class);
        assertThat(signals.get(0).toString()).contains("nothing listens there");
    }

    /** Each attempt waits for the deadline. */
    @Test
    void aStoreThatDoesNotReplyIsNotReady() {
        RateLimiter limiter = limiter(LIMIT);
        remote.neverReplies();
        listen(limiter.ready().thenReturn("ready"));
        time.passMillis(2_999);
        assertThat(signals).isEmpty();
        time.passMillis(2);
        assertThat(signals).hasSize(1).first().isInstanceOf(LimitStoreUnavailableException.class);
    }
}
