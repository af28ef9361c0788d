package io.github.spillgate.store;

import io.github.spillgate.Source;
import io.github.spillgate.count.Count;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Reply;
import io.github.spillgate.store.CompareAndWriteStore.Row;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The rows of tasks that depend on each other, at an instant of the store's clock, and what the tasks make of them. */
final class Page {

    private static final byte[] NONE = {};

    /** The separator between the key of a count and the id of a mark, or nothing. Neither contains it. */
    private static final String MARK = "!";

    /** The mark of the last reset, in microseconds. */
    private static final Pattern TIME = Pattern.compile("\\d{1,18}");

    private final Map<String, PageEntry> entries = new LinkedHashMap<>();
    private final Source source;
    private long micros;
    private boolean hasHolds;

    Page(Source source, long micros, List<Row> rows) {
        this.source = source;
        this.micros = micros;
        rows.forEach(row -> entries.put(row.key(), new PageEntry(row)));
    }

    /** Returns the time in microseconds. */
    long micros() {
        return micros;
    }

    /** Returns the time in milliseconds. */
    long millis() {
        return micros / 1_000;
    }

    /** Returns the time as that of a reply, with the microseconds as its stamp. */
    Reply reply() {
        return new Reply(source, millis(), micros);
    }

    /** Lets a microsecond pass, so that the stamps of later decisions are higher. */
    void tick() {
        micros++;
    }

    /** Returns the count of a claim at the present time; null if the value is foreign. */
    @Nullable
    Count count(Claim claim) {
        PageEntry entry = entry(claim.identity());
        hasHolds |= claim.limit().holdsPermits();
        if (entry.count == null) {
            entry.count = Count.read(claim.limit(), entry.value);
        }
        if (entry.count != null) {
            entry.count.advance(claim, millis());
        }
        return entry.count;
    }

    /** Returns whether one of the counts has holders. */
    boolean hasHolds() {
        return hasHolds;
    }

    /** Returns the value of a row; empty if there is none. */
    byte[] value(String key) {
        return entry(key).written(micros);
    }

    /**
     * Sets the value of a row.
     *
     * @param value the value; empty to delete the row
     * @param expiresAt the time until which it is kept, in milliseconds; 0 for as long as before
     */
    void put(String key, byte[] value, long expiresAt) {
        PageEntry entry = entry(key);
        entry.written(micros);
        entry.put(value, expiresAt);
    }

    /** Returns the value of a row as text; empty if there is none. */
    String text(String key) {
        return new String(value(key), StandardCharsets.US_ASCII);
    }

    /** Sets the value of a row, as {@link #put(String, byte[], long)} does. */
    void put(String key, String text, long expiresAt) {
        put(key, text.getBytes(StandardCharsets.US_ASCII), expiresAt);
    }

    void delete(String key) {
        put(key, NONE, 0);
    }

    /** Returns what to write to all rows; empty if no row has changed. */
    List<Write> writes() {
        List<Write> writes = new ArrayList<>(entries.size());
        boolean isAnyChanged = false;
        for (PageEntry entry : entries.values()) {
            byte[] value = entry.written(micros);
            isAnyChanged |= entry.isChanged;
            writes.add(new Write(entry.row.key(), value, entry.row.version(), newVersion(), entry.expiresAt));
        }
        return isAnyChanged ? writes : List.of();
    }

    /** Returns a version that no row has had. */
    static long newVersion() {
        return ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
    }

    // Corrections.

    /** Returns the key of a mark beside a count. */
    static String mark(Claim claim, String id) {
        return claim.identity() + MARK + id;
    }

    /** Returns when a count was reset last, in microseconds; -1 if that is not known. */
    long resetAt(Claim claim) {
        String time = text(mark(claim, ""));
        return TIME.matcher(time).matches() ? Long.parseLong(time) : -1;
    }

    private PageEntry entry(String key) {
        PageEntry entry = entries.get(key);
        if (entry == null) {
            throw new IllegalStateException("row " + key + " was not read");
        }
        return entry;
    }

    private static final class PageEntry {

        private final Row row;
        private byte[] value;
        private long expiresAt;
        private boolean isChanged;
        private @Nullable Count count;

        PageEntry(Row row) {
            this.row = row;
            this.value = row.value();
        }

        /** Returns the value after the changes of the count. */
        byte[] written(long micros) {
            if (count != null && count.isChanged()) {
                put(count.write(micros), count.expiresAt());
            }
            count = null;
            return value;
        }

        void put(byte[] newValue, long newExpiry) {
            value = newValue;
            expiresAt = Math.max(expiresAt, newExpiry);
            isChanged = true;
            count = null;
        }
    }
}
