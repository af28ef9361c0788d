package io.github.spillgate.examples.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A table of a page.
 *
 * @param head the cells of the head
 * @param rows the cells of the rows below it
 */
record MarkdownTable(List<String> head, List<List<String>> rows) {

    /** Returns all tables of a text. */
    static List<MarkdownTable> all(String text) {
        List<MarkdownTable> tables = new ArrayList<>();
        List<List<String>> rows = new ArrayList<>();
        for (String line : (text + "\n").split("\n", -1)) {
            if (line.startsWith("| ")) {
                rows.add(cells(line));
            } else if (!line.startsWith("|-") && !rows.isEmpty()) {
                tables.add(new MarkdownTable(rows.get(0), List.copyOf(rows.subList(1, rows.size()))));
                rows.clear();
            }
        }
        return tables;
    }

    /** Returns the only table of a text. */
    static MarkdownTable only(String text) {
        List<MarkdownTable> tables = all(text);
        assertThat(tables).hasSize(1);
        return tables.get(0);
    }

    private static List<String> cells(String line) {
        return Arrays.stream(line.substring(1, line.length() - 1).split("\\|", -1))
                .map(String::strip)
                .toList();
    }
}
