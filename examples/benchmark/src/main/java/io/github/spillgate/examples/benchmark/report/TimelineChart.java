package io.github.spillgate.examples.benchmark.report;

import io.github.spillgate.examples.benchmark.report.StepChart.Mark;
import io.github.spillgate.examples.benchmark.report.StepChart.Step;
import java.util.ArrayList;
import java.util.List;

/**
 * The allowed and the denied requests of one client, and below them the used permits, with a line at the limit.
 *
 * @param title the title
 * @param description the description for screen readers
 * @param limit the height of the line
 * @param seconds the duration
 * @param axis the labels of the time axis, each with a line
 * @param allowed the times of allowed requests, in seconds
 * @param denied the times of denied requests
 * @param used the changes of the usage
 */
public record TimelineChart(
        String title,
        String description,
        int limit,
        int seconds,
        List<Mark> axis,
        List<Double> allowed,
        List<Double> denied,
        List<Step> used) {

    private static final int TOP = 40;
    private static final int BOTTOM = TOP + StepChart.HIGH;
    private static final int HEIGHT = BOTTOM + 24;

    public TimelineChart {
        axis = List.copyOf(axis);
        allowed = List.copyOf(allowed);
        denied = List.copyOf(denied);
        used = List.copyOf(used);
    }

    /** Returns the picture as SVG. */
    public String svg() {
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(16, TOP + 36, "title", title));
        parts.addAll(requests("ours", "allowed", allowed, 4));
        parts.addAll(requests("over", "denied", denied, 20));
        parts.add(Svg.text(StepChart.LABELS - 10, TOP + 36, "label", "used"));
        double scale = (double) StepChart.HIGH / limit;
        parts.addAll(StepChart.heights("ours", StepChart.columns(used, seconds), limit, TOP, scale));
        for (Mark mark : axis) {
            double x = StepChart.x(mark.from(), seconds);
            parts.add(Svg.line("axis", x, TOP, x, BOTTOM));
            parts.add(Svg.text(x, BOTTOM + 16, "tick", mark.label()));
        }
        return Svg.of(title, description, HEIGHT, parts);
    }

    private List<String> requests(String kind, String label, List<Double> times, int y) {
        List<String> parts = new ArrayList<>();
        parts.add(Svg.text(StepChart.LABELS - 10, y + 10, "label number", times.size() + " " + label));
        times.forEach(at -> parts.add(Svg.rect(kind, StepChart.x(at, seconds), y, 2, 12)));
        return parts;
    }
}
