package io.github.spillgate.examples.benchmark.measure;

import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The result of one turn of a contender.
 *
 * @param allowed the decisions that allowed, including those in flight at the end of the time
 * @param denied the decisions that denied, likewise
 * @param fellBack the decisions by a fallback of the contender, not included in other numbers
 * @param failed the decisions that failed, not included in other numbers
 * @param perSecond the decisions a second within the time
 * @param p50 the median latency in microseconds
 * @param p99 the 99th percentile of the latency in microseconds
 * @param nodes the cost of one decision on each node
 * @param clientMicros the processor time of this process for one decision, including the driver
 * @param bytes the bytes allocated on the heap for one decision
 * @param error the first error, if decisions failed
 */
public record Slice(
        long allowed,
        long denied,
        long fellBack,
        long failed,
        double perSecond,
        double p50,
        double p99,
        List<NodeCost> nodes,
        double clientMicros,
        double bytes,
        Optional<String> error) {

    public Slice {
        nodes = List.copyOf(nodes);
    }

    /** Returns the number of all decisions. */
    public long asked() {
        return allowed + denied + fellBack + failed;
    }

    /** Returns the time that the server reports for one decision. */
    public double serverMicros() {
        return nodes.stream().mapToDouble(NodeCost::micros).sum();
    }

    /** Returns the number of commands that reached the server for one decision. */
    public double commands() {
        return nodes.stream().mapToDouble(NodeCost::commands).sum();
    }

    public double walBytes() {
        return nodes.stream().mapToDouble(NodeCost::bytesOut).sum();
    }

    static Slice of(DecisionCounts tally, Duration time, List<NodeCost> nodes, long cpuNanos, long allocated) {
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
