package io.github.spillgate;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** One head can hold a package: it has few files, and its notes say where to read. */
class PackageMapTest {

    private static final String SOURCES = "src/main/java/io/github/spillgate";
    private static final int MOST_FILES = 20;

    static List<Path> packages() throws IOException {
        List<Path> packages = new ArrayList<>();
        for (String sources : List.of(
                SOURCES, "../webflux-adapter/" + SOURCES + "/webflux", "../vertx-adapter/" + SOURCES + "/vertx")) {
            try (Stream<Path> files = Files.walk(Path.of(sources))) {
                files.filter(Files::isDirectory).forEach(packages::add);
            }
        }
        return packages;
    }

    @ParameterizedTest
    @MethodSource("packages")
    void eachClassIsInTheNotesOfItsPackage(Path sources) throws IOException {
        String notes = Files.readString(sources.resolve("package-info.java"));
        List<String> missing = files(sources).stream()
                .filter(type -> !notes.matches("(?s).*\\b" + type + "\\b.*") && !type.equals("package-info"))
                .toList();
        assertThat(missing).isEmpty();
    }

    @ParameterizedTest
    @MethodSource("packages")
    void aPackageHasFewFiles(Path sources) throws IOException {
        assertThat(files(sources)).isNotEmpty().hasSizeLessThanOrEqualTo(MOST_FILES);
    }

    private static List<String> files(Path sources) throws IOException {
        try (Stream<Path> files = Files.list(sources)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(".java"))
                    .map(name -> name.replace(".java", ""))
                    .toList();
        }
    }
}
