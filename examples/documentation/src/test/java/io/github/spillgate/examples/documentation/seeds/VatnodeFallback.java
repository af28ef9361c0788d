package io.github.spillgate.examples.documentation.seeds;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The fallback of vatnode.dev during an outage of Redis: the instants of each key in a map, cleaned up every five
 * minutes.
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

    /** Removes instants older than ten minutes, whatever the window. */
    void tidyUp(long now) {
        store.values().forEach(instants -> instants.removeIf(at -> at <= now - KEPT));
        store.values().removeIf(List::isEmpty);
    }

    int keys() {
        return store.size();
    }
}
