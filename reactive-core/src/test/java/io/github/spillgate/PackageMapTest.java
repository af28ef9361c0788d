package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The notes of a large package say where to read. */
class PackageMapTest {

    private static final Path SOURCES = Path.of("src/main/java/io/github/spillgate");

    @ParameterizedTest
    @ValueSource(
            strings = {
                "count",
                "failover",
                "failover/lease",
                "failover/ledger",
                "http",
                "http/address",
                "http/response",
                "http/settings",
                "internal/holding",
                "internal/syntax",
                "internal/waiting",
                "postgres",
                "redis",
                "redis/lane",
                "store"
            })
    void eachClassIsInTheNotesOfItsPackage(String name) throws IOException {
        Path sources = SOURCES.resolve(name);
        String notes = Files.readString(sources.resolve("package-info.java"));
        try (Stream<Path> files = Files.list(sources)) {
            List<String> missing = files.map(
                            file -> file.getFileName().toString().replace(".java", ""))
                    .filter(type -> !notes.matches("(?s).*\\b" + type + "\\b.*") && !type.equals("package-info"))
                    .toList();
            assertThat(missing).isEmpty();
        }
    }
}
