package io.github.spillgate.examples.benchmark.report;

import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** Common parts of all charts: the colours follow the light or dark scheme of the reader, and texts are real text. */
final class Svg {

    static final int WIDTH = 860;

    private static final String STYLE = """
              <style>
                text { font: 13px system-ui, sans-serif; fill: #24292f; }
                .title { font-size: 16px; font-weight: 600; }
                .heading { font-weight: 600; }
                .note, .number { fill: #57606a; }
                .label { text-anchor: end; }
                .tick { text-anchor: middle; fill: #57606a; }
                .peer { fill: #9aa4af; }
                .floor { fill: #d3d8de; }
                .ours { fill: #1f7a8c; }
                .over { fill: #c2410c; }
                .mark { fill: #24292f; }
                .spread { stroke: #24292f; stroke-width: 1.5; }
                .limit { stroke: #24292f; stroke-width: 1; stroke-dasharray: 4 3; }
                .axis { stroke: #9aa4af; stroke-width: 1; }
                @media (prefers-color-scheme: dark) {
                  text { fill: #e6edf3; }
                  .note, .number, .tick { fill: #9aa4af; }
                  .peer { fill: #6e7781; }
                  .floor { fill: #444c56; }
                  .ours { fill: #39a9bd; }
                  .over { fill: #f0883e; }
                  .mark { fill: #e6edf3; }
                  .spread, .limit { stroke: #e6edf3; }
                  .axis { stroke: #6e7781; }
                }
              </style>
            """;

    private Svg() {}

    /**
     * Returns a whole picture.
     *
     * @param title the title for screen readers
     * @param description the description for screen readers
     */
    static String of(String title, String description, int height, List<String> parts) {
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + WIDTH + " " + height + "\" width=\"" + WIDTH
                + "\" height=\"" + height + "\" role=\"img\">\n"
                + "  <title>" + escape(title) + "</title>\n"
                + "  <desc>" + escape(description) + "</desc>\n"
                + STYLE
                + parts.stream().map(part -> "  " + part + "\n").collect(Collectors.joining()) + "</svg>\n";
    }

    static String text(double x, int y, String kind, String words) {
        return part("<text class=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>", kind, x, y, escape(words));
    }

    static String rect(String kind, double x, int y, double width, int height) {
        return part(
                "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>",
                kind, x, y, width, height);
    }

    static String line(String kind, double x1, int y1, double x2, int y2) {
        return part("<line class=\"%s\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", kind, x1, y1, x2, y2);
    }

    static String part(String format, Object... values) {
        return String.format(Locale.ROOT, format, values);
    }

    private static String escape(String words) {
        return words.replace("&", "&amp;").replace("<", "&lt;").replace("\"", "&quot;");
    }
}
