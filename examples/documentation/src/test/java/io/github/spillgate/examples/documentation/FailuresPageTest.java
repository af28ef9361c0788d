package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Every row of the page on failures is a test, and every failure that is tested is a row. */
class FailuresPageTest {

    private static final String TESTS =
            "reactive-core/src/test/java/io/github/spillgate/resilience/ResilientStoreChaosTest.java";
    private static final Pattern TEST = Pattern.compile("@Test\\s+(?:@\\w+(?:\\([^)]*\\))?\\s+)*void (\\w+)\\(");
    private static final Pattern ROW = Pattern.compile("(?m)^\\|.*\\| `(\\w+)` \\|$");

    @Test
    void everyRowIsATestAndEveryTestIsARow() throws IOException {
        List<String> rows = all(ROW, "docs/when-redis-fails.md");
        assertThat(rows).hasSizeGreaterThan(10).containsExactlyInAnyOrderElementsOf(all(TEST, TESTS));
    }

    private static List<String> all(Pattern pattern, String file) throws IOException {
        return pattern.matcher(Files.readString(ROOT.resolve(file)))
                .results()
                .map(found -> found.group(1))
                .toList();
    }
}
