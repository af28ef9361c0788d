package io.github.spillgate.examples.documentation.seeds;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The hourly counter on Deno KV: reads two hours, adds one to this hour whatever comes of it, and drops the request if
 * the estimate before it has reached the maximum. Reading and writing are two steps here as they are there.
 */
final class DenoKv {

    static final long HOUR = 3_600_000;
    static final long MAXIMUM = 50;

    /** Entries live for two hours, which is as long as anybody reads them; so here they stay. */
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

    /** Counts the request, and returns whether it is let through. */
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

    /** What a request knows when it has read. */
    record Seen(String key, @Nullable Long current, double estimate) {}
}
