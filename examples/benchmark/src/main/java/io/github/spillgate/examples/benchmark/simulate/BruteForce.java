package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import java.util.Arrays;

/**
 * What a log has to be equal to: every hit is kept for ever, and for every request those that are not older than a
 * window are counted anew. A hit that is just one window old still counts: by a clock of whole milliseconds it may be
 * younger.
 */
final class BruteForce implements Admission {

    private final long window;
    private final long permits;
    private long[] hits = new long[16];
    private int size;

    BruteForce(Limit limit) {
        window = limit.window().toMillis();
        permits = limit.permits();
    }

    @Override
    public boolean admits(long now) {
        long within = 0;
        for (int i = size - 1; i >= 0 && now - hits[i] <= window; i--) {
            within++;
        }
        if (within >= permits) {
            return false;
        }
        if (size == hits.length) {
            hits = Arrays.copyOf(hits, 2 * size);
        }
        hits[size++] = now;
        return true;
    }
}
