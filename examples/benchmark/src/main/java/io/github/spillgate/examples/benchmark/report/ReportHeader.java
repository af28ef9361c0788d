package io.github.spillgate.examples.benchmark.report;

import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Properties;
import java.util.stream.Collectors;

/** The software and the machine of a run. */
public record ReportHeader(List<String> lines) {

    private static final String VERSIONS = "/io/github/spillgate/examples/benchmark/versions.properties";

    public ReportHeader {
        lines = List.copyOf(lines);
    }

    public static ReportHeader of(String servers, int rounds, Duration slice) throws IOException {
        return new ReportHeader(List.of(
                servers,
                "JVM " + System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version"),
                System.getProperty("os.name") + " on " + System.getProperty("os.arch") + ", "
                        + Runtime.getRuntime().availableProcessors() + " processors",
                versions(),
                rounds + (rounds == 1 ? " round" : " rounds") + " of " + slice.toMillis()
                        + " ms each; medians, and in brackets the lowest and the highest"));
    }

    private static String versions() throws IOException {
        Properties versions = new Properties();
        try (InputStream text = Objects.requireNonNull(ReportHeader.class.getResourceAsStream(VERSIONS), VERSIONS)) {
            versions.load(text);
        }
        return versions.stringPropertyNames().stream()
                .sorted()
                .map(name -> name + " " + versions.getProperty(name))
                .collect(Collectors.joining(", "));
    }
}
