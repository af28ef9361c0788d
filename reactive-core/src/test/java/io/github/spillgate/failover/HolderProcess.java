package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.HolderTraffic.Event;
import io.github.spillgate.redis.RedisStore;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Another process with instances of a service; their work holds permits. It reports each work that begins or ends. */
final class HolderProcess implements AutoCloseable {

    private final Process process;
    private final List<Event> events = new CopyOnWriteArrayList<>();
    private final Thread reader;

    private HolderProcess(Process process, BufferedReader output) {
        this.process = process;
        this.reader = new Thread(() -> read(output), "events of " + process.pid());
    }

    private void read(BufferedReader output) {
        try {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                events.add(Event.parse(line));
            }
        } catch (IOException | IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
            // It was killed while it wrote a line.
        }
    }

    /** Starts the process, and returns when it is about to make its runs. */
    static HolderProcess start(String uri, int instances, Limit limit, int callers, int runs, long seed)
            throws IOException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx256m",
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        System.getProperty("java.class.path"),
                        HolderProcess.class.getName(),
                        uri,
                        Integer.toString(instances),
                        limit.toString(),
                        Integer.toString(callers),
                        Integer.toString(runs),
                        Long.toString(seed))
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        BufferedReader output =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        HolderProcess started = new HolderProcess(process, output);
        String first = output.readLine();
        if (!"ready".equals(first)) {
            started.close();
            throw new IOException("the other process said " + first + " instead of ready");
        }
        started.reader.start();
        return started;
    }

    int reported() {
        return events.size();
    }

    /** Sends SIGKILL, and returns the time at which the process has ended, on the monotonic clock of this machine. */
    long kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
        return System.nanoTime();
    }

    /** Waits until all runs are made, or the process is killed. */
    List<Event> events() throws InterruptedException {
        reader.join();
        return events;
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }

    public static void main(String[] args) {
        // Each event is written before the work goes on, so that a killed process has reported what it has begun.
        PrintStream out = System.out;
        HolderTraffic traffic = new HolderTraffic(
                RedisStore.uri(args[0]), Integer.parseInt(args[1]), Limit.parse(args[2]), Fallback::error, event -> {
                    synchronized (out) {
                        out.print(event + "\n");
                        out.flush();
                    }
                });
        out.print("ready\n");
        out.flush();
        traffic.run(Integer.parseInt(args[3]), Integer.parseInt(args[4]), Long.parseLong(args[5]))
                .block();
        out.flush();
        Runtime.getRuntime().halt(0);
    }
}
