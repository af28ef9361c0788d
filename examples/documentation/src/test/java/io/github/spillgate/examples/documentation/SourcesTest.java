package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Checks of sources that the formatter does not make: the length of comments and texts, and the names of types. */
class SourcesTest {

    private static final int LONGEST_LINE = 120;
    private static final String TEXT_BLOCK = "\"\"\"";
    private static final Pattern COMMENT = Pattern.compile("/\\*.*?\\*/|//[^\\n]*", Pattern.DOTALL);
    private static final Pattern TYPE = Pattern.compile("\\b(?:class|interface|enum|record)\\s+([A-Z]\\w*)");

    /** The name of every nested builder. */
    private static final Set<String> SHARED = Set.of("Builder");

    @Test
    void noLineIsLongerThanTheFormatterAllows() throws IOException {
        List<String> tooLong = new ArrayList<>();
        for (Path source : sources(ROOT, ".java", ".lua")) {
            boolean inTextBlock = false;
            int number = 0;
            for (String line : Files.readAllLines(source)) {
                number++;
                boolean isText = inTextBlock || line.contains(TEXT_BLOCK);
                inTextBlock ^= line.split(TEXT_BLOCK, -1).length % 2 == 0;
                if (line.length() > LONGEST_LINE && !isText) {
                    tooLong.add(ROOT.relativize(source) + ":" + number + " has " + line.length() + " characters");
                }
            }
        }
        assertThat(tooLong).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"reactive-core", "webflux-adapter", "vertx-adapter"})
    void noTwoTypesOfAModuleShareASimpleName(String module) throws IOException {
        Map<String, Path> known = new HashMap<>();
        List<String> shared = new ArrayList<>();
        for (Path source : sources(ROOT.resolve(module).resolve("src/main"), ".java")) {
            Matcher types =
                    TYPE.matcher(COMMENT.matcher(Files.readString(source)).replaceAll(""));
            while (types.find()) {
                Path other = known.put(types.group(1), source.getFileName());
                if (other != null && !SHARED.contains(types.group(1))) {
                    shared.add(types.group(1) + " is in " + other + " and in " + source.getFileName());
                }
            }
        }
        assertThat(known).hasSizeGreaterThan(10);
        assertThat(shared).isEmpty();
    }

    private static List<Path> sources(Path from, String... endings) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            return all.filter(file -> Stream.of(endings).anyMatch(file.toString()::endsWith))
                    .filter(file -> !file.toString().contains("/target/"))
                    .sorted()
                    .toList();
        }
    }
}
