package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.JavaProcess;
import io.github.spillgate.testkit.RedisForTests;
import java.io.IOException;
import org.junit.jupiter.api.Test;

/** A client chooses the length of its keys. What an instance keeps of a key does not depend on it. */
class KeyMemoryTest {

    private static final int KEYS = 15_000;
    private static final int LONG = 7_000;

    /** The bytes of a key of {@link #LONG} characters are more than three times as many. */
    private static final long MOST_BYTES = 2_000;

    @Test
    void aLongKeyNeedsNoMoreMemoryInALedger() throws IOException {
        assertThat(bytesForEach(RedisForTests.first().uri().toString(), "1000/1h"))
                .isLessThan(MOST_BYTES);
    }

    @Test
    void aLongKeyNeedsNoMoreMemoryInALease() throws IOException {
        assertThat(bytesForEach(RedisForTests.first().uri().toString(), "1000/1h leased"))
                .isLessThan(2 * MOST_BYTES);
    }

    @Test
    void aLongKeyNeedsNoMoreMemoryInTheLocalStore() throws IOException {
        assertThat(bytesForEach(KeyMemoryProcess.LOCAL, "1000/1h")).isLessThan(MOST_BYTES);
    }

    private static long bytesForEach(String store, String limit) throws IOException {
        try (JavaProcess process = JavaProcess.start(KeyMemoryProcess.class, store, KEYS, LONG, limit, 2)
                .awaitReady()) {
            return Long.parseLong(process.readLine());
        }
    }
}
