package io.github.spillgate.examples.benchmark.report;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * How much of something there was at each moment, for several, one below the other, with a line for how much there
 * should be. What is above that line has another colour.
 *
 * @param title what the chart is called
 * @param note what its heights are
 * @param description what there is to see
 * @param limit where the line is
 * @param seconds how long it all takes
 * @param marks what happens meanwhile
 * @param rows those that are compared
 */
public record StepChart(
        String title, String note, String description, int limit, int seconds, List<Mark> marks, List<Row> rows) {

    private static final int LABELS = 230;
    private static final int RIGHT = 60;
    private static final int COLUMNS = Svg.WIDTH - LABELS - RIGHT;
    private static final int TOP = 60;
    private static final int MARKS = 34;
    private static final int HIGH = 64;
    private static final int ROW = HIGH + 18;
    private static final int TICK = 30;

    public StepChart {
        marks = List.copyOf(marks);
        rows = List.copyOf(rows);
    }

    /**
     * Something that happens.
     *
     * @param from when it begins, in seconds
     * @param to when it ends
     * @param says what it is
     */
    public record Mark(double from, double to, String says) {}

    /**
     * One that is compared.
     *
     * @param says who it is
     * @param ours whether it is ours
     * @param most what to say of its most
     * @param steps how much there is, from each moment on
     */
    public record Row(String says, boolean ours, String most, List<Step> steps) {
        public Row {
            steps = List.copyOf(steps);
        }
    }

    /**
     * A moment at which the height changes.
     *
     * @param at when, in seconds
     * @param height how much there is from then on
     */
    public record Step(double at, int height) {}

    /** The picture. */
    public String svg() {
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(16, 24, "title", title));
        parts.add(Svg.text(16, 42, "note", note));
        for (Mark mark : marks) {
            double x = x(mark.from());
            parts.add(Svg.rect("mark", x, TOP + 14, Math.max(2, x(mark.to()) - x), 6));
            parts.add(Svg.text(x, TOP + 8, "number", mark.says()));
        }
        parts.add(Svg.text(LABELS - 10, TOP + 21, "label", "the client asks"));
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
        for (int second = 0; second <= seconds; second += TICK) {
            parts.add(Svg.text(
                    x(second), y + 4, "tick", String.format(Locale.ROOT, "%d:%02d", second / 60, second % 60)));
        }
        return Svg.of(title, description, y + 20, parts);
    }

    private List<String> row(Row row, int y, double scale) {
        int bottom = y + HIGH;
        int line = bottom - (int) Math.round(limit * scale);
        int[] heights = columns(row.steps());
        int[] within =
                Arrays.stream(heights).map(height -> Math.min(height, limit)).toArray();
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(LABELS - 10, y + HIGH - 22, "label", row.says()));
        parts.add(Svg.text(LABELS - 10, y + HIGH - 4, "label number", row.most()));
        if (Arrays.stream(heights).anyMatch(height -> height > limit)) {
            parts.add(area("over", heights, bottom, scale));
        }
        parts.add(area(row.ours() ? "ours" : "peer", within, bottom, scale));
        parts.add(Svg.line("axis", LABELS, bottom, LABELS + COLUMNS, bottom));
        parts.add(Svg.line("limit", LABELS, line, LABELS + COLUMNS, line));
        parts.add(Svg.text(LABELS + COLUMNS + 6, line + 4, "number", Integer.toString(limit)));
        return parts;
    }

    /** The most that there is while the pen moves on by one. */
    private int[] columns(List<Step> steps) {
        int[] most = new int[COLUMNS];
        for (int i = 0; i < steps.size(); i++) {
            int from = column(steps.get(i).at());
            int to = i + 1 < steps.size() ? column(steps.get(i + 1).at()) : COLUMNS - 1;
            for (int column = from; column <= Math.min(to, COLUMNS - 1); column++) {
                most[column] = Math.max(most[column], steps.get(i).height());
            }
        }
        return most;
    }

    private int column(double second) {
        return (int) (COLUMNS * second / seconds);
    }

    private double x(double second) {
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
