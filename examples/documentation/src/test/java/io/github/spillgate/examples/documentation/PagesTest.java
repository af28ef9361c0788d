package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.MarkdownTable;
import io.github.spillgate.testkit.Snippets;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * The Markdown of the pages: tables are complete, blocks are recognized, and commands name existing modules and tests.
 */
class PagesTest {

    private static final Pattern BLOCK = Pattern.compile("(?ms)^```.*?^```$");

    /** A block that the other tests do not recognize. */
    private static final Pattern OTHER_BLOCK = Pattern.compile("(?m)^(?:[ \\t]+```|[ \\t]*~~~).*$");

    private static final Pattern COLUMN = Pattern.compile("(?<!\\\\)\\|");

    private static final Pattern BELOW_HEAD = Pattern.compile("\\|(?: *:?-+:? *\\|)+");

    private static final Pattern METER = Pattern.compile("(?m)^\\| `(spillgate\\.[a-z.]+)` \\|");

    /** In code, but not the name of a class, a package or a file. */
    private static final Pattern SETTING = Pattern.compile("`(spillgate(?:\\.[a-z0-9-]+)+)(?=[`=:])");

    private static final Pattern MODULES = Pattern.compile("\\bmvn [^\\n`]*-pl ([\\w,/-]+)");

    private static final Pattern PROFILES = Pattern.compile("\\bmvn [^\\n`]*-P ?(\\w+)");

    private static final Pattern TESTS = Pattern.compile("\\bmvn [^\\n`]*-Dtest='?([\\w,]+)");

    @TestFactory
    Stream<DynamicTest> everyTableHasAHeadAndMatchingColumns() throws IOException {
        return Snippets.pages().stream()
                .map(page -> DynamicTest.dynamicTest(ROOT.relativize(page).toString(), () -> assertTables(page)));
    }

    private static void assertTables(Path page) throws IOException {
        List<String> lines =
                BLOCK.matcher(Files.readString(page)).replaceAll("").lines().toList();
        long columns = 0;
        for (int i = 0; i < lines.size(); i++) {
            String line = lines.get(i);
            if (!line.startsWith("|")) {
                columns = 0;
            } else if (columns == 0) {
                columns = columns(line);
                assertThat(i + 1).as("the last line: %s", line).isLessThan(lines.size());
                assertThat(lines.get(i + 1)).as("below %s", line).matches(BELOW_HEAD);
            } else {
                assertThat(columns(line)).as(line).isEqualTo(columns);
            }
        }
    }

    private static long columns(String line) {
        return COLUMN.matcher(line).results().count();
    }

    @Test
    void everyBlockStartsAtTheMargin() throws IOException {
        for (Path page : Snippets.pages()) {
            assertThat(OTHER_BLOCK.matcher(Files.readString(page)).results().map(MatchResult::group))
                    .as(ROOT.relativize(page).toString())
                    .isEmpty();
        }
    }

    @Test
    void commandsNameExistingModulesAndTests() throws IOException {
        Set<String> tests = new HashSet<>();
        StringBuilder poms = new StringBuilder();
        for (Path file : Snippets.files(ROOT)) {
            String name = file.getFileName().toString();
            if (name.endsWith("Test.java")) {
                tests.add(name.replace(".java", ""));
            } else if (name.equals("pom.xml")) {
                poms.append(Files.readString(file));
            }
        }
        for (String module : typed(MODULES)) {
            assertThat(ROOT.resolve(module).resolve("pom.xml")).exists();
        }
        assertThat(tests).containsAll(typed(TESTS));
        assertThat(typed(PROFILES)).allSatisfy(id -> assertThat(poms).contains("<id>" + id + "</id>"));
    }

    /** A name without its last part is that of several settings. */
    @Test
    void namesOfSettingsAndMetersExist() throws IOException {
        Set<String> known = new HashSet<>(
                MarkdownTable.settings("Limiter", "Only in Spring Boot").keySet());
        METER.matcher(Files.readString(ROOT.resolve("docs/operations.md")))
                .results()
                .forEach(meter -> known.add(meter.group(1)));
        known.add("spillgate.decision"); // a span
        int named = 0;
        for (Path page : Snippets.pages()) {
            for (MatchResult found :
                    SETTING.matcher(Files.readString(page)).results().toList()) {
                String name = found.group(1).replaceFirst("limiters\\.[a-z]+\\.", "limiters.<name>.");
                named++;
                assertThat(known)
                        .as("%s on %s", name, ROOT.relativize(page))
                        .anyMatch(it -> it.equals(name) || it.startsWith(name + "."));
            }
        }
        assertThat(named).isGreaterThan(50);
    }

    /** Returns the names in the commands of all pages; a command may list several, separated by commas. */
    private static Set<String> typed(Pattern pattern) throws IOException {
        Set<String> typed = new HashSet<>();
        for (Path page : Snippets.pages()) {
            pattern.matcher(Files.readString(page))
                    .results()
                    .flatMap(found -> Stream.of(found.group(1).split(",")))
                    .forEach(typed::add);
        }
        assertThat(typed).as(pattern.pattern()).isNotEmpty();
        return typed;
    }
}
