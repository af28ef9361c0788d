package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.work.Work;
import io.github.spillgate.examples.benchmark.work.Yardstick.Measure;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Horizontal bars, one for each who took part, with a line from the lowest to the highest slice. A plain picture: its colours follow
 * the reader's light or dark scheme, and its words are words.
 */
final class BarChart {

    private static final int WIDTH = 860;
    private static final int LABELS = 230;
    private static final int NUMBERS = 130;
    private static final int BARS = WIDTH - LABELS - NUMBERS;
    private static final int ROW = 26;
    private static final int BAR = 16;
    private static final int TOP = 52;
    private static final int HEADING = 30;

    private static final String STYLE = """
              <style>
                text { font: 13px system-ui, sans-serif; fill: #24292f; }
                .title { font-size: 16px; font-weight: 600; }
                .heading { font-weight: 600; }
                .note, .number { fill: #57606a; }
                .label { text-anchor: end; }
                .peer { fill: #9aa4af; }
                .floor { fill: #d3d8de; }
                .ours { fill: #1f7a8c; }
                .spread { stroke: #24292f; stroke-width: 1.5; }
                @media (prefers-color-scheme: dark) {
                  text { fill: #e6edf3; }
                  .note, .number { fill: #9aa4af; }
                  .peer { fill: #6e7781; }
                  .floor { fill: #444c56; }
                  .ours { fill: #39a9bd; }
                  .spread { stroke: #e6edf3; }
                }
              </style>
            """;

    private BarChart() {}

    static String of(String kind, List<Result> results) {
        Map<Work, List<Result>> byWork =
                results.stream().collect(Collectors.groupingBy(Result::work, LinkedHashMap::new, Collectors.toList()));
        boolean times = results.get(0).work().yardstick().measure() == Measure.P50;
        double most = results.stream()
                .mapToDouble(result -> result.most(result.measure()))
                .max()
                .orElse(0);
        double scale = BARS / Math.max(most, 1e-9);
        List<String> parts = new ArrayList<>();
        parts.add(text(16, 24, "title", kind + ": " + (times ? "microseconds, p50" : "decisions per second")));
        parts.add(text(16, 42, "note", times ? "shorter is better" : "longer is better"));
        int y = TOP;
        for (Map.Entry<Work, List<Result>> work : byWork.entrySet()) {
            parts.add(text(16, y + 19, "heading", work.getKey().says()));
            y += HEADING;
            for (Result result : work.getValue()) {
                parts.addAll(bar(result, y, scale, times ? "%,.1f" : "%,.0f"));
                y += ROW;
            }
        }
        int height = y + 12;
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + WIDTH + " " + height + "\" width=\"" + WIDTH
                + "\" height=\"" + height + "\" role=\"img\" aria-label=\"" + escape(kind) + "\">\n" + STYLE
                + parts.stream().map(part -> "  " + part + "\n").collect(Collectors.joining()) + "</svg>\n";
    }

    private static List<String> bar(Result result, int y, double scale, String format) {
        double median = result.median(result.measure());
        double least = LABELS + result.least(result.measure()) * scale;
        double most = LABELS + result.most(result.measure()) * scale;
        int middle = y + BAR / 2;
        String kind = result.entrant().isOurs() ? "ours" : result.entrant().isPeer() ? "peer" : "floor";
        String mark = result.warnings().isEmpty() ? "" : " (!)";
        return List.of(
                text(LABELS - 10, y + 13, "label", result.entrant().title() + mark),
                String.format(
                        Locale.ROOT,
                        "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>",
                        kind,
                        LABELS,
                        y,
                        Math.max(1, median * scale),
                        BAR),
                String.format(
                        Locale.ROOT,
                        "<line class=\"spread\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>",
                        least,
                        middle,
                        most,
                        middle),
                text(most + 8, y + 13, "number", String.format(Locale.ROOT, format, median)));
    }

    private static String text(double x, int y, String kind, String words) {
        return String.format(
                Locale.ROOT, "<text class=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>", kind, x, y, escape(words));
    }

    private static String escape(String words) {
        return words.replace("&", "&amp;").replace("<", "&lt;").replace("\"", "&quot;");
    }
}
