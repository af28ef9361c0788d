package io.github.spillgate.redis.lane;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Lettuce loses the reason of a failed handshake if its caller stands still, as on a busy machine. */
class LaneReasonTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final AtomicInteger attempts = new AtomicInteger();

    @Test
    void aLostReasonIsFoundOutByAnotherAttempt() {
        Throwable error = failure(Lane.MOST_REPETITIONS);
        assertThat(error).hasMessageContaining("NOPERM this user has no permissions to run the 'select' command");
        assertThat(attempts).hasValue(Lane.MOST_REPETITIONS + 1);
    }

    @Test
    void attemptsWithoutAReasonAreBounded() {
        Throwable error = failure(Integer.MAX_VALUE);
        assertThat(error).hasMessageContaining("closed without a reason");
        assertThat(attempts).hasValue(Lane.MOST_REPETITIONS + 1);
    }

    @Test
    void anAttemptWithAReasonIsNotRepeated() {
        assertThat(failure(0)).hasMessageContaining("'select'");
        assertThat(attempts).hasValue(1);
    }

    /** The connection is lost after the handshake, so that the script fails on the thread of the attempt. */
    @Test
    void aConnectionThatIsLostBeforeTheFirstScriptIsReportedAsLost() {
        RedisClient client = RedisClient.create(RedisForTests.first().uri());
        AtomicReference<StatefulRedisConnection<byte[], byte[]>> opened = new AtomicReference<>();
        Lane lane = new Lane(
                () -> {
                    StatefulRedisConnection<byte[], byte[]> connection = client.connect(ByteArrayCodec.INSTANCE);
                    opened.set(connection);
                    return connection;
                },
                commands -> {
                    opened.get().close();
                    return commands.eval("return ''", ScriptOutputType.VALUE, new byte[0][]);
                },
                System::nanoTime,
                OpenConnection.LONGEST_SILENCE,
                open -> {
                    throw new AssertionError("not open");
                });
        assertThat(catchThrowable(() -> lane.opened().block(LONG))).hasMessageContaining("Connection is closed");
        client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
    }

    /** Returns the error of a connection to a server that rejects it, if the first attempts lose the reason. */
    private Throwable failure(int lost) {
        Lane lane = BatchQueueFixture.lane(
                () -> {
                    throw RedisConnectionException.create(
                            "127.0.0.1:6379",
                            attempts.incrementAndGet() <= lost
                                    ? new IllegalStateException("RedisHandshakeHandler not registered")
                                    : new RedisCommandExecutionException(
                                            "NOPERM this user has no permissions to run the 'select' command"));
                },
                System::nanoTime);
        return catchThrowable(() -> lane.opened().block(LONG));
    }
}
