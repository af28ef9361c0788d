package io.github.spillgate.examples.benchmark.report;

import java.util.ArrayList;
import java.util.List;

/**
 * Horizontal bars in per cent, in groups, with a line at a bound.
 *
 * @param title the title
 * @param note the unit of the bars
 * @param description the description for screen readers
 * @param bound the per cent of the line, and the end of the scale
 * @param groups the groups, one below the other
 */
public record PercentChart(String title, String note, String description, double bound, List<Group> groups) {

    private static final int LABELS = 230;
    private static final int NUMBERS = 90;
    private static final int BARS = Svg.WIDTH - LABELS - NUMBERS;
    private static final int ROW = 20;
    private static final int BAR = 12;
    private static final int TOP = 52;
    private static final int HEADING = 28;

    public PercentChart {
        groups = List.copyOf(groups);
    }

    /**
     * Bars below a heading.
     *
     * @param heading the heading
     * @param bars the bars
     */
    public record Group(String heading, List<Bar> bars) {
        public Group {
            bars = List.copyOf(bars);
        }
    }

    /**
     * A bar.
     *
     * @param label the label
     * @param percent the length
     */
    public record Bar(String label, double percent) {}

    /** Returns the picture as SVG. */
    public String svg() {
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(16, 24, "title", title));
        parts.add(Svg.text(16, 42, "note", note));
        int y = TOP;
        for (Group group : groups) {
            parts.add(Svg.text(16, y + 19, "heading", group.heading()));
            y += HEADING;
            for (Bar bar : group.bars()) {
                double width = bar.percent() / bound * BARS;
                parts.add(Svg.text(LABELS - 10, y + 11, "label", bar.label()));
                parts.add(Svg.rect("ours", LABELS, y, Math.max(1, width), BAR));
                parts.add(Svg.text(LABELS + Math.max(1, width) + 8, y + 11, "number", percent(bar.percent())));
                y += ROW;
            }
        }
        double end = LABELS + BARS;
        parts.add(Svg.line("limit", end, TOP, end, y));
        parts.add(Svg.text(end + 6, TOP + 11, "number", percent(bound)));
        return Svg.of(title, description, y + 12, parts);
    }

    private static String percent(double percent) {
        return Svg.part("%.1f %%", percent);
    }
}
