package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision.Usage;
import io.github.spillgate.Limit;
import io.github.spillgate.redis.lane.ScriptReply.Status;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.testkit.ClaimForTests;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What is read from the bytes of a reply, which are written by hand, from the header of {@code wire.lua}. */
class ScriptReplyTest {

    private static final long NOW = 1_790_000_000_123L;

    private final ByteBuffer bytes = ByteBuffer.allocate(200).order(ByteOrder.LITTLE_ENDIAN);
    private final Claim log = claim("10/1s", 3);
    private final Claim counter = claim("10/1s counter", 3);
    private final Claim bucket = claim("10/1s burst=8", 3);

    @Test
    void aLogHasItsUsageAndItsTimes() {
        Usage usage = time().usage(2, 0, 6, NOW + 300, NOW + 900).reply().usage(0, log);
        assertThat(usage.used()).isEqualTo(6);
        assertThat(usage.isViolated()).isFalse();
        assertThat(usage.wholeAt()).isEqualTo(Instant.ofEpochMilli(NOW + 900));
    }

    @Test
    void aCounterHasBothWindowsAndTheStart() {
        // A quarter of the window has passed, so three quarters of the eight permits before it count.
        Usage usage = time().usage(1, 0, 8, 3, NOW - 250).reply().usage(0, counter);
        assertThat(usage.used()).isEqualTo(6 + 3);
        assertThat(usage.isViolated()).isFalse();
    }

    /** In units of a permit in 1,000 ms, of which 10 return in a millisecond. */
    @Test
    void aBucketHasItsLevel() {
        ScriptReply reply = time().usage(2, 1, 6_500, 0, 0).reply();
        Usage usage = reply.usage(0, bucket);
        assertThat(usage.used()).isEqualTo(7);
        assertThat(usage.wholeAt()).isEqualTo(Instant.ofEpochMilli(NOW + 650));
        assertThat(reply.usage(0, bucket, true, 1).used()).isEqualTo(4);
        Usage denied = reply.usage(0, bucket, false, 0);
        assertThat(denied.isViolated()).isTrue();
        assertThat(denied.fitsAt()).isEqualTo(Instant.ofEpochMilli(NOW + 150));
    }

    /** The usage in a reply is that after the whole group. */
    @Test
    void anEarlierDecisionOfAGroupHasALowerUsage() {
        ScriptReply reply = time().usage(3, 1, 9, NOW + 300, NOW + 900)
                .usage(3, 1, 0, 9, NOW)
                .reply();
        for (int later = 0; later < 3; later++) {
            assertThat(reply.usage(0, log, true, later).used()).isEqualTo(9 - 3 * later);
            assertThat(reply.usage(1, counter, true, later).used()).isEqualTo(9 - 3 * later);
            assertThat(reply.usage(0, log, true, later).isViolated()).isFalse();
            assertThat(reply.usage(1, counter, true, later).isViolated()).isFalse();
        }
        assertThat(reply.usage(0, log, false, 0).isViolated()).isTrue();
        assertThat(reply.usage(1, counter, false, 0).isViolated()).isTrue();
    }

    @Test
    void eachUsageOfARateHasTheLifeOfItsCount() {
        ScriptReply reply = time().usage(1, 0, 65_535, 6, NOW, NOW + 900)
                .usage(1, 1, 1, 8, 3, NOW - 250)
                .usage(2, 0, 258, 6_500, 0, 0)
                .reply();
        assertThat(reply.usage(0, log).life()).isEqualTo(65_535);
        assertThat(reply.usage(1, counter, false, 0).life()).isEqualTo(1);
        assertThat(reply.usage(2, bucket, true, 1).life()).isEqualTo(258);
    }

    @Test
    void onlyADeniedCountIsViolated() {
        ScriptReply reply = time().usage(0, 0, 6, NOW, NOW + 900).reply();
        assertThat(reply.usage(0, log, false, 0).isViolated()).isFalse();
    }

    @Test
    void eachUsageHasItsNumberOfGrantsAndItsStatus() {
        time();
        for (int number = 0; number <= 4; number++) {
            usage(0xfffffff0L + number, number, 0, 0, 0);
        }
        ScriptReply reply = reply();
        assertThat(IntStream.rangeClosed(0, 4).mapToObj(reply::status))
                .containsExactly(Status.FREE, Status.DENIED, Status.FOREIGN, Status.UNWRITTEN, Status.LATE);
        assertThat(IntStream.rangeClosed(0, 4).mapToObj(reply::granted))
                .containsExactly(0xfffffff0L, 0xfffffff1L, 0xfffffff2L, 0xfffffff3L, 0xfffffff4L);
    }

    @Test
    void theTimeIsInMicroseconds() {
        ScriptReply reply = time().reply();
        assertThat(reply.hasTime()).isTrue();
        assertThat(reply.micros()).isEqualTo(NOW * 1_000 + 999);
        assertThat(reply.time().at()).isEqualTo(NOW);
        assertThat(new ScriptReply(new byte[6]).hasTime()).isFalse();
    }

    @Test
    void theTextBehindTheUsagesIsTheReason() {
        time().usage(0, 3, 0, 0, 0);
        assertThat(reply().textAfter(1)).isEmpty();
        bytes.put("OOM zu groß".getBytes(StandardCharsets.UTF_8));
        assertThat(reply().textAfter(1)).isEqualTo("OOM zu groß");
        assertThat(reply().textAfter(9)).isEmpty();
    }

    private ScriptReplyTest time() {
        return put(NOW * 1_000 + 999, 7);
    }

    private ScriptReplyTest usage(long granted, int status, long first, long second, long third) {
        return usage(granted, status, 0, first, second, third);
    }

    private ScriptReplyTest usage(long granted, int status, int life, long first, long second, long third) {
        return put(granted, 4)
                .put(status, 1)
                .put(life, 2)
                .put(first, 7)
                .put(second, 7)
                .put(third, 7);
    }

    private ScriptReplyTest put(long number, int length) {
        bytes.putLong(bytes.position(), number);
        bytes.position(bytes.position() + length);
        return this;
    }

    private ScriptReply reply() {
        return new ScriptReply(Arrays.copyOf(bytes.array(), bytes.position()));
    }

    private static Claim claim(String limit, long permits) {
        return ClaimForTests.of("a", Limit.parse(limit)).withPermits(permits);
    }
}
