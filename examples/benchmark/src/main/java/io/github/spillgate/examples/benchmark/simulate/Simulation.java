package io.github.spillgate.examples.benchmark.simulate;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;

/**
 * Simulates what the algorithms admit, in virtual time: pictures of single clients, also for the page on limits, and a
 * table of many. Reproducible on every machine. Uses our limiter through its public API, without Redis.
 */
public final class Simulation {

    private static final int QUICK = 200;

    private Simulation() {}

    /**
     * Writes the table of a page and its pictures; the rest of an existing page is kept.
     *
     * @param directory the directory of {@code simulation.md}, and of the directory of its pictures
     * @param quick whether to simulate only one client in 200
     */
    public static void write(Path directory, boolean quick, PrintStream out) throws IOException {
        long begin = System.nanoTime();
        Path pictures = Files.createDirectories(directory.resolve("simulation"));
        for (Scenario scenario : List.of(Scenario.twoBursts(), Scenario.goingOn())) {
            Files.writeString(pictures.resolve(scenario.name() + ".svg"), scenario.svg());
        }
        for (Timeline timeline : Timeline.all()) {
            Files.writeString(
                    pictures.resolve(timeline.name() + ".svg"), timeline.chart().svg());
        }
        out.println("This takes about " + (quick ? "two seconds." : "a minute."));
        MixTable table = new MixTable(quick ? QUICK : 1);
        List<String> lines = table.lines();
        new Page(directory.resolve("simulation.md")).put("limiting", lines);
        lines.forEach(out::println);
        out.printf(
                Locale.ROOT,
                "%n%,d requests in %,d s. Written to %s%n",
                table.requests(),
                Duration.ofNanos(System.nanoTime() - begin).toSeconds(),
                directory.toAbsolutePath());
    }
}
