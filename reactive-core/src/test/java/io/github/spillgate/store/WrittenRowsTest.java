package io.github.spillgate.store;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.store.CompareAndWriteStore.Write;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class WrittenRowsTest {

    private final WrittenRows rows = new WrittenRows();

    @Test
    void atMostEightMegabytesAreRemembered() {
        put(0, 5_000);
        for (int i = 1; i < 10_000; i++) {
            put(i, 5_000);
            assertThat(isKnown(0)).isTrue();
        }
        assertThat(IntStream.range(0, 10_000).filter(this::isKnown).count()).isBetween(1_500L, 1_677L);
        assertThat(isKnown(1)).isFalse();
        assertThat(isKnown(9_999)).isTrue();
    }

    @Test
    void aRowThatIsReplacedOrRemovedNeedsNoSpace() {
        for (int i = 0; i < 10_000; i++) {
            put(7, 5_000);
            put(8, 5_000);
            rows.remove(List.of("8", "9"));
        }
        assertThat(isKnown(7)).isTrue();
        assertThat(isKnown(8)).isFalse();
        put(0, 8_000_000);
        assertThat(isKnown(7)).isTrue();
        put(1, 500_000);
        assertThat(isKnown(7)).isTrue();
        assertThat(isKnown(0)).isFalse();
    }

    private void put(int key, int length) {
        rows.put(List.of(new Write(Integer.toString(key), new byte[length], 0, 1, Long.MAX_VALUE)), 1);
    }

    private boolean isKnown(int key) {
        return rows.find(Integer.toString(key), 2) != null;
    }
}
