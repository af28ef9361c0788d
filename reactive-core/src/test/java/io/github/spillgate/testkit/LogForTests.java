package io.github.spillgate.testkit;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Stream;

/** What is said in the log while a test runs. */
public final class LogForTests implements AutoCloseable {

    private final ByteArrayOutputStream written = new ByteArrayOutputStream();
    private final PrintStream before = System.err;

    private LogForTests() {
        System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
    }

    /** Listens, until it is closed. */
    public static LogForTests listen() {
        return new LogForTests();
    }

    /**
     * The lines until now of which all of these are parts. Limiters of earlier tests may still log: a test of which
     * lines there are not, or how many, also names its store.
     */
    public List<String> lines(String... parts) {
        return written.toString(StandardCharsets.UTF_8)
                .lines()
                .filter(line -> Stream.of(parts).allMatch(line::contains))
                .toList();
    }

    @Override
    public void close() {
        System.setErr(before);
    }
}
