package io.github.spillgate.failover;

import io.github.spillgate.Limit;
import io.github.spillgate.failover.HolderTraffic.Event;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.JavaProcess;
import java.io.IOException;
import java.io.PrintStream;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Another process with instances of a service; their work holds permits. It reports each work that begins or ends. */
final class HolderProcess implements AutoCloseable {

    private final JavaProcess process;
    private final List<Event> events = new CopyOnWriteArrayList<>();
    private final Thread reader;

    private HolderProcess(JavaProcess process) {
        this.process = process;
        this.reader = new Thread(this::read, "events of " + process.pid());
        reader.start();
    }

    private void read() {
        try {
            for (String line = process.readLine(); line != null; line = process.readLine()) {
                events.add(Event.parse(line));
            }
        } catch (IOException | IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
            // It was killed while it wrote a line.
        }
    }

    /** Starts the process, and returns when it is about to make its runs. */
    static HolderProcess start(String uri, int instances, Limit limit, int callers, int runs, long seed)
            throws IOException {
        return new HolderProcess(JavaProcess.start(HolderProcess.class, uri, instances, limit, callers, runs, seed)
                .awaitReady());
    }

    int reported() {
        return events.size();
    }

    /** Sends SIGKILL, and returns the time at which the process has ended, on the monotonic clock of this machine. */
    long kill() throws InterruptedException {
        process.kill();
        return System.nanoTime();
    }

    /** Waits until all runs are made, or the process is killed. */
    List<Event> events() throws InterruptedException {
        reader.join();
        return events;
    }

    @Override
    public void close() {
        process.close();
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
        JavaProcess.reportReady();
        traffic.run(Integer.parseInt(args[3]), Integer.parseInt(args[4]), Long.parseLong(args[5]))
                .block();
        out.flush();
        Runtime.getRuntime().halt(0);
    }
}
