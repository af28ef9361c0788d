package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A table of a page.
 *
 * @param head the cells of the head
 * @param rows the cells of the rows below it
 */
public record MarkdownTable(List<String> head, List<List<String>> rows) {

    private static final Path SETTINGS = Snippets.ROOT.resolve("docs/settings.md");

    /** Returns all tables of a text. */
    public static List<MarkdownTable> all(String text) {
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
    public static MarkdownTable only(String text) {
        List<MarkdownTable> tables = all(text);
        assertThat(tables).hasSize(1);
        return tables.get(0);
    }

    /**
     * Returns the type and the default of each setting on the page of settings, as {@code type | default}. A default
     * that is not code, such as "none", is left empty.
     *
     * @param sections the headings of the second level, such as {@code Rules}
     */
    public static Map<String, String> settings(String... sections) throws IOException {
        String[] parts = Files.readString(SETTINGS).split("(?m)^## ", -1);
        Map<String, String> settings = new LinkedHashMap<>();
        for (String section : sections) {
            String part = Arrays.stream(parts)
                    .filter(text -> text.startsWith(section + "\n"))
                    .findFirst()
                    .orElseThrow(() -> new AssertionError("no section " + section));
            for (MarkdownTable table : all(part)) {
                assertThat(table.head()).containsExactly("setting", "type", "default", "meaning");
                for (List<String> row : table.rows()) {
                    String value = row.get(2).matches("`[^`]+`") ? row.get(2).replace("`", "") : "";
                    assertThat(row.get(0)).as("one setting a row").matches("`[a-z0-9.<>-]+`");
                    assertThat(row.get(3)).as("%s", row).isNotBlank();
                    assertThat(settings.put(row.get(0).replace("`", ""), typeAndDefault(row.get(1), value)))
                            .as("two rows of %s", row.get(0))
                            .isNull();
                }
            }
        }
        return settings;
    }

    /** Returns what {@link #settings} has for a setting; choices in any order. */
    public static String typeAndDefault(String type, String value) {
        List<String> choices = Arrays.stream(type.split(", ", -1))
                .map(choice -> choice.replace("`", ""))
                .sorted()
                .toList();
        return String.join(", ", choices) + " | " + value;
    }

    private static List<String> cells(String line) {
        return Arrays.stream(line.substring(1, line.length() - 1).split("\\|", -1))
                .map(String::strip)
                .toList();
    }
}
