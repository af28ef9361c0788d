package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.Limit;
import java.util.Arrays;

/**
 * The reference for a log: keeps every hit, and for each request counts those that are not older than a window. A hit
 * exactly one window old still counts, because in whole milliseconds it may be younger.
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
