package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.work.Baseline.Measure;
import io.github.spillgate.examples.benchmark.work.Work;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** Horizontal bars, one for each contender, with a line from the lowest to the highest slice. */
final class BarChart {

    private static final int LABELS = 230;
    private static final int NUMBERS = 130;
    private static final int BARS = Svg.WIDTH - LABELS - NUMBERS;
    private static final int ROW = 26;
    private static final int BAR = 16;
    private static final int TOP = 52;
    private static final int HEADING = 30;

    private BarChart() {}

    static String of(String kind, List<Result> results) {
        Map<Work, List<Result>> byWork =
                results.stream().collect(Collectors.groupingBy(Result::work, LinkedHashMap::new, Collectors.toList()));
        boolean times = results.get(0).work().baseline().measure() == Measure.P50;
        double most = results.stream()
                .mapToDouble(result -> result.most(result.measure()))
                .max()
                .orElse(0);
        double scale = BARS / Math.max(most, 1e-9);
        String title = kind + ": " + (times ? "microseconds, p50" : "decisions per second");
        String note = times ? "shorter is better" : "longer is better";
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(16, 24, "title", title));
        parts.add(Svg.text(16, 42, "note", note));
        int y = TOP;
        for (Map.Entry<Work, List<Result>> work : byWork.entrySet()) {
            parts.add(Svg.text(16, y + 19, "heading", work.getKey().description()));
            y += HEADING;
            for (Result result : work.getValue()) {
                parts.addAll(bar(result, y, scale, times ? "%,.1f" : "%,.0f"));
                y += ROW;
            }
        }
        String description =
                byWork.keySet().stream().map(Work::description).collect(Collectors.joining("; ")) + "; " + note;
        return Svg.of(title, description, y + 12, parts);
    }

    private static List<String> bar(Result result, int y, double scale, String format) {
        double median = result.median(result.measure());
        double least = LABELS + result.least(result.measure()) * scale;
        double most = LABELS + result.most(result.measure()) * scale;
        int middle = y + BAR / 2;
        String kind = result.entrant().isOurs() ? "ours" : result.entrant().isPeer() ? "peer" : "floor";
        String mark = result.warnings().isEmpty() ? "" : " (!)";
        return List.of(
                Svg.text(LABELS - 10, y + 13, "label", result.entrant().title() + mark),
                Svg.rect(kind, LABELS, y, Math.max(1, median * scale), BAR),
                Svg.line("spread", least, middle, most, middle),
                Svg.text(most + 8, y + 13, "number", String.format(Locale.ROOT, format, median)));
    }
}
