package io.github.spillgate.examples.benchmark.measure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ZipfTest {

    /** The sum of 1/n for 1,000 keys. */
    private static final double ALL = 7.4855;

    private final List<String> keys =
            IntStream.rangeClosed(1, 1_000).mapToObj(Integer::toString).toList();

    @Test
    void theNthKeyIsUsedInProportionToOneByN() {
        List<String> drawn = Zipf.of(keys);
        for (int n : new int[] {1, 2, 10, 1_000}) {
            double part = (double) Collections.frequency(drawn, Integer.toString(n)) / drawn.size();
            assertThat(part * n * ALL).as("key %d", n).isCloseTo(1, within(0.02));
        }
    }

    @Test
    void theKeysAreMixed() {
        assertThat(new HashSet<>(Zipf.of(keys).subList(0, 1_000))).hasSizeGreaterThan(200);
    }
}
