package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.contender.Topology;
import io.github.spillgate.examples.benchmark.measure.Slice;
import io.github.spillgate.examples.benchmark.work.Baseline;
import io.github.spillgate.examples.benchmark.work.Baseline.Measure;
import io.github.spillgate.examples.benchmark.work.Work;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The results as Markdown: a table with ratios for each workload. */
final class Markdown {

    private Markdown() {}

    static List<String> of(ReportHeader head, List<Result> results) {
        List<String> lines = new ArrayList<>(List.of("# Results", ""));
        head.lines().forEach(line -> lines.add("- " + line));
        lines.add("");
        List<String> warnings =
                results.stream().flatMap(result -> result.warnings().stream()).toList();
        if (!warnings.isEmpty()) {
            lines.addAll(List.of("**Warnings.** These rows are not what they seem to be:", ""));
            warnings.forEach(warning -> lines.add("- " + warning));
            lines.add("");
        }
        Map<Work, List<Result>> byWork =
                results.stream().collect(Collectors.groupingBy(Result::work, LinkedHashMap::new, Collectors.toList()));
        byWork.forEach((work, ofWork) -> {
            lines.addAll(table(work, ofWork));
            lines.addAll(ByNode.table(ofWork));
        });
        return lines;
    }

    private static List<String> table(Work work, List<Result> results) {
        Baseline baseline = work.baseline();
        Optional<Result> base = base(baseline, results);
        boolean onPostgres = results.get(0).entrant().topology() == Topology.POSTGRES;
        List<String> lines = new ArrayList<>(List.of(
                "## " + work.name(),
                "",
                work.description() + ".",
                "",
                "| contender | decisions/s | " + compared(baseline, base) + " | p50 µs | p99 µs | "
                        + (onPostgres ? "server µs | trips | WAL bytes" : "Redis µs | commands | bytes") + " |",
                "|---|---:|---:|---:|---:|---:|---:|---:|"));
        for (Result result : results) {
            lines.add(String.format(
                    Locale.ROOT,
                    "| %s%s | %s | %s | %s | %s | %.2f | %.2f | %,.0f |",
                    result.entrant().isOurs()
                            ? "**" + result.entrant().title() + "**"
                            : result.entrant().title(),
                    result.warnings().isEmpty() ? "" : " (!)",
                    spread(
                            "%,.0f",
                            result.median(Slice::perSecond),
                            result.least(Slice::perSecond),
                            result.most(Slice::perSecond)),
                    base.map(other -> ratio(result, other)).orElse("–"),
                    spread("%,.1f", result.median(Slice::p50), result.least(Slice::p50), result.most(Slice::p50)),
                    spread("%,.1f", result.median(Slice::p99), result.least(Slice::p99), result.most(Slice::p99)),
                    result.median(Slice::serverMicros),
                    result.median(Slice::commands),
                    result.median(onPostgres ? Slice::walBytes : Slice::bytes)));
        }
        lines.add("");
        return lines;
    }

    private static Optional<Result> base(Baseline baseline, List<Result> results) {
        Comparator<Result> byMedian = Comparator.comparingDouble(result -> result.median(result.measure()));
        return results.stream()
                .filter(result -> baseline.isBase(result.entrant()))
                .max(baseline.measure() == Measure.DECISIONS ? byMedian : byMedian.reversed());
    }

    private static String compared(Baseline baseline, Optional<Result> base) {
        return (baseline.measure() == Measure.P50 ? "p50 × " : "× ")
                + (baseline == Baseline.BEST_PEER ? "the best peer, " : "")
                + base.map(result -> result.entrant().title()).orElse("–");
    }

    /** Compares round by round, because other load on the machine affects both in the same round. */
    private static String ratio(Result result, Result base) {
        double[] ratios = IntStream.range(0, result.slices().size())
                .mapToDouble(round -> result.measured(round) / base.measured(round))
                .toArray();
        return spread(
                "%,.2f",
                Result.median(ratios),
                Arrays.stream(ratios).min().orElse(0),
                Arrays.stream(ratios).max().orElse(0));
    }

    private static String spread(String format, double median, double least, double most) {
        return String.format(Locale.ROOT, format + " (" + format + "–" + format + ")", median, least, most);
    }
}
