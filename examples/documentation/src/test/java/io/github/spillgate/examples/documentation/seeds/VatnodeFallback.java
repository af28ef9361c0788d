package io.github.spillgate.examples.documentation.seeds;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What decides in an instance of vatnode.dev while Redis does not: the instants of each key in a map, tidied up every
 * five minutes.
 */
final class VatnodeFallback {

    private static final long KEPT = 600_000;

    private final Map<String, List<Long>> store = new HashMap<>();

    boolean allows(String key, long max, Duration window, long now) {
        List<Long> live = new ArrayList<>(store.getOrDefault(key, List.of()));
        live.removeIf(at -> at <= now - window.toMillis());
        if (live.size() >= max) {
            return false;
        }
        live.add(now);
        store.put(key, live);
        return true;
    }

    /** Keeps what is less than ten minutes old, whatever the window. */
    void tidyUp(long now) {
        store.values().forEach(instants -> instants.removeIf(at -> at <= now - KEPT));
        store.values().removeIf(List::isEmpty);
    }

    int keys() {
        return store.size();
    }
}
