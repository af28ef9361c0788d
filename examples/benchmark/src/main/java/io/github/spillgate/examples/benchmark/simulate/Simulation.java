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
 * What the algorithms let through, on virtual time: pictures of single clients, and tables of many. The same each time,
 * on whatever machine. Ours is what anybody uses, without Redis.
 */
public final class Simulation {

    private static final int QUICK = 200;

    private Simulation() {}

    /**
     * Writes a page and its pictures; of a page that is there, only the tables.
     *
     * @param directory where {@code algorithms.md} is, or is made, and beside it a directory with the pictures
     * @param quick one client of 200
     */
    public static void write(Path directory, boolean quick, PrintStream out) throws IOException {
        long begin = System.nanoTime();
        Path pictures = Files.createDirectories(directory.resolve("algorithms"));
        for (Scene scene : List.of(Scene.twoBursts(), Scene.goingOn())) {
            Files.writeString(pictures.resolve(scene.name() + ".svg"), scene.svg());
        }
        out.println("This takes about " + (quick ? "two seconds." : "a minute."));
        Tables tables = new Tables(quick ? QUICK : 1);
        Map<String, List<String>> made = new LinkedHashMap<>();
        List<List<String>> ofMixes = tables.ofMixes();
        made.put("counting", ofMixes.get(0));
        made.put("limiting", ofMixes.get(1));
        made.put("near", tables.near());
        Page page = new Page(directory.resolve("algorithms.md"));
        for (Map.Entry<String, List<String>> table : made.entrySet()) {
            page.put(table.getKey(), table.getValue());
            out.println();
            table.getValue().forEach(out::println);
        }
        out.printf(
                Locale.ROOT,
                "%n%,d requests in %,d s. All of it is in %s%n",
                tables.requests(),
                Duration.ofNanos(System.nanoTime() - begin).toSeconds(),
                directory.toAbsolutePath());
    }
}
