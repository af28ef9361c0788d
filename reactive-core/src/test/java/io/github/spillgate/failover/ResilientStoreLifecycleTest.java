package io.github.spillgate.failover;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** When a limiter with a fallback is ready, and its last reconciliation when it is closed. */
class ResilientStoreLifecycleTest extends ResilientStoreFixture {

    @Test
    void closingReconcilesOnceMore() {
        RateLimiter limiter = limiter(LIMIT);
        remote.fails();
        now(limiter.tryAcquire(Charge.of("a", 4)));
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
        remote.failsAfter(Duration.ofMillis(400), new LimitStoreException(Kind.LATE, "too late"));
        listen(limiter.tryAcquire(Charge.of("a", 4)));
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
        now(limiter.tryAcquire(Charge.of("a", 4)));
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

    // Readiness

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
        assertThat(signals).hasSize(1).first().is(kind(Kind.UNREACHABLE));
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
        assertThat(signals).hasSize(1).first().is(kind(Kind.UNAVAILABLE));
    }
}
