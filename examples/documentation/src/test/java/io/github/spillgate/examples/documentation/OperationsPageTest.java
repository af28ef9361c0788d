package io.github.spillgate.examples.documentation;

import static io.github.spillgate.testkit.Snippets.ROOT;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The log lines on the page on operations, which must match the sources. */
class OperationsPageTest {

    private static final Pattern CODE = Pattern.compile("`([^`]+)`");
    private static final Pattern LOGGED = Pattern.compile("LOG\\.(?:warn|info)\\(\\s*\"((?:[^\"\\\\]|\\\\.)*)\"");
    private static final int ENOUGH = 20;

    private String page = "";

    @BeforeEach
    void read() throws IOException {
        page = Files.readString(ROOT.resolve("docs/operations.md"));
    }

    @Test
    void everyLogLineIsOnThePage() throws IOException {
        int lines = 0;
        for (Matcher logged = LOGGED.matcher(sources()); logged.find(); lines++) {
            String longest = Arrays.stream(logged.group(1).split("\\{}", -1))
                    .max(Comparator.comparingInt(String::length))
                    .orElseThrow();
            assertThat(page).contains(longest.substring(0, Math.min(ENOUGH, longest.length())));
        }
        assertThat(lines).isGreaterThan(10);
    }

    @Test
    void everyLogLineOnThePageIsInTheSources() throws IOException {
        String sources = sources();
        String list = page.substring(page.indexOf("\n## Logs"), page.indexOf("\n## Health"));
        List<String> lines = list.lines()
                .filter(line -> line.startsWith("- `"))
                .flatMap(line -> codes(line).stream())
                .toList();
        assertThat(lines).hasSizeGreaterThan(10);
        for (String line : lines) {
            for (String part : line.split("…|RedisStore\\[spillgate:3:\\*]|LocalFallback|X-Forwarded-For", -1)) {
                assertThat(sources).contains(part);
            }
        }
    }

    /** Returns the sources, with concatenated texts joined. */
    private static String sources() throws IOException {
        List<Path> files = new ArrayList<>();
        for (String module : List.of("reactive-core", "webflux-adapter", "vertx-adapter")) {
            try (Stream<Path> all = Files.walk(ROOT.resolve(module).resolve("src/main/java"))) {
                all.filter(file -> file.toString().endsWith(".java")).forEach(files::add);
            }
        }
        StringBuilder sources = new StringBuilder();
        for (Path file : files) {
            sources.append(Files.readString(file).replaceAll("\"\\s*\\+\\s*\"", ""));
        }
        return sources.toString();
    }

    private static List<String> codes(String text) {
        return CODE.matcher(text).results().map(code -> code.group(1)).toList();
    }
}
