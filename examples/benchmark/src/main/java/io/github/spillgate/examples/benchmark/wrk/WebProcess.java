package io.github.spillgate.examples.benchmark.wrk;

import io.github.spillgate.examples.benchmark.contender.WebServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A started {@link ServerProcess}, and what it has used. */
final class WebProcess implements AutoCloseable {

    private final WebServer server;
    private final Process process;
    private final int port;

    private WebProcess(WebServer server, Process process, int port) {
        this.server = server;
        this.process = process;
        this.port = port;
    }

    static WebProcess start(WebServer server, int redisPort) throws IOException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xms512m",
                        "-Xmx512m",
                        "-cp",
                        System.getProperty("java.class.path"),
                        ServerProcess.class.getName(),
                        server.name(),
                        Integer.toString(redisPort))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader lines = process.inputReader(StandardCharsets.US_ASCII);
        String line = lines.readLine();
        while (line != null && !line.matches("\\d+")) {
            line = lines.readLine();
        }
        if (line == null) {
            throw new IOException("the server \"" + server.title() + "\" has ended before it printed its port");
        }
        return new WebProcess(server, process, Integer.parseInt(line));
    }

    WebServer server() {
        return server;
    }

    int port() {
        return port;
    }

    /** Returns the CPU time of the process since its start, in microseconds. */
    double cpuMicros() {
        return process.info().totalCpuDuration().orElseThrow().toNanos() / 1e3;
    }

    /** Returns the context switches of all running threads; 0 where the system does not report them. */
    long contextSwitches() throws IOException {
        Path tasks = Path.of("/proc", Long.toString(process.pid()), "task");
        if (!Files.isDirectory(tasks)) {
            return 0;
        }
        long sum = 0;
        try (Stream<Path> all = Files.list(tasks)) {
            for (Path task : all.toList()) {
                sum += lines(task.resolve("status")).stream()
                        .filter(line -> line.contains("ctxt_switches:"))
                        .mapToLong(line -> Long.parseLong(
                                line.substring(line.indexOf(':') + 1).strip()))
                        .sum();
            }
        }
        return sum;
    }

    private static List<String> lines(Path status) throws IOException {
        try {
            return Files.readAllLines(status);
        } catch (NoSuchFileException e) {
            // The thread has just ended.
            return List.of();
        }
    }

    @Override
    public void close() throws IOException {
        process.getOutputStream().close();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
