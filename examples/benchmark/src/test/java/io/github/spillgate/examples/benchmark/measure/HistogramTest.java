package io.github.spillgate.examples.benchmark.measure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;

final class HistogramTest {

    @Test
    void everyTimeIsAccurateToOneThirtySecond() {
        for (long nanos = 1; nanos < 1L << 39; nanos += 1 + nanos / 7) {
            Histogram one = new Histogram();
            one.record(nanos);
            assertThat(one.nanosAt(0.5)).isCloseTo((double) nanos, within(1 + nanos / 32.0));
        }
    }

    @Test
    void nanosAtReturnsTheQuantile() {
        Histogram thousand = new Histogram();
        for (int i = 1; i <= 1_000; i++) {
            thousand.record(i * 1_000L);
        }
        assertThat(thousand.nanosAt(0.50)).isCloseTo(500_000, within(500_000 / 32.0));
        assertThat(thousand.nanosAt(0.99)).isCloseTo(990_000, within(990_000 / 32.0));
    }

    @Test
    void timesOutOfRangeAreClamped() {
        Histogram two = new Histogram();
        two.record(-1);
        two.record(Long.MAX_VALUE);
        assertThat(two.nanosAt(0.5)).isLessThan(1);
        assertThat(two.nanosAt(1)).isGreaterThan(1e12);
    }

    @Test
    void addSumsAllCounts() {
        Histogram sum = new Histogram();
        Histogram other = new Histogram();
        sum.record(10);
        other.record(1_000_000);
        sum.add(other);
        assertThat(sum.nanosAt(0.5)).isLessThan(11);
        assertThat(sum.nanosAt(1)).isGreaterThan(900_000);
    }
}
