package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.spi.Claim;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** A share that changes while decisions are made. */
class LocalFallbackShareTest extends LocalFallbackFixture {

    private static final int ASKED = 100_000;

    @Test
    void aChangingShareNeverGrantsWhatBothSharesDeny() throws Exception {
        RateLimiter limiter = limiter(Limit.perMinute(100));
        Claim claim = claim(limiter, "a").asking(1);
        remember(limiter, "a", 100, WINDOW);
        store.share(0.25);
        assertThat(now(store.take(List.of(claim))).isAllowed()).isFalse();
        store.share(1);
        assertThat(now(store.take(List.of(claim))).isAllowed()).isFalse();
        AtomicBoolean done = new AtomicBoolean();
        Thread changes = new Thread(() -> {
            while (!done.get()) {
                store.share(0.25);
                store.share(1);
            }
        });
        changes.start();
        int allowed = 0;
        try {
            for (int asked = 0; asked < ASKED; asked++) {
                allowed += now(store.take(List.of(claim))).isAllowed() ? 1 : 0;
            }
        } finally {
            done.set(true);
            changes.join();
        }
        assertThat(allowed).as("of %d", ASKED).isZero();
    }
}
