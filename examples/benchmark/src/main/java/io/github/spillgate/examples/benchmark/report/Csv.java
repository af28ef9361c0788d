package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.measure.NodeCost;
import io.github.spillgate.examples.benchmark.measure.Slice;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** The results as CSV. No name contains a comma. */
final class Csv {

    private static final String MEASURES =
            "decisions_per_s,p50_us,p99_us,server_us_per_decision,commands_per_decision,bytes_per_decision,"
                    + "client_us_per_decision";

    private Csv() {}

    static List<String> medians(List<Result> results) {
        return lines(
                "work,contender," + MEASURES,
                results.stream()
                        .map(result -> name(result) + ","
                                + measures(
                                        result.median(Slice::perSecond),
                                        result.median(Slice::p50),
                                        result.median(Slice::p99),
                                        result.median(Slice::serverMicros),
                                        result.median(Slice::commands),
                                        result.median(Slice::bytes),
                                        result.median(Slice::clientMicros))));
    }

    static List<String> slices(List<Result> results) {
        return lines(
                "round,work,contender,asked,allowed,denied,fell_back,failed," + MEASURES,
                results.stream()
                        .flatMap(result -> IntStream.range(0, result.slices().size())
                                .mapToObj(i ->
                                        slice(i + 1, result, result.slices().get(i)))));
    }

    /** Returns the cost of each slice on each node. */
    static List<String> nodes(List<Result> results) {
        return lines(
                "round,work,contender,node,commands_per_decision,server_us_per_decision,cpu_us_per_decision,"
                        + "bytes_in_per_decision,bytes_out_per_decision",
                results.stream()
                        .flatMap(result -> IntStream.range(0, result.slices().size())
                                .boxed()
                                .flatMap(i -> nodes(
                                        i + 1, result, result.slices().get(i).nodes()))));
    }

    private static Stream<String> nodes(int round, Result result, List<NodeCost> nodes) {
        return IntStream.range(0, nodes.size()).mapToObj(i -> {
            NodeCost node = nodes.get(i);
            return String.format(
                    Locale.ROOT,
                    "%d,%s,%d,%.4f,%.3f,%.3f,%.1f,%.1f",
                    round,
                    name(result),
                    i + 1,
                    node.commands(),
                    node.micros(),
                    node.cpuMicros(),
                    node.bytesIn(),
                    node.bytesOut());
        });
    }

    private static String slice(int round, Result result, Slice slice) {
        return String.format(
                Locale.ROOT,
                "%d,%s,%d,%d,%d,%d,%d,%s",
                round,
                name(result),
                slice.asked(),
                slice.allowed(),
                slice.denied(),
                slice.fellBack(),
                slice.failed(),
                measures(
                        slice.perSecond(),
                        slice.p50(),
                        slice.p99(),
                        slice.serverMicros(),
                        slice.commands(),
                        slice.bytes(),
                        slice.clientMicros()));
    }

    private static List<String> lines(String header, Stream<String> rows) {
        return Stream.concat(Stream.of(header), rows).toList();
    }

    private static String name(Result result) {
        return result.work().name() + "," + result.entrant().title();
    }

    private static String measures(
            double perSecond,
            double p50,
            double p99,
            double serverMicros,
            double commands,
            double bytes,
            double clientMicros) {
        return String.format(
                Locale.ROOT,
                "%.0f,%.2f,%.2f,%.3f,%.4f,%.0f,%.3f",
                perSecond,
                p50,
                p99,
                serverMicros,
                commands,
                bytes,
                clientMicros);
    }
}
