package io.github.spillgate.examples.benchmark.simulate;

/** Counts the events in the window that ends now. */
final class SlidingCount {

    private final long window;
    private long[] ring = new long[16];
    private int first;
    private int size;

    SlidingCount(long window) {
        this.window = window;
    }

    /** Adds an event now, and returns the number including it. */
    int add(long now) {
        while (size > 0 && now - ring[first] > window) {
            first = (first + 1) % ring.length;
            size--;
        }
        if (size == ring.length) {
            long[] larger = new long[2 * size];
            for (int i = 0; i < size; i++) {
                larger[i] = ring[(first + i) % size];
            }
            ring = larger;
            first = 0;
        }
        ring[(first + size) % ring.length] = now;
        size++;
        return size;
    }
}
