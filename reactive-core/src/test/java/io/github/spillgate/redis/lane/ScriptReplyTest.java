package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.redis.lane.ScriptReply.Status;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/**
 * What is read from the bytes of a reply, which are written by hand, from the header of {@code wire.lua}. The oracles
 * compare the usages in replies.
 */
class ScriptReplyTest {

    private static final long NOW = 1_790_000_000_123L;

    private final ByteBuffer bytes = ByteBuffer.allocate(200).order(ByteOrder.LITTLE_ENDIAN);

    @Test
    void eachUsageHasItsNumberOfGrantsAndItsStatus() {
        time();
        for (int number = 0; number <= 4; number++) {
            usage(0xfffffff0L + number, number);
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
        time().usage(0, 3);
        assertThat(reply().textAfter(1)).isEmpty();
        bytes.put("OOM zu groß".getBytes(StandardCharsets.UTF_8));
        assertThat(reply().textAfter(1)).isEqualTo("OOM zu groß");
        assertThat(reply().textAfter(9)).isEmpty();
    }

    private ScriptReplyTest time() {
        return put(NOW * 1_000 + 999, 7);
    }

    private ScriptReplyTest usage(long granted, int status) {
        return put(granted, 4).put(status, 1).put(0, 2).put(0, 7).put(0, 7).put(0, 7);
    }

    private ScriptReplyTest put(long number, int length) {
        bytes.putLong(bytes.position(), number);
        bytes.position(bytes.position() + length);
        return this;
    }

    private ScriptReply reply() {
        return new ScriptReply(Arrays.copyOf(bytes.array(), bytes.position()));
    }
}
