package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Limit;
import io.github.spillgate.redis.ScriptTest;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.StoreRequest.Mode;
import io.github.spillgate.testkit.ClaimForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Requests of one command. */
class ScriptDecisionTest {

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());

    @AfterEach
    void close() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    /** While the limits of a limiter are replaced, requests for one count may have other permits. */
    @ParameterizedTest
    @CsvSource({
        "1/1h, 2/1h",
        "1/1h counter, 2/1h counter",
        "1/1h counter aligned, 2/1h counter aligned",
        "1/1h burst=1, 1/1h burst=2",
        "1 concurrent, 2 concurrent"
    })
    void eachRequestIsDecidedByItsOwnLimit(String small, String large) {
        assertThat(granted(small, small, large, large, small)).containsExactly(1L, 0L, 1L, 0L, 0L);
        assertThat(granted(large, large, small)).containsExactly(1L, 1L, 0L);
    }

    /** Returns how many of these requests for one new count a command grants, each of which costs a permit. */
    private List<Long> granted(String... limits) {
        ScriptRequest request = new ScriptRequest(64);
        for (int i = 0; i < limits.length; i++) {
            Limit limit = Limit.parse(limits[i]);
            Claim claim = ClaimForTests.of("k", limit);
            request.addGroup(Mode.TAKE, 1, 0, 1)
                    .addClaim(0, limit.holdsPermits() ? claim.withHoldId(new UUID(1, i)) : claim);
        }
        RedisCommands<byte[], byte[]> redis =
                client.connect(ByteArrayCodec.INSTANCE).sync();
        byte[] key = ("decision-" + UUID.randomUUID()).getBytes(StandardCharsets.US_ASCII);
        ScriptReply reply = new ScriptReply(
                redis.eval(ScriptTest.decide(), ScriptOutputType.VALUE, new byte[][] {key}, request.toBytes()));
        List<Long> granted = new ArrayList<>();
        for (int i = 0; i < limits.length; i++) {
            granted.add(reply.granted(i));
        }
        return granted;
    }
}
