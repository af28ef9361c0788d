package io.github.spillgate.examples.documentation.seeds;

import java.util.ArrayList;
import java.util.List;

/** The instants of admitted requests, in order. Counts each window by brute force. */
final class Admitted {

    private final List<Long> instants = new ArrayList<>();

    void add(boolean admitted, long at) {
        if (admitted) {
            instants.add(at);
        }
    }

    int total() {
        return instants.size();
    }

    /**
     * Returns the largest number in any window of this length. An instant is rounded down to a millisecond, so two
     * instants one window apart may have been closer: both ends belong to the window.
     */
    int mostIn(long window) {
        int most = 0;
        int first = 0;
        for (int last = 0; last < instants.size(); last++) {
            while (instants.get(last) - instants.get(first) > window) {
                first++;
            }
            most = Math.max(most, last - first + 1);
        }
        return most;
    }
}
