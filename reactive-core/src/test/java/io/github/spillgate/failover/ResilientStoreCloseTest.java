package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.LimitStoreDeadlineException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The last reconciliation when a limiter is closed. */
class ResilientStoreCloseTest extends ResilientStoreFixture {

    @Test
    void closingReconcilesOnceMore() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        now(limiter.tryAcquire("a", 4));
        remote.isAvailable();
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(100);
        assertThat(signals).containsExactly("closed");
        assertThat(used("a")).isEqualTo(4);
    }

    /** As after a stall: the store resumes, and the service stops before the store has replied to what it had read. */
    @Test
    void theLastReconciliationWaitsForUnansweredCalls() {
        RateLimiter limiter = limiter(LIMIT);
        remote.failsAfter(Duration.ofMillis(400), new LimitStoreDeadlineException("too late"));
        listen(limiter.tryAcquire("a", 4));
        time.passMillis(150);
        assertThat(sources()).containsExactly(Source.LOCAL);
        signals.clear();
        remote.isAvailable();
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(200);
        assertThat(signals).isEmpty();
        time.passMillis(100);
        assertThat(signals).containsExactly("closed");
        assertThat(used("a")).isEqualTo(4);
    }

    @Test
    void theLastReconciliationEndsAfterASecond() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        now(limiter.tryAcquire("a", 4));
        remote.neverReplies();
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(999);
        assertThat(signals).isEmpty();
        time.passMillis(1);
        assertThat(signals).containsExactly("closed");
        int before = remote.calls();
        time.pass(Duration.ofMinutes(5));
        assertThat(remote.calls()).as("questions after the end").isEqualTo(before);
    }

    @Test
    void nothingIsSentAfterClosing() {
        RateLimiter limiter = limiter(LIMIT);
        remote.isUnreachable();
        for (int i = 0; i < 900; i++) {
            now(limiter.tryAcquire("key-" + i));
        }
        remote.isAvailable();
        remote.reconciles(charged -> charged.delayElement(Duration.ofMillis(100)));
        time.passMillis(2_500);
        listen(limiter.closeLater().thenReturn("closed"));
        time.passMillis(1_000);
        assertThat(signals).containsExactly("closed");
        int batches = remote.batches().size();
        time.pass(Duration.ofSeconds(10));
        assertThat(remote.batches()).hasSize(batches);
    }

    @Test
    void closingTwiceHasNoFurtherEffect() {
        RateLimiter limiter = limiter(LIMIT);
        limiter.close();
        listen(limiter.closeLater().thenReturn("closed"));
        time.pass(Duration.ofSeconds(1));
        assertThat(signals).containsExactly("closed");
    }
}
