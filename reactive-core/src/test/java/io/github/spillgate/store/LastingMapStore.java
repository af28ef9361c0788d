package io.github.spillgate.store;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import reactor.core.publisher.Mono;

/** A store in which nothing expires, as in Redis while a test sets the clock of the scripts. */
public final class LastingMapStore extends MapStore {

    public LastingMapStore(LongSupplier micros) {
        super(new ConcurrentHashMap<>(), () -> Instant.EPOCH.plus(micros.getAsLong(), ChronoUnit.MICROS));
        useClock(micros);
    }

    @Override
    protected Mono<Rows> write(List<Change> changes) {
        return super.write(changes.stream().map(LastingMapStore::lasting).toList());
    }

    private static Change lasting(Change change) {
        List<Write> writes = change.writes().stream()
                .map(one -> new Write(one.key(), one.value(), one.version(), one.nextVersion(), Long.MAX_VALUE))
                .toList();
        return new Change(writes, change.deadline());
    }
}
