package io.github.spillgate.examples.benchmark.measure;

import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * One contender's turn.
 *
 * @param allowed how many decisions were made to allow, those that were still under way at the end of the time included
 * @param denied how many to deny, likewise
 * @param fellBack how many were made by something else in the contender's place; no other number has them in it
 * @param failed how many were not made; no other number has them in it
 * @param perSecond how many decisions were made within the time, for each second of it
 * @param p50 half of the decisions took no longer, in microseconds
 * @param p99 of a hundred decisions, all but one took no longer, in microseconds
 * @param nodes what one has cost each Redis
 * @param clientMicros how much processor time this process has had for one, the driver's included
 * @param bytes how much of the heap was allocated for one
 * @param error the first one, if decisions failed
 */
public record Slice(
        long allowed,
        long denied,
        long fellBack,
        long failed,
        double perSecond,
        double p50,
        double p99,
        List<Share> nodes,
        double clientMicros,
        double bytes,
        Optional<String> error) {

    public Slice {
        nodes = List.copyOf(nodes);
    }

    /** All that were asked for. */
    public long asked() {
        return allowed + denied + fellBack + failed;
    }

    /** How long Redis was busy with one, by its own account. */
    public double redisMicros() {
        return nodes.stream().mapToDouble(Share::micros).sum();
    }

    /** How many commands reached Redis for one. */
    public double redisCommands() {
        return nodes.stream().mapToDouble(Share::commands).sum();
    }

    static Slice of(Tally tally, Duration time, List<Share> nodes, long cpuNanos, long allocated) {
        return new Slice(
                tally.allowed,
                tally.denied,
                tally.fellBack,
                tally.failed,
                tally.inTime / (time.toNanos() / 1e9),
                tally.times.nanosAt(0.50) / 1e3,
                tally.times.nanosAt(0.99) / 1e3,
                nodes,
                cpuNanos / 1e3 * tally.each(),
                allocated * tally.each(),
                Optional.ofNullable(tally.error).map(Throwable::toString));
    }
}
