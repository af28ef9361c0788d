package io.github.spillgate.store;

import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.internal.Text;
import io.github.spillgate.spi.Claim;
import io.github.spillgate.spi.Corrected;
import io.github.spillgate.spi.Correction;
import io.github.spillgate.spi.FleetExchange;
import io.github.spillgate.spi.HoldAction;
import io.github.spillgate.spi.HoldRenewal;
import io.github.spillgate.spi.LimitStore;
import io.github.spillgate.spi.StoreDecision;
import io.github.spillgate.spi.StoreRequest;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import reactor.core.publisher.Mono;
import reactor.util.Logger;
import reactor.util.Loggers;

/**
 * A store on anything that can compare and write, such as a database or a map. A subclass reads rows, and writes rows
 * that are still as they were read; this class decides by the rules that also apply in Redis, in this process.
 *
 * <p>Decisions share reads and writes. While a row is being read or written, further decisions on it wait, and are then
 * made together. If another process has changed a row in between, its decisions are computed again on the new row. A
 * decision that changes nothing, such as a denial, needs no write. A row that this process has written is not read
 * again while no other process changes it. Results are emitted on {@code Schedulers.parallel()}.
 */
public abstract class CompareAndWriteStore implements LimitStore {

    /**
     * The key of the row with the published values, which should survive a crash that counts may not survive. It is
     * always read and written alone.
     */
    protected static final String PUBLISHED = "published";

    private static final Logger LOG = Loggers.getLogger(CompareAndWriteStore.class);

    private final Engine engine;

    // Of their own, because an error of a batch is that of all its tasks.
    private final Engine registrations;
    private final Engine publications;

    private final AtomicBoolean isRefused = new AtomicBoolean();

    /** Creates a store with at most 2 batches in flight, and 10,000 waiting decisions. */
    protected CompareAndWriteStore() {
        this(2, 10_000);
    }

    /**
     * Creates a store.
     *
     * @param inFlight the highest number of batches in flight, each of which is a read and then a write, 1 to 1,000
     * @param waiting the highest number of waiting decisions, 1 to 1,000,000; any further one fails at once
     * @throws IllegalArgumentException if one of them is out of range
     */
    @SuppressWarnings("this-escape") // it is only stored
    protected CompareAndWriteStore(int inFlight, int waiting) {
        engine = new Engine(this, inFlight, waiting);
        registrations = new Engine(this, 1, waiting);
        publications = new Engine(this, 1, waiting);
    }

    /** Replaces what is known of the store's clock, for a test that sets it. */
    void useClock(LongSupplier micros) {
        Stream.of(engine, registrations, publications)
                .forEach(each -> each.written().useClock(micros));
    }

    /**
     * Reads rows, and then the store's clock: it must not be before a time at which one of them was written, or at
     * which one that has no value expired. The {@code Mono} must end, so give it a timeout.
     *
     * @param keys the keys, no two equal, each of at most 600 printable ASCII characters
     * @return a row for each key, in any order. A row that has expired has no value, and the version that a write
     *     expects
     */
    protected abstract Mono<Rows> read(List<String> keys);

    /**
     * Makes changes that are independent of each other: no two have a row in common. Writes all rows of a change, in
     * one step, if each still has the version that is expected and the store's clock has not passed the deadline; else
     * none of them. The {@code Mono} must end, so give it a timeout. After an error, each change may have been written.
     *
     * @param changes the changes, at least one
     * @return all rows of the changes that were not written, as they are now, and then the store's clock
     */
    protected abstract Mono<Rows> write(List<Change> changes);

    /**
     * Gives rows new versions, changes nothing else, and reads them, in one step. A batch that other processes have
     * kept from writing several times calls this: what they have computed by then does not fit any more, and they wait
     * a little for the write that follows. By default this only reads, and a process that writes without a pause may
     * keep the others from writing. The {@code Mono} must end, and its errors are those of {@link #read}.
     *
     * @param nextVersions the version that each row gets, a number that no row has had. A row that does not exist, or
     *     that is locked, gets none
     * @return a row for each key, and then the store's clock, as from {@link #read}
     */
    protected Mono<Rows> renumber(Map<String, Long> nextVersions) {
        return read(List.copyOf(nextVersions.keySet()));
    }

    /**
     * A row.
     *
     * @param key the key
     * @param value the value; empty if there is none, or if it has expired
     * @param version the number that the last write gave it; 0 if there is no row. An expired row keeps its version for
     *     longer than a decision takes, so that it is not mistaken for one that never was
     */
    @SuppressWarnings("ArrayRecordComponent") // not compared
    public record Row(String key, byte[] value, long version) {}

    /**
     * Rows at a time.
     *
     * @param micros the store's clock after the rows were read, in microseconds since 1970
     * @param rows the rows
     */
    public record Rows(long micros, List<Row> rows) {}

    /**
     * What is written to a row.
     *
     * @param key the key
     * @param value the new value; if it is empty, the row is deleted, or must not exist
     * @param version the version that the row must have; 0 if there must be none
     * @param nextVersion the version that the row gets, a number that no row has had
     * @param expiresAt the time until which the row is kept, in milliseconds of the store's clock; or for longer, if it
     *     would have been kept for longer without this write
     */
    @SuppressWarnings("ArrayRecordComponent") // not compared
    public record Write(String key, byte[] value, long version, long nextVersion, long expiresAt) {}

    /**
     * All rows of decisions that depend on each other, also those that keep their value.
     *
     * @param writes the rows, at least one
     * @param deadline the last moment of the change, in microseconds of the store's clock; {@code Long.MAX_VALUE} if
     *     there is none
     */
    public record Change(List<Write> writes, long deadline) {}

    @Override
    public final Mono<StoreDecision> take(StoreRequest request) {
        return Decisions.decide(engine, request);
    }

    @Override
    public final Mono<List<Corrected>> correct(List<? extends Correction> corrections) {
        return Corrections.correct(engine, corrections);
    }

    @Override
    public final Mono<Void> reset(List<Claim> claims, long deadline) {
        return Corrections.reset(engine, claims, deadline);
    }

    @Override
    public final Mono<List<HoldRenewal>> hold(List<Claim> holds, HoldAction action) {
        return Corrections.hold(engine, holds, action);
    }

    @Override
    public final Mono<FleetExchange.FleetReply> exchange(FleetExchange request) {
        Mono<Optional<FleetExchange.FleetReply>> published = Registrations.publish(publications, request)
                .map(Optional::of)
                .onErrorResume(error -> request.published() == null, error -> {
                    noteUnpublished(error);
                    return Mono.just(Optional.empty());
                });
        return Registrations.register(registrations, request)
                .zipWith(
                        published,
                        (counted, values) -> values.map(reply -> new FleetExchange.FleetReply(
                                        reply.micros(),
                                        counted.instances(),
                                        reply.version(),
                                        reply.outcome(),
                                        reply.values()))
                                .orElse(counted));
    }

    /** Instances are counted nevertheless: the share of each in an outage depends on their number. */
    private void noteUnpublished(Throwable error) {
        if (Kind.REFUSED.isOf(error) && isRefused.compareAndSet(false, true)) {
            LOG.warn(
                    "{} does not exchange published limits with other instances: {}",
                    this,
                    Text.line(error.getMessage()));
        }
    }

    /**
     * Returns the source of the decisions of this store.
     *
     * @return the source; {@link Source#OTHER} by default
     */
    protected Source source() {
        return Source.OTHER;
    }

    @Override
    public StoreState state() {
        return StoreState.of(source());
    }

    /** Returns a description for logs. */
    @Override
    public String toString() {
        return getClass().getSimpleName();
    }

    /** {@inheritDoc} Reads a row that does not exist. */
    @Override
    public Mono<Void> prepare(String node) {
        return Mono.defer(() -> read(List.of("prepare"))).then();
    }
}
