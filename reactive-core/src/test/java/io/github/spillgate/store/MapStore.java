package io.github.spillgate.store;

import java.time.Instant;
import java.time.InstantSource;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import reactor.core.publisher.Mono;

/** The example of docs/own-store.md. Several of them may share a map, as processes share a database. */
public class MapStore extends CompareAndWriteStore {

    /** The longest time from a read to its write, in milliseconds. */
    private static final long LONGEST = 60_000;

    private final Map<String, Stored> rows;
    private final InstantSource clock;

    public MapStore(Map<String, Stored> rows, InstantSource clock) {
        this.rows = rows;
        this.clock = clock;
    }

    @Override
    protected Mono<Rows> read(List<String> keys) {
        return Mono.fromSupplier(() -> rows(keys));
    }

    @Override
    protected Mono<Rows> write(List<Change> changes) {
        return Mono.fromSupplier(() -> rows(changes.stream()
                .filter(change -> !write(change))
                .flatMap(change -> change.writes().stream().map(Write::key))
                .toList()));
    }

    private boolean write(Change change) {
        synchronized (rows) {
            boolean isExpected =
                    change.writes().stream().allMatch(one -> row(one.key()).version() == one.version());
            if (!isExpected || micros() > change.deadline()) {
                return false;
            }
            change.writes().forEach(this::put);
            return true;
        }
    }

    private void put(Write one) {
        Stored before = rows.get(one.key());
        long expiresAt = before == null ? one.expiresAt() : Math.max(before.expiresAt, one.expiresAt());
        if (one.value().length == 0) {
            rows.remove(one.key());
        } else {
            rows.put(one.key(), new Stored(one.value(), one.nextVersion(), expiresAt));
        }
    }

    private Rows rows(List<String> keys) {
        List<Row> read = keys.stream().map(this::row).toList();
        return new Rows(micros(), read);
    }

    private Row row(String key) {
        Stored stored = rows.get(key);
        boolean isGone = stored == null || stored.expiresAt <= micros() / 1_000;
        return new Row(key, isGone ? new byte[0] : stored.value, stored == null ? 0 : stored.version);
    }

    /** Removes the rows that have expired. To be called from time to time. */
    public void sweep() {
        rows.values().removeIf(stored -> stored.expiresAt <= micros() / 1_000 - LONGEST);
    }

    private long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, clock.instant());
    }

    @SuppressWarnings("ArrayRecordComponent") // not compared
    public record Stored(byte[] value, long version, long expiresAt) {}
}
