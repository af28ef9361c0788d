package io.github.spillgate.store;

import java.time.Instant;
import java.time.InstantSource;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** A store that records its requests; a test may delay, lose or change them. */
final class HeldMapStore extends CompareAndWriteStore {

    private final MapStore map;
    final List<List<String>> reads = new CopyOnWriteArrayList<>();
    final List<List<Change>> writes = new CopyOnWriteArrayList<>();
    final AtomicInteger renumberings = new AtomicInteger();
    private volatile BiFunction<List<String>, Mono<Rows>, Mono<Rows>> onRead = (keys, read) -> read;
    private volatile BiFunction<List<Change>, Mono<Rows>, Mono<Rows>> onWrite = (changes, write) -> write;

    HeldMapStore(Map<String, MapStore.Stored> rows, InstantSource clock) {
        map = new MapStore(rows, clock);
        useClock(() -> ChronoUnit.MICROS.between(Instant.EPOCH, clock.instant()));
    }

    HeldMapStore(Map<String, MapStore.Stored> rows, InstantSource clock, int inFlight, int waiting) {
        super(inFlight, waiting);
        map = new MapStore(rows, clock);
    }

    HeldMapStore onRead(BiFunction<List<String>, Mono<Rows>, Mono<Rows>> change) {
        onRead = change;
        return this;
    }

    HeldMapStore onWrite(BiFunction<List<Change>, Mono<Rows>, Mono<Rows>> change) {
        onWrite = change;
        return this;
    }

    /** Holds the replies to all reads until the test emits a value. */
    Sinks.Empty<Void> holdReads() {
        Sinks.Empty<Void> gate = Sinks.empty();
        onRead((keys, read) -> read.delayUntil(rows -> gate.asMono()));
        return gate;
    }

    /** Holds all writes, before they are made, until the test emits a value. */
    Sinks.Empty<Void> holdWrites() {
        Sinks.Empty<Void> gate = Sinks.empty();
        onWrite((changes, write) -> gate.asMono().then(write));
        return gate;
    }

    @Override
    protected Mono<Rows> read(List<String> keys) {
        reads.add(List.copyOf(keys));
        return onRead.apply(keys, map.read(keys));
    }

    @Override
    protected Mono<Rows> write(List<Change> changes) {
        writes.add(changes);
        return onWrite.apply(changes, map.write(changes));
    }

    @Override
    protected Mono<Rows> renumber(Map<String, Long> nextVersions) {
        renumberings.incrementAndGet();
        return map.renumber(nextVersions);
    }
}
