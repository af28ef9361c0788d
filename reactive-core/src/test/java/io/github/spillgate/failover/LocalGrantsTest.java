package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import io.github.spillgate.Limit;
import io.github.spillgate.Source;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreUsage;
import io.github.spillgate.testkit.ClaimForTests;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Grants that move to the primary store. */
class LocalGrantsTest {

    @Test
    void whatRefundsAndSettlementsHaveLeftMoves() {
        Reply reply = new Reply(Source.LOCAL, 1_000);
        Claim lower = claim("lower");
        Claim higher = claim("higher");
        Claim refunded = claim("refunded");
        Claim whole = claim("whole");
        StoreDecision granted = StoreDecision.ofTake(
                reply,
                Stream.of(lower, higher, refunded, whole)
                        .map(claim -> StoreUsage.of(reply, claim, 5, false, 1_000, 61_000))
                        .toList());
        granted.permitUse().redeem(Map.of(refunded.handle(), 0L));
        granted.permitUse().redeem(Map.of(lower.handle(), 2L, higher.handle(), 7L, refunded.handle(), 9L));
        assertThat(LocalGrants.move(granted, granted))
                .extracting(Claim::key, Claim::permits)
                .containsExactly(tuple("lower", 2L), tuple("higher", 5L), tuple("whole", 5L));
    }

    @Test
    void nothingMovesFromADecisionThatIsRefunded() {
        Reply reply = new Reply(Source.LOCAL, 1_000);
        Claim claim = claim("a");
        StoreDecision granted = StoreDecision.ofTake(
                reply,
                Stream.of(StoreUsage.of(reply, claim, 5, false, 1_000, 61_000)).toList());
        granted.permitUse().redeem(Map.of(claim.handle(), 0L));
        assertThat(LocalGrants.move(granted, granted)).isEmpty();
    }

    private static Claim claim(String key) {
        return ClaimForTests.of(key, Limit.perMinute(10)).withPermits(5);
    }
}
