package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.ScriptRequest.Mode;
import io.github.spillgate.redis.ScriptRequest.Refund;
import io.github.spillgate.redis.ScriptRequest.RefundMode;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reconciliation;
import io.github.spillgate.spi.Reconciliation.Grants;
import io.github.spillgate.testkit.DecidedClaims;
import io.github.spillgate.testkit.ManualClock;
import java.io.ByteArrayOutputStream;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The bytes of each request. The expected ones are written by hand, from the headers of the scripts. */
class ScriptRequestTest {

    private static final long MOST_EXACT = 9_007_199_254_740_991L;

    private final ManualClock clock = new ManualClock();
    private final Claim log = claim("a", "300/1s resolution=20ms counting-denied", 7);
    private final Claim counter = claim("b", "100000/24h counter", 5);
    private final Claim aligned = claim("c", "100000/24h counter aligned", 513);

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 24, 1_000})
    void aRequestToDecideHasTheLimitsAndThenTheGroups(int expectedLength) {
        byte[] request = new ScriptRequest(expectedLength)
                .addGroup(Mode.TAKE, 64, 1_790_000_000_123_456L, 2)
                .addClaim(0, log)
                .addClaim(258, counter)
                .addGroup(Mode.PEEK, 1, 0, 1)
                .addClaim(1, aligned)
                .toBytes();
        assertThat(request)
                .isEqualTo(new Bytes()
                        .put(3, 2)
                        .put(1, 1)
                        .put(300, 7)
                        .put(1_000, 6)
                        .put(20, 6)
                        .put(1, 1)
                        .put(2, 1)
                        .put(100_000, 7)
                        .put(86_400_000, 6)
                        .put(1, 6)
                        .put(0, 1)
                        .put(3, 1)
                        .put(100_000, 7)
                        .put(86_400_000, 6)
                        .put(1, 6)
                        .put(0, 1)
                        .put(1, 1)
                        .put(64, 4)
                        .put(1_790_000_000_123_456L, 7)
                        .put(2, 1)
                        .put(1, 2)
                        .put(1, 2)
                        .put(7, 7)
                        .put(259, 2)
                        .put(2, 2)
                        .put(5, 7)
                        .put(0, 1)
                        .put(1, 4)
                        .put(0, 7)
                        .put(1, 1)
                        .put(2, 2)
                        .put(3, 2)
                        .put(513, 7)
                        .all());
    }

    @Test
    void aBucketHasItsBurstInPlaceOfAResolution() {
        byte[] request = new ScriptRequest(0)
                .addGroup(Mode.TAKE, 1, 0, 1)
                .addClaim(0, claim("d", "100/1m burst=20", 4))
                .toBytes();
        assertThat(request)
                .isEqualTo(new Bytes()
                        .put(1, 2)
                        .put(4, 1)
                        .put(100, 7)
                        .put(60_000, 6)
                        .put(20, 6)
                        .put(0, 1)
                        .put(1, 1)
                        .put(1, 4)
                        .put(0, 7)
                        .put(1, 1)
                        .put(1, 2)
                        .put(1, 2)
                        .put(4, 7)
                        .all());
    }

    @Test
    void equalLimitsAreSentOnce() {
        byte[] request = new ScriptRequest(0)
                .addGroup(Mode.TAKE, 1, 0, 2)
                .addClaim(0, counter)
                .addClaim(1, claim("z", "100000/24h counter", 1))
                .toBytes();
        assertThat(request).hasSize(2 + 21 + 13 + 2 * 11).startsWith(1, 0);
    }

    @Test
    void aRefundOfADecisionHasItsTimeAndItsStamp() {
        assertThat(ScriptRequest.refund(
                        RefundMode.DECISION,
                        List.of(
                                new Refund(counter, 1_790_000_000_123L, 1_790_000_000_123_456L, 0),
                                new Refund(log, 1_790_000_000_123L, 1_790_000_000_123_456L, 0))))
                .isEqualTo(new Bytes()
                        .put(2, 2)
                        .put(2, 1)
                        .put(100_000, 7)
                        .put(86_400_000, 6)
                        .put(1, 6)
                        .put(0, 1)
                        .put(1, 1)
                        .put(300, 7)
                        .put(1_000, 6)
                        .put(20, 6)
                        .put(1, 1)
                        .put(1, 1)
                        .put(1, 2)
                        .put(1_790_000_000_123L, 7)
                        .put(5, 7)
                        .put(1_790_000_000_123_456L, 7)
                        .put(0, 7)
                        .put(2, 2)
                        .put(1_790_000_000_123L, 7)
                        .put(7, 7)
                        .put(1_790_000_000_123_456L, 7)
                        .put(0, 7)
                        .all());
    }

    @Test
    void aRefundOfTheOldestPermitsHasNoTime() {
        assertThat(ScriptRequest.refund(RefundMode.OLDEST, List.of(new Refund(counter, 0, 0, 0))))
                .isEqualTo(new Bytes()
                        .put(1, 2)
                        .put(2, 1)
                        .put(100_000, 7)
                        .put(86_400_000, 6)
                        .put(1, 6)
                        .put(0, 1)
                        .put(2, 1)
                        .put(1, 2)
                        .put(0, 7)
                        .put(5, 7)
                        .put(0, 7)
                        .put(0, 7)
                        .all());
    }

    @Test
    void aRefundOfChargedPermitsHasTheStampAndTheEndOfEachCount() {
        assertThat(ScriptRequest.refund(
                        RefundMode.CHARGED,
                        List.of(new Refund(counter, 0, 1_790_000_000_123_456L, 1_790_086_400_123L))))
                .isEqualTo(new Bytes()
                        .put(1, 2)
                        .put(2, 1)
                        .put(100_000, 7)
                        .put(86_400_000, 6)
                        .put(1, 6)
                        .put(0, 1)
                        .put(0, 1)
                        .put(1, 2)
                        .put(0, 7)
                        .put(5, 7)
                        .put(1_790_000_000_123_456L, 7)
                        .put(1_790_086_400_123L, 7)
                        .all());
    }

    @Test
    void aReconciliationHasTheAgesOfItsGrants() {
        long now = clock.millis();
        Reconciliation one = Reconciliation.of(
                "1", aligned, List.of(new Grants(now - 900, now - 800, 3), new Grants(now - 70, now - 60, 258)), clock);
        Reconciliation other = Reconciliation.of("2", aligned, List.of(new Grants(now, now, 1)), clock);
        assertThat(ScriptRequest.reconcile(List.of(one, other)))
                .isEqualTo(new Bytes()
                        .put(1, 2)
                        .put(3, 1)
                        .put(100_000, 7)
                        .put(86_400_000, 6)
                        .put(1, 6)
                        .put(0, 1)
                        .put(1, 2)
                        .put(0, 7)
                        .put(2, 4)
                        .put(900, 7)
                        .put(800, 7)
                        .put(3, 7)
                        .put(70, 7)
                        .put(60, 7)
                        .put(258, 7)
                        .put(1, 2)
                        .put(0, 7)
                        .put(1, 4)
                        .put(0, 7)
                        .put(0, 7)
                        .put(1, 7)
                        .all());
    }

    /** Two windows of the counter; a window, a slot and the lease time of the log. */
    @Test
    void aResetHasItsDeadlineAndTheLivesOfItsMarks() {
        assertThat(ScriptRequest.reset(List.of(counter, log), 1_792_000_000_123_456L))
                .isEqualTo(new Bytes()
                        .put(1_792_000_000_123_456L, 7)
                        .put(2 * 86_400_000L, 7)
                        .put(1_030, 7)
                        .all());
        assertThat(ScriptRequest.reset(List.of(), 0))
                .isEqualTo(new Bytes().put(0, 7).all());
    }

    /** Doubles do not hold all larger integers, and no count is larger. */
    @ParameterizedTest
    @ValueSource(longs = {MOST_EXACT - 1, MOST_EXACT, MOST_EXACT + 1, Long.MAX_VALUE})
    void permitsAreSentUpToTheLargestExactInteger(long permits) {
        byte[] request = ScriptRequest.refund(RefundMode.OLDEST, List.of(new Refund(counter.asking(permits), 0, 0, 0)));
        int cost = request.length - 21;
        assertThat(Arrays.copyOfRange(request, cost, cost + 7))
                .isEqualTo(new Bytes().put(Math.min(permits, MOST_EXACT), 7).all());
    }

    private static Claim claim(String key, String limit, long permits) {
        return RateLimiter.builder("api")
                .store(LocalStore.bounded(16))
                .build()
                .peek(Charge.of(key, Limit.parse(limit)).permits(permits))
                .map(decision -> DecidedClaims.of(decision).get(0))
                .block();
    }

    /** Unsigned numbers of a given length, the lowest byte first. */
    private static final class Bytes {

        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        Bytes put(long number, int length) {
            for (int i = 0; i < length; i++) {
                bytes.write((int) (number >> (8 * i)));
            }
            return this;
        }

        byte[] all() {
            return bytes.toByteArray();
        }
    }
}
