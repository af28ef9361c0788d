package io.github.spillgate.examples.documentation.seeds;

import java.util.HashMap;
import java.util.Map;

/**
 * The sliding window of pg-ratelimit: one row for each key, inserted if missing, locked, read, and written if the
 * request is allowed. The lock makes this atomic, so it is one step here. The time is that of the caller.
 */
final class PgRatelimit {

    private final Map<String, Row> rows = new HashMap<>();
    private final long limit;
    private final long window;

    PgRatelimit(long limit, long window) {
        this.limit = limit;
        this.window = window;
    }

    boolean allows(String key, long rate, long now) {
        Row row = rows.computeIfAbsent(key, any -> new Row(0, 0, now));
        Row seen;
        if (row.start + window > now) {
            seen = row;
        } else if (row.start + 2 * window > now) {
            seen = new Row(0, row.count, row.start + window);
        } else {
            seen = new Row(0, 0, now);
        }
        double weight = 1 - (double) (now - seen.start) / window;
        double effective = seen.previous * weight + seen.count + rate;
        if (effective > limit) {
            return false;
        }
        rows.put(key, new Row(seen.count + rate, seen.previous, seen.start));
        return true;
    }

    private record Row(long count, long previous, long start) {}
}
