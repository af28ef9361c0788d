package io.github.spillgate.examples.benchmark.simulate;

import io.github.spillgate.examples.benchmark.report.PercentChart;
import io.github.spillgate.examples.benchmark.report.PercentChart.Bar;
import io.github.spillgate.examples.benchmark.report.PercentChart.Group;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The page on the simulation of leases, and the chart of its table. */
final class LeasePage {

    static final String NAME = "lease-simulation.md";

    static final String CHART = "leases.svg";

    /** The least part of an exact limiter that leases should grant is 0.95. */
    private static final double MOST_PERCENT = 5;

    /** The beginning of the head of the table that is drawn. Other tables on the page have other columns. */
    private static final String HEAD = "| limit | instances | demand";

    /** A limit, the instances, the demand, and what is granted. */
    private static final Pattern ROW =
            Pattern.compile("\\| `([^`]+)` \\| (\\d+) \\| ([\\d.]+) \\| ([\\d.]+) \\| [\\d.]+ \\| [\\d.]+ \\|");

    private LeasePage() {}

    /** Returns a chart of the permits that leases do not grant, and an exact limiter does. */
    static PercentChart chart(Path page) throws IOException {
        Map<String, List<Bar>> groups = new LinkedHashMap<>();
        List<String> table = Files.readAllLines(page).stream()
                .dropWhile(line -> !line.startsWith(HEAD))
                .takeWhile(line -> !line.isEmpty())
                .toList();
        for (String line : table) {
            Matcher row = ROW.matcher(line);
            if (row.matches()) {
                String instances = row.group(2).equals("1") ? "1 instance" : row.group(2) + " instances";
                groups.computeIfAbsent(row.group(1) + ", " + instances, name -> new ArrayList<>())
                        .add(new Bar("demand " + row.group(3) + " × the limit", notGranted(row.group(4))));
            }
        }
        return new PercentChart(
                "Leases: permits that are not granted",
                "per cent of what one exact limiter grants; shorter is better",
                "permits that leases do not grant, for several limits, numbers of instances and rates",
                MOST_PERCENT,
                groups.entrySet().stream()
                        .map(group -> new Group(group.getKey(), group.getValue()))
                        .toList());
    }

    private static double notGranted(String part) {
        return Math.max(0, Math.round(1_000 * (1 - Double.parseDouble(part))) / 10.0);
    }
}
