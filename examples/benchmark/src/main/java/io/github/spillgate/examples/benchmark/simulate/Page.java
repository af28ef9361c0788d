package io.github.spillgate.examples.benchmark.simulate;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * A page with tables on it: what is between a table's marks is written anew; a table without marks is added at the end.
 */
record Page(Path file) {

    void put(String name, List<String> table) throws IOException {
        String begin = "<!-- simulated: " + name + " -->\n";
        String end = "\n<!-- end -->";
        String text = Files.exists(file) ? Files.readString(file) : "";
        int from = text.indexOf(begin);
        int to = text.indexOf(end, from);
        String lines = begin + String.join("\n", table);
        if (from >= 0 && to > from) {
            text = text.substring(0, from) + lines + text.substring(to);
        } else {
            text = text + lines + end + "\n\n";
        }
        Files.writeString(file, text);
    }
}
