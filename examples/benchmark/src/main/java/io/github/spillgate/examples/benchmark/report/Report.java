package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.measure.Slice;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** Writes the results as CSV, Markdown and charts. */
public record Report(Path directory) {

    /** Checks that the directory is writable, before the measurements instead of after them. */
    public static Report in(Path directory) {
        try {
            Files.createDirectories(directory);
        } catch (IOException e) {
            throw new IllegalArgumentException(
                    "--out \"" + directory
                            + "\" cannot be written to: expected a directory, for example --out target/benchmark",
                    e);
        }
        return new Report(directory);
    }

    /** Prints the results of one workload, before the next one starts. */
    public static void show(List<Result> ofWork, PrintStream out) {
        for (Result result : ofWork) {
            out.printf(
                    Locale.ROOT,
                    "  %-28s %,12.0f/s  p50 %,10.1f µs  p99 %,10.1f µs  server %6.2f µs %6.2f commands  %,8.0f B%n",
                    result.entrant().title(),
                    result.median(Slice::perSecond),
                    result.median(Slice::p50),
                    result.median(Slice::p99),
                    result.median(Slice::serverMicros),
                    result.median(Slice::commands),
                    result.median(Slice::bytes));
        }
        ofWork.stream()
                .flatMap(result -> result.warnings().stream())
                .forEach(text -> out.println("  WARNING  " + text));
    }

    public void write(ReportHeader head, List<Result> results) throws IOException {
        Files.write(directory.resolve("results.csv"), Csv.medians(results));
        Files.write(directory.resolve("rounds.csv"), Csv.slices(results));
        Files.write(directory.resolve("nodes.csv"), Csv.nodes(results));
        Files.write(directory.resolve("results.md"), Markdown.of(head, results));
        Map<String, List<Result>> byKind = results.stream()
                .collect(
                        Collectors.groupingBy(result -> result.work().kind(), LinkedHashMap::new, Collectors.toList()));
        for (Map.Entry<String, List<Result>> kind : byKind.entrySet()) {
            Files.writeString(directory.resolve(kind.getKey() + ".svg"), BarChart.of(kind.getKey(), kind.getValue()));
        }
    }
}
