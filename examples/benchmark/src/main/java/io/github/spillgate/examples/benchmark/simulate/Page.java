package io.github.spillgate.examples.benchmark.simulate;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A page with generated tables. Replaces the text between the marks of a table, and appends a table without marks. */
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
