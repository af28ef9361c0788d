package io.github.spillgate.testkit;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Another JVM, which runs a main class of the tests. Its standard output has one message on each line. */
public final class JavaProcess implements AutoCloseable {

    private static final String READY = "ready";

    private final Process process;
    private final BufferedReader output;

    private JavaProcess(Process process) {
        this.process = process;
        this.output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Starts a JVM with the class path of this one. */
    public static JavaProcess start(Class<?> main, Object... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx256m",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                main.getName()));
        Stream.of(arguments).map(String::valueOf).forEach(command::add);
        return new JavaProcess(new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start());
    }

    /** Tells the other process that {@link #awaitReady()} may return. To be called there, before other output. */
    public static void reportReady() {
        System.out.println(READY);
    }

    public JavaProcess awaitReady() throws IOException {
        String first = output.readLine();
        if (!READY.equals(first)) {
            close();
            throw new IOException("the other process said " + first + " instead of " + READY);
        }
        return this;
    }

    public long pid() {
        return process.pid();
    }

    /** Returns the next line, or null if there is none any more. */
    public String readLine() throws IOException {
        return output.readLine();
    }

    public void writeLine(String line) throws IOException {
        process.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
        process.getOutputStream().flush();
    }

    /** Sends SIGKILL, and waits until the process has ended. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** Sends SIGKILL. What the process has written can still be read. */
    @Override
    public void close() {
        process.destroyForcibly();
    }
}
