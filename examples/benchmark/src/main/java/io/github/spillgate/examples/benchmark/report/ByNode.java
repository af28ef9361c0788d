package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.measure.NodeCost;
import io.github.spillgate.examples.benchmark.measure.Slice;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** A table of the cost of a decision on each node and on the network, for workloads with clusters. */
final class ByNode {

    private ByNode() {}

    static List<String> table(List<Result> results) {
        if (results.stream().noneMatch(result -> result.entrant().topology().isCluster())) {
            return List.of();
        }
        List<String> lines = new ArrayList<>(List.of(
                "| contender | decisions in a command | commands, by node | Redis µs, by node | its processor µs, by "
                        + "node"
                        + " | client µs | bytes to Redis | bytes from Redis |",
                "|---|---:|---:|---:|---:|---:|---:|---:|"));
        for (Result result : results) {
            lines.add(String.format(
                    Locale.ROOT,
                    "| %s | %.1f | %s | %s | %s | %.1f | %.0f | %.0f |",
                    result.entrant().title(),
                    result.median(slice -> 1 / slice.commands()),
                    byNode(result, "%.3f", NodeCost::commands),
                    byNode(result, "%.2f", NodeCost::micros),
                    byNode(result, "%.2f", NodeCost::cpuMicros),
                    result.median(Slice::clientMicros),
                    result.median(slice -> sum(slice, NodeCost::bytesIn)),
                    result.median(slice -> sum(slice, NodeCost::bytesOut))));
        }
        lines.add("");
        return lines;
    }

    private static String byNode(Result result, String format, ToDoubleFunction<NodeCost> what) {
        return IntStream.range(0, result.entrant().topology().primaries())
                .mapToObj(node -> String.format(
                        Locale.ROOT,
                        format,
                        result.median(slice -> what.applyAsDouble(slice.nodes().get(node)))))
                .collect(Collectors.joining(" · "));
    }

    private static double sum(Slice slice, ToDoubleFunction<NodeCost> what) {
        return slice.nodes().stream().mapToDouble(what).sum();
    }
}
