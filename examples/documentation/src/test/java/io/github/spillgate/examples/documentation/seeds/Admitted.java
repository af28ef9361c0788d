package io.github.spillgate.examples.documentation.seeds;

import java.util.ArrayList;
import java.util.List;

/** When requests were admitted; what it says of windows it has found by counting in each of them. In order. */
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
     * The most that any window of so long holds. An instant is a whole millisecond that has begun, so two of them that
     * are one window apart may have been less than that: both ends belong to the window.
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
