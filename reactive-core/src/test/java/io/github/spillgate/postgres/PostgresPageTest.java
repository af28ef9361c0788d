package io.github.spillgate.postgres;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** What docs/postgres.md repeats. */
class PostgresPageTest {

    private static String page() throws IOException {
        return Files.readString(Path.of("../docs/postgres.md"));
    }

    @Test
    void everyOptionIsListed() throws IOException {
        for (Method option : PostgresStore.Builder.class.getDeclaredMethods()) {
            if (Modifier.isPublic(option.getModifiers()) && !option.getName().equals("build")) {
                assertThat(page()).contains("\n| `" + option.getName() + "(");
            }
        }
    }

    @Test
    void theTableIsTheOneOfTheJar() throws IOException {
        String schema = Files.readString(Path.of("src/main/resources/io/github/spillgate/postgres/schema.sql"));
        assertThat(page()).contains("```text\n" + schema.replaceAll("(?m)^--.*\n", "") + "```");
    }
}
