package io.github.spillgate.examples.benchmark.measure;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** Skewed use of keys: the n-th key is used in proportion to 1/n. */
public final class Zipf {
    // Design notes.
    //
    // A list in which keys are repeated by their part of the use. So drawing from it costs the same as from a list of
    // equally likely keys. Shuffled, because a run-in uses a list in turn.

    private static final int SIZE = 1 << 20;
    private static final long SEED = 7;

    private Zipf() {}

    /** Returns a list with each key as often as it is used. Of several million keys, the last ones would be missing. */
    public static List<String> of(List<String> keys) {
        double all = 0;
        for (int n = 1; n <= keys.size(); n++) {
            all += 1.0 / n;
        }
        List<String> drawn = new ArrayList<>(SIZE);
        double sum = 0;
        for (int n = 1; n <= keys.size(); n++) {
            sum += 1.0 / n;
            while (drawn.size() < SIZE && drawn.size() + 0.5 < sum / all * SIZE) {
                drawn.add(keys.get(n - 1));
            }
        }
        Collections.shuffle(drawn, new Random(SEED));
        return drawn;
    }
}
