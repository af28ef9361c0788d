package io.github.spillgate.examples.benchmark.report;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * Step charts of several contenders, one below the other, with a line at the limit. Values above the line have another
 * colour.
 *
 * @param title the title
 * @param note the unit of the heights
 * @param description the description for screen readers
 * @param marked the label of the events
 * @param limit the height of the line
 * @param seconds the duration
 * @param marks the events in this time
 * @param rows the contenders
 */
public record StepChart(
        String title,
        String note,
        String description,
        String marked,
        int limit,
        int seconds,
        List<Mark> marks,
        List<Row> rows) {

    static final int LABELS = 230;
    static final int HIGH = 64;

    private static final int RIGHT = 60;
    private static final int COLUMNS = Svg.WIDTH - LABELS - RIGHT;
    private static final int TOP = 60;
    private static final int MARKS = 34;
    private static final int ROW = HIGH + 18;
    private static final int MOST_TICKS = 12;

    public StepChart {
        marks = List.copyOf(marks);
        rows = List.copyOf(rows);
    }

    /**
     * An event.
     *
     * @param from the start, in seconds
     * @param to the end
     * @param label the label
     */
    public record Mark(double from, double to, String label) {}

    /**
     * A contender.
     *
     * @param label the label
     * @param ours whether the contender is ours
     * @param most the text about the maximum
     * @param steps the changes of the height
     */
    public record Row(String label, boolean ours, String most, List<Step> steps) {
        public Row {
            steps = List.copyOf(steps);
        }
    }

    /**
     * A change of the height.
     *
     * @param at the time, in seconds
     * @param height the height from then on
     */
    public record Step(double at, int height) {}

    /** Returns the picture as SVG. */
    public String svg() {
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(16, 24, "title", title));
        parts.add(Svg.text(16, 42, "note", note));
        for (Mark mark : marks) {
            double x = x(mark.from(), seconds);
            parts.add(Svg.rect("mark", x, TOP + 14, Math.max(2, x(mark.to(), seconds) - x), 6));
            parts.add(Svg.text(x, TOP + 8, "number", mark.label()));
        }
        parts.add(Svg.text(LABELS - 10, TOP + 21, "label", marked));
        int highest = rows.stream()
                .flatMap(row -> row.steps().stream())
                .mapToInt(Step::height)
                .max()
                .orElse(0);
        double scale = (double) HIGH / Math.max(highest, limit);
        int y = TOP + MARKS;
        for (Row row : rows) {
            parts.addAll(row(row, y, scale));
            y += ROW;
        }
        int tick = seconds / 10 > MOST_TICKS ? 30 : 10;
        for (int second = 0; second <= seconds; second += tick) {
            parts.add(Svg.text(
                    x(second, seconds),
                    y + 4,
                    "tick",
                    String.format(Locale.ROOT, "%d:%02d", second / 60, second % 60)));
        }
        return Svg.of(title, description, y + 20, parts);
    }

    private List<String> row(Row row, int y, double scale) {
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(LABELS - 10, y + HIGH - 22, "label", row.label()));
        parts.add(Svg.text(LABELS - 10, y + HIGH - 4, "label number", row.most()));
        parts.addAll(heights(row.ours() ? "ours" : "peer", columns(row.steps(), seconds), limit, y, scale));
        return parts;
    }

    /** Returns the heights of all columns as an area, with a line at the limit. */
    static List<String> heights(String kind, int[] heights, int limit, int y, double scale) {
        int bottom = y + HIGH;
        int line = bottom - (int) Math.round(limit * scale);
        int[] within =
                Arrays.stream(heights).map(height -> Math.min(height, limit)).toArray();
        List<String> parts = new ArrayList<>();
        if (Arrays.stream(heights).anyMatch(height -> height > limit)) {
            parts.add(area("over", heights, bottom, scale));
        }
        parts.add(area(kind, within, bottom, scale));
        parts.add(Svg.line("axis", LABELS, bottom, LABELS + COLUMNS, bottom));
        parts.add(Svg.line("limit", LABELS, line, LABELS + COLUMNS, line));
        parts.add(Svg.text(LABELS + COLUMNS + 6, line + 4, "number", Integer.toString(limit)));
        return parts;
    }

    /** Returns the maximum within one pixel of the time axis. */
    static int[] columns(List<Step> steps, int seconds) {
        int[] most = new int[COLUMNS];
        for (int i = 0; i < steps.size(); i++) {
            int from = column(steps.get(i).at(), seconds);
            int to = i + 1 < steps.size() ? column(steps.get(i + 1).at(), seconds) : COLUMNS - 1;
            for (int column = from; column <= Math.min(to, COLUMNS - 1); column++) {
                most[column] = Math.max(most[column], steps.get(i).height());
            }
        }
        return most;
    }

    private static int column(double second, int seconds) {
        return (int) (COLUMNS * second / seconds);
    }

    static double x(double second, int seconds) {
        return LABELS + COLUMNS * second / seconds;
    }

    private static String area(String kind, int[] heights, int bottom, double scale) {
        StringBuilder path = new StringBuilder(Svg.part("M%d %d", LABELS, bottom));
        int height = 0;
        for (int column = 0; column < heights.length; column++) {
            if (heights[column] != height) {
                height = heights[column];
                path.append(Svg.part("H%dV%.1f", LABELS + column, bottom - height * scale));
            }
        }
        path.append(Svg.part("H%dV%dZ", LABELS + COLUMNS, bottom));
        return Svg.part("<path class=\"%s\" d=\"%s\"/>", kind, path);
    }
}
