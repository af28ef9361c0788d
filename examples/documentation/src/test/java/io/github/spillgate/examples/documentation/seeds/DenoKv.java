package io.github.spillgate.examples.documentation.seeds;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The hourly counter on Deno KV: reads two hours, always adds one to this hour, and drops the request if the estimate
 * had reached the maximum before. Reading and writing are separate steps, as in the original.
 */
final class DenoKv {

    static final long HOUR = 3_600_000;
    static final long MAXIMUM = 50;

    /** Never expires: the original keeps entries for two hours, and reads none later. */
    private final Map<String, Long> entries = new HashMap<>();

    boolean allows(String user, long now) {
        return writes(reads(user, now));
    }

    Seen reads(String user, long now) {
        long hour = now - now % HOUR;
        Long previous = entries.get(key(user, hour - HOUR));
        Long current = entries.get(key(user, hour));
        double weight = (double) (hour - (now - HOUR)) / HOUR;
        double estimate = (current == null ? 0 : current) + (previous == null ? 0 : previous) * weight;
        return new Seen(key(user, hour), current, estimate);
    }

    /** Counts the request, and returns whether it is admitted. */
    boolean writes(Seen seen) {
        if (seen.current == null) {
            entries.put(seen.key, 1L);
        } else {
            entries.merge(seen.key, 1L, Long::sum);
        }
        return Math.floor(seen.estimate) < MAXIMUM;
    }

    long counted(String user, long now) {
        return entries.getOrDefault(key(user, now - now % HOUR), 0L);
    }

    private static String key(String user, long hour) {
        return user + " " + hour;
    }

    /** The counts that a request has read. */
    record Seen(String key, @Nullable Long current, double estimate) {}
}
