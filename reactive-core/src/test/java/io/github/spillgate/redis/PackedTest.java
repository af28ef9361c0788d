package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PackedTest {

    @Test
    void aNumberIsWrittenFromItsLowestByteOn() {
        assertThat(new Packed.Writer(3).put(0x0102fe, 3).toBytes()).containsExactly(0xfe, 0x02, 0x01);
    }

    /** Whether they were expected to be so long or not. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 27, 28, 29, 1_000})
    void whatIsPutTogetherComesBackAsItWas(int likelyLength) {
        Packed.Writer writer = new Packed.Writer(likelyLength);
        for (int size = 1; size <= 7; size++) {
            writer.put((1L << (8 * size)) - size, size);
        }
        assertThat(writer.length()).isEqualTo(28);
        byte[] bytes = writer.toBytes();
        assertThat(bytes).hasSize(28);
        int at = 0;
        for (int size = 1; size <= 7; size++) {
            assertThat(Packed.take(bytes, at, size)).isEqualTo((1L << (8 * size)) - size);
            at += size;
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 5, 6, 7, 100})
    void whatAnotherHasPutTogetherFollows(int likelyLength) {
        Packed.Writer other = new Packed.Writer(100).put(300, 2).put(7, 1);
        assertThat(new Packed.Writer(likelyLength)
                        .put(1, 1)
                        .put(other)
                        .put(0x0302, 2)
                        .toBytes())
                .containsExactly(1, 44, 1, 7, 2, 3);
    }
}
