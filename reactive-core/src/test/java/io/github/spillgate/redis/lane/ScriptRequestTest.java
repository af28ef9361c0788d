package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.redis.lane.ScriptRequest.RefundMode;
import io.github.spillgate.redis.lane.ScriptRequest.SentRefund;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreRequest.Mode;
import io.github.spillgate.testkit.ClaimForTests;
import java.io.ByteArrayOutputStream;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The bytes of requests. The expected ones are written by hand, from the headers of the scripts. */
class ScriptRequestTest {

    private static final long DAY = 86_400_000;
    private static final long MOST_EXACT = 9_007_199_254_740_991L;

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
                        .limit(1, 300, 1_000, 20, 1)
                        .limit(2, 100_000, DAY, 1, 0)
                        .limit(3, 100_000, DAY, 1, 0)
                        .group(1, 64, 1_790_000_000_123_456L, 2)
                        .claim(1, 1, 7)
                        .claim(259, 2, 5)
                        .group(0, 1, 0, 1)
                        .claim(2, 3, 513)
                        .all());
    }

    @Test
    void equalLimitsAreSentOnce() {
        byte[] request = new ScriptRequest(0)
                .addGroup(Mode.TAKE, 1, 0, 2)
                .addClaim(0, counter)
                .addClaim(1, claim("z", "100000/24h counter", 1))
                .toBytes();
        assertThat(request).hasSize(2 + 27 + 13 + 2 * 11).startsWith(1, 0);
    }

    /** Doubles do not hold all larger integers, and no count is larger. */
    @ParameterizedTest
    @ValueSource(longs = {MOST_EXACT - 1, MOST_EXACT, MOST_EXACT + 1, Long.MAX_VALUE})
    void permitsAreSentUpToTheLargestExactInteger(long permits) {
        byte[] request =
                ScriptRequest.refund(RefundMode.OLDEST, List.of(new SentRefund(counter.withPermits(permits), 0, 0, 0)));
        int cost = request.length - 16;
        assertThat(Arrays.copyOfRange(request, cost, cost + 7))
                .isEqualTo(new Bytes().put(Math.min(permits, MOST_EXACT), 7).all());
    }

    private static Claim claim(String key, String limit, long permits) {
        return ClaimForTests.of(key, Limit.parse(limit)).withPermits(permits);
    }

    /** Unsigned numbers of a given length, the lowest byte first. */
    private static final class Bytes {

        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        Bytes limit(int kind, long permits, long window, long resolution, int flags) {
            return put(kind, 1)
                    .put(permits, 7)
                    .put(window, 6)
                    .put(resolution, 6)
                    .put(flags, 1)
                    .put(0, 6);
        }

        Bytes group(int mode, int times, long deadline, int claims) {
            return put(mode, 1).put(times, 4).put(deadline, 7).put(claims, 1);
        }

        Bytes claim(int key, int limit, long cost) {
            return put(key, 2).put(limit, 2).put(cost, 7);
        }

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
