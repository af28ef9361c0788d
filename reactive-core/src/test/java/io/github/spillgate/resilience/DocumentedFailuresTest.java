package io.github.spillgate.resilience;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Every row of the page about failures is a test, and every failure that is tested is a row. */
class DocumentedFailuresTest {

    private static final Pattern ROW = Pattern.compile("(?m)^\\|.*\\| `(\\w+)` \\|$");

    @Test
    void everyRowIsATestAndEveryTestIsARow() throws IOException {
        String page = Files.readString(Path.of("..", "docs", "when-redis-fails.md"));
        List<String> rows = ROW.matcher(page).results().map(row -> row.group(1)).toList();
        assertThat(rows)
                .containsExactlyInAnyOrderElementsOf(Stream.of(ResilientStoreChaosTest.class.getDeclaredMethods())
                        .filter(method -> method.isAnnotationPresent(Test.class))
                        .map(java.lang.reflect.Method::getName)
                        .toList());
    }
}
