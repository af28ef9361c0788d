package io.github.spillgate.store;

import io.github.spillgate.internal.StoreClock;
import io.github.spillgate.internal.Time;
import io.github.spillgate.store.CompareAndWriteStore.Row;
import io.github.spillgate.store.CompareAndWriteStore.Write;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The rows that this process wrote last, and the store's clock, so that a row is not read before each write.
 * Thread-safe.
 */
final class WrittenRows {
    // Design notes.
    //
    // Another process may have changed a row since. Then the row has another version, and a write that was computed on
    // the remembered row is not made. So such a row may decide only together with a write. What would write nothing,
    // such as a denial, is computed again on the row that is read.
    //
    // The time of such a decision is a lower bound of the store's clock, from the times in its replies. The row is read
    // if that is not after the last decision on it: what is refunded or reset depends on their order.

    private static final long MOST_BYTES = 8 << 20;
    private static final long BYTES_OF_ENTRY = 160;

    // Guarded by this.
    private final Map<String, WrittenRow> rows = new LinkedHashMap<>(16, 0.75f, true);
    private long bytes;

    private final StoreClock clock = new StoreClock(Time::nanos);
    private volatile LongSupplier micros = () -> clock.microsAt(Time.nanos());

    /** Replaces the bound of the store's clock, for a test that sets that clock. */
    void useClock(LongSupplier bound) {
        micros = bound;
    }

    /** Returns a lower bound of the store's clock, in microseconds; 0 if none is known. */
    long micros() {
        return micros.getAsLong();
    }

    /** Notes the store's clock in a reply that arrives now. */
    void noteClock(long micros) {
        clock.record(micros);
    }

    /**
     * Returns the row that a key has, unless another process has changed it; null if that is not known.
     *
     * @param micros the time of a decision on it
     */
    @Nullable
    synchronized Row find(String key, long micros) {
        WrittenRow last = rows.get(key);
        return last == null || last.micros >= micros || last.write.expiresAt() <= micros / 1_000
                ? null
                : new Row(key, last.write.value(), last.write.nextVersion());
    }

    /**
     * Remembers rows that were written, and forgets the least recently used ones that do not fit any more.
     *
     * @param micros the time of their last decision
     */
    synchronized void put(Collection<Write> writes, long micros) {
        for (Write write : writes) {
            WrittenRow row = new WrittenRow(write, micros);
            bytes += row.bytes() - bytes(rows.put(write.key(), row));
        }
        for (Iterator<WrittenRow> oldest = rows.values().iterator(); bytes > MOST_BYTES; oldest.remove()) {
            bytes -= bytes(oldest.next());
        }
    }

    synchronized void remove(Collection<String> keys) {
        keys.forEach(key -> bytes -= bytes(rows.remove(key)));
    }

    private static long bytes(@Nullable WrittenRow row) {
        return row == null ? 0 : row.bytes();
    }

    /**
     * A row as it was written.
     *
     * @param micros the time of its last decision
     */
    private record WrittenRow(Write write, long micros) {

        private long bytes() {
            return BYTES_OF_ENTRY + write.key().length() + write.value().length;
        }
    }
}
