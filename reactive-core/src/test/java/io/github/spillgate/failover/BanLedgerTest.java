package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.internal.Time;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What an instance knows of bans. */
class BanLedgerTest extends LocalFallbackFixture {

    private static final Duration HOUR = Duration.ofHours(1);

    private final RateLimiter banning = limiter(Limit.ban(HOUR, 3, Duration.ofMinutes(10)), Limit.perMinute(10));
    private final Claim claim = claim(banning, "k");

    /** Confirms a reply of the primary store to a request for one permit; returns whether it may be passed on. */
    private boolean confirm(long banned, int life) {
        long at = clock.millis();
        long end = at + banned * HOUR.toMillis();
        Claim rate = seen.get(seen.size() - 1).get(1);
        return store.confirm(
                StoreDecision.ofTake(
                        reply(at),
                        List.of(
                                new StoreUsage(reply(at), claim, banned, banned > 0, end, end, life, null, false, null),
                                StoreUsage.of(reply(at), rate, 1, false, at, at + WINDOW))),
                Time.nanos());
    }

    private boolean isBanned() {
        return !now(banning.peek("k")).isAllowed();
    }

    /** Before they are handed over as well. */
    @Test
    void aLostBanDeniesUntilItIsRestored() {
        confirm(1, 8);
        clock.advanceMillis(1);
        assertThat(confirm(0, 0)).as("a grant of the store").isFalse();
        assertThat(isBanned()).isTrue();
    }

    @Test
    void aBanIsKeptIfTheStoreRefusesToResetIt() {
        banning.ban("k", HOUR).block();
        store.beginReset(List.of(claim)).accept(false);
        assertThat(isBanned()).isTrue();
        assertThat(store.state().toReconcile()).isEqualTo(1);
        clock.advance(Duration.ofMinutes(59));
        assertThat(isBanned()).isTrue();
        clock.advance(Duration.ofMinutes(1));
        assertThat(isBanned()).isFalse();
    }
}
