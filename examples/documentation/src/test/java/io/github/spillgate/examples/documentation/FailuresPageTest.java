package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The failures that the page on failures lists, which must match the tests of failures one to one. */
class FailuresPageTest {

    private static final String TESTS =
            "reactive-core/src/test/java/io/github/spillgate/failover/ResilientStoreChaosTest.java";
    private static final Pattern TEST = Pattern.compile("@Test\\s+(?:@Thorough\\s+)?@DisplayName\\(\"([^\"]+)\"\\)");
    private static final Pattern SECTION = Pattern.compile("(?s)\\n## What callers see\\n.*?\\n## ");

    /** A failure, with what is special about it in parentheses. */
    private static final Pattern FAILURE = Pattern.compile("(?m)^- ([^(\\n]+?)(?: \\(.*\\))?$");

    @Test
    void failuresAndTestsMatchOneToOne() throws IOException {
        String tests = Files.readString(ROOT.resolve(TESTS));
        Matcher section = SECTION.matcher(Files.readString(ROOT.resolve("docs/when-redis-fails.md")));
        assertThat(section.find()).isTrue();
        List<String> failures = firsts(FAILURE, section.group()).stream()
                .map(failure -> failure.replace("`", ""))
                .toList();
        assertThat(failures).hasSizeGreaterThan(10).containsExactlyInAnyOrderElementsOf(firsts(TEST, tests));
        assertThat(failures).hasSameSizeAs(firsts(Pattern.compile("(@Test)"), tests));
    }

    private static List<String> firsts(Pattern pattern, String text) {
        return pattern.matcher(text).results().map(found -> found.group(1)).toList();
    }
}
