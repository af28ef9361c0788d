package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The notes of the package tell where to read. */
class PackageMapTest {

    private static final Path SOURCES = Path.of("src/main/java/io/github/spillgate/failover");

    @Test
    void eachClassIsInTheNotesOfThePackage() throws IOException {
        String notes = Files.readString(SOURCES.resolve("package-info.java"));
        try (Stream<Path> files = Files.list(SOURCES)) {
            List<String> missing = files.map(
                            file -> file.getFileName().toString().replace(".java", ""))
                    .filter(name -> !notes.matches("(?s).*\\b" + name + "\\b.*") && !name.equals("package-info"))
                    .toList();
            assertThat(missing).isEmpty();
        }
    }
}
