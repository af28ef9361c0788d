package io.github.spillgate.examples.benchmark.simulate;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Simulates what the algorithms admit, in virtual time: pictures of single clients, and tables of many. Reproducible on
 * every machine. Uses our limiter through its public API, without Redis.
 */
public final class Simulation {

    private static final int QUICK = 200;

    private Simulation() {}

    /**
     * Writes the tables of a page and its pictures; the rest of an existing page is kept. If there is a page on leases,
     * draws its table.
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
        Path leases = directory.resolve(LeasePage.NAME);
        if (Files.exists(leases)) {
            Files.writeString(
                    pictures.resolve(LeasePage.CHART), LeasePage.chart(leases).svg());
        }
        out.println("This takes about " + (quick ? "two seconds." : "a minute."));
        Tables tables = new Tables(quick ? QUICK : 1);
        Map<String, List<String>> made = new LinkedHashMap<>();
        List<List<String>> ofMixes = tables.ofMixes();
        made.put("counting", ofMixes.get(0));
        made.put("limiting", ofMixes.get(1));
        made.put("near", tables.near());
        Page page = new Page(directory.resolve("simulation.md"));
        for (Map.Entry<String, List<String>> table : made.entrySet()) {
            page.put(table.getKey(), table.getValue());
            out.println();
            table.getValue().forEach(out::println);
        }
        out.printf(
                Locale.ROOT,
                "%n%,d requests in %,d s. Written to %s%n",
                tables.requests(),
                Duration.ofNanos(System.nanoTime() - begin).toSeconds(),
                directory.toAbsolutePath());
    }
}
