package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The rows of the page on failures, which must match the tests of failures one to one. */
class FailuresPageTest {

    private static final String TESTS =
            "reactive-core/src/test/java/io/github/spillgate/failover/ResilientStoreChaosTest.java";
    private static final Pattern TEST = Pattern.compile("@Test\\s+(?:@Thorough\\s+)?@DisplayName\\(\"([^\"]+)\"\\)");
    private static final Pattern TABLE = Pattern.compile("(?s)\\| Redis … \\|.*?\\n\\n");
    private static final Pattern ROW = Pattern.compile("(?m)^\\| ([^|]+) \\|");

    @Test
    void rowsAndTestsMatchOneToOne() throws IOException {
        String tests = Files.readString(ROOT.resolve(TESTS));
        Matcher table = TABLE.matcher(Files.readString(ROOT.resolve("docs/when-redis-fails.md")));
        assertThat(table.find()).isTrue();
        List<String> rows = firsts(ROW, table.group()).stream()
                .skip(1)
                .map(row -> row.replace("`", ""))
                .toList();
        assertThat(rows).hasSizeGreaterThan(10).containsExactlyInAnyOrderElementsOf(firsts(TEST, tests));
        assertThat(rows).hasSameSizeAs(firsts(Pattern.compile("(@Test)"), tests));
    }

    private static List<String> firsts(Pattern pattern, String text) {
        return pattern.matcher(text).results().map(found -> found.group(1)).toList();
    }
}
