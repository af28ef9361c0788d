package io.github.spillgate.testkit;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.function.IntSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.net.SocketFactory;
import org.awaitility.core.ConditionFactory;
import org.awaitility.core.ConditionTimeoutException;

/**
 * A {@code redis-server} of the tests: in a directory of its own, on the loopback interface alone, without persistence.
 *
 * <p>It counts as started when its port answers {@code PING} <em>and</em> reports the id of the process that was
 * started. The port was free a moment ago, but another server may have taken it since, and would answer as well.
 */
final class RedisProcess {

    private static final String LOOPBACK = "127.0.0.1";
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(2);
    private static final int TRIES = 5;
    private static final int LINES_SHOWN = 50;

    private final Path binary;
    private final Path directory;
    private final Listening listening;
    private final List<String> more;
    private Running running;

    private RedisProcess(Path binary, Path directory, Listening listening, List<String> more, IntSupplier ports) {
        this.binary = binary;
        this.directory = directory;
        this.listening = listening;
        this.more = more;
        this.running = launch(ports);
    }

    static RedisProcess start(Path binary, Listening listening) {
        return start(binary, listening, RedisProcess::freePort, List.of());
    }

    /**
     * Starts the binary on the first of these ports that it can have.
     *
     * @param more further arguments, which come first: the first of them may be a file
     */
    static RedisProcess start(Path binary, Listening listening, IntSupplier ports, List<String> more) {
        Path directory = Leftovers.newDirectory("redis-data");
        try {
            return new RedisProcess(binary, directory, listening, more, ports);
        } catch (RuntimeException e) {
            Leftovers.delete(directory);
            throw e;
        }
    }

    Path binary() {
        return binary;
    }

    synchronized String address() {
        return listening.scheme() + "://" + LOOPBACK + ":" + running.port();
    }

    synchronized Info info() {
        return running.info();
    }

    synchronized int port() {
        return running.port();
    }

    synchronized long pid() {
        return running.process().pid();
    }

    /** Sends SIGSTOP, and waits until the process has stopped, where the system reports that. */
    synchronized void pause() {
        signal("STOP");
        Path stat = Path.of("/proc", Long.toString(pid()), "stat");
        if (Files.exists(stat)) {
            waiting("process " + pid() + " stops after SIGSTOP").until(() -> isStopped(stat));
        }
    }

    synchronized void resume() {
        signal("CONT");
    }

    synchronized void kill() {
        end(running.process());
    }

    synchronized void restart() {
        kill();
        int port = running.port();
        running = launch(() -> port);
    }

    synchronized void close() {
        kill();
        Leftovers.delete(directory);
    }

    private Running launch(IntSupplier ports) {
        for (int tries = 1; ; tries++) {
            try {
                return launch(ports.getAsInt());
            } catch (PortTakenException e) {
                if (tries == TRIES) {
                    throw e;
                }
            }
        }
    }

    private Running launch(int port) {
        Path output = directory.resolve("output.log");
        Process process = spawn(port, output);
        Leftovers.PROCESSES.add(process);
        try {
            return new Running(process, port, awaitAnswer(process, port));
        } catch (ConditionTimeoutException | IllegalStateException e) {
            boolean hasDied = !process.isAlive();
            end(process);
            String said = lastLines(output);
            String text = binary + ": " + e.getMessage() + "; it said:\n" + said + remedy(said);
            // All versions name their "listening" socket when they cannot have the port, and agree on nothing else.
            throw hasDied && said.contains("listening")
                    ? new PortTakenException(text, e)
                    : new IllegalStateException(text, e);
        }
    }

    private Process spawn(int port, Path output) {
        List<String> command = new ArrayList<>(List.of(binary.toString()));
        command.addAll(more);
        command.addAll(listening.options().apply(port));
        command.addAll(List.of("--bind", LOOPBACK, "--save", "", "--appendonly", "no", "--daemonize", "no"));
        command.addAll(List.of("--dir", directory.toString()));
        try {
            return new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(output.toFile())
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e.getMessage() + remedy(String.valueOf(e.getMessage())), e);
        }
    }

    private Info awaitAnswer(Process process, int port) {
        String pid = Long.toString(process.pid());
        Optional<Info> answer = waiting("process " + pid + " answers PING on port " + port)
                .until(
                        () -> ask(port),
                        info -> info.filter(each -> each.processId().equals(pid))
                                        .isPresent()
                                || !process.isAlive());
        return answer.filter(info -> process.isAlive())
                .orElseThrow(() -> new IllegalStateException(
                        "ended with exit code " + process.exitValue() + " before it answered PING"));
    }

    /** Uses a plain socket, because it is not known yet whether a server listens. */
    private Optional<Info> ask(int port) {
        try (Socket socket = listening.sockets().createSocket()) {
            socket.setSoTimeout(1_000);
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1_000);
            socket.getOutputStream().write("PING\r\nINFO server\r\n".getBytes(StandardCharsets.US_ASCII));
            // The server closes the connection after its replies; not every Sentinel knows QUIT.
            socket.shutdownOutput();
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return answer.startsWith("+PONG") ? Optional.of(Info.parse(answer)) : Optional.empty();
        } catch (IOException e) {
            // The server does not listen yet, or is busy: the caller retries until its deadline.
            return Optional.empty();
        }
    }

    private static String lastLines(Path output) {
        try {
            List<String> lines = Files.readAllLines(output, StandardCharsets.ISO_8859_1);
            return lines.isEmpty()
                    ? "  (nothing)"
                    : "  | "
                            + String.join(
                                    "\n  | ", lines.subList(Math.max(0, lines.size() - LINES_SHOWN), lines.size()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void signal(String signal) {
        if (isWindows()) {
            throw new UnsupportedOperationException("Windows has no SIG" + signal + ": expected Linux or macOS");
        }
        if (!running.process().isAlive()) {
            // Another process may have its id by now.
            throw new IllegalStateException("no SIG" + signal + " for process " + pid() + ", which was killed");
        }
        // The kill of the shell: slim images have no program of that name.
        run("kill -" + signal, List.of("/bin/sh", "-c", "kill -" + signal + " " + pid()));
    }

    /** Runs a program, and fails with its output unless it exits with 0. */
    static void run(String what, List<String> command) {
        try {
            Process process =
                    new ProcessBuilder(command).redirectErrorStream(true).start();
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            awaitEnd(process);
            if (process.exitValue() != 0) {
                throw new IllegalStateException(what + " failed; it said: " + said);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The state is the first field behind the name of the program, and the name may hold anything. */
    private static boolean isStopped(Path stat) throws IOException {
        String text = Files.readString(stat);
        return text.startsWith(") T", text.lastIndexOf(')'));
    }

    /** Sends SIGKILL, because SIGTERM would wait in the queue of a paused process. */
    static void end(Process process) {
        // The binary may be a script around the server.
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
        awaitEnd(process);
        Leftovers.PROCESSES.remove(process);
    }

    private static void awaitEnd(Process process) {
        try {
            if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                throw new IllegalStateException("expected process " + process.pid() + " to end");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted before process " + process.pid() + " ended", e);
        }
    }

    private static ConditionFactory waiting(String what) {
        return await(what).atMost(PATIENCE).pollDelay(Duration.ZERO).pollInterval(POLL);
    }

    /** What to do about the complaints that a binary from elsewhere is likely to make. */
    private static String remedy(String said) {
        if (said.contains("libssl") || said.contains("libcrypto")) {
            return "\nIt needs OpenSSL 3: apt-get install libssl3, dnf install openssl-libs, brew install openssl@3;"
                    + " Debian 11 and RHEL 8 have none, install their own redis-server there.";
        }
        if (said.contains("tls-") && said.contains("Bad directive")) {
            return "\nIt was built without TLS: expected one that was built with it, as those of Debian are, or with"
                    + " make BUILD_TLS=yes.";
        }
        if (said.contains("GLIBC_")) {
            return "\nIt needs glibc 2.34, and Debian 11 and RHEL 8 have less: install the system's own redis-server.";
        }
        if (said.contains("No such file or directory")) {
            return "\nIf the file is there, its loader is not, as on Alpine (musl): apk add redis.";
        }
        if (said.contains("Permission denied")) {
            return "\nIf the directory is mounted noexec, give another: -Djava.io.tmpdir=...";
        }
        return "";
    }

    static boolean isWindows() {
        return System.getProperty("os.name").toLowerCase(Locale.ROOT).contains("windows");
    }

    /** What {@code INFO server} reports. */
    record Info(String server, String version, String processId) {

        static Info parse(String info) {
            Map<String, String> fields = info.lines()
                    .map(line -> line.split(":", 2))
                    .filter(field -> field.length == 2)
                    .collect(Collectors.toMap(field -> field[0], field -> field[1], (first, second) -> first));
            // Valkey gives its name here, and under redis_version that of the Redis with the same commands.
            String server = fields.getOrDefault("server_name", "redis");
            String version = fields.getOrDefault(server + "_version", fields.getOrDefault("redis_version", "?"));
            return new Info(server, version, fields.getOrDefault("process_id", "?"));
        }

        String product() {
            return server + "-server " + version;
        }
    }

    /**
     * How a server listens.
     *
     * @param scheme the scheme of its URI
     * @param options the arguments for a port
     * @param sockets creates sockets that are not connected yet
     */
    record Listening(String scheme, IntFunction<List<String>> options, SocketFactory sockets) {

        static final Listening PLAINLY =
                new Listening("redis", port -> List.of("--port", Integer.toString(port)), SocketFactory.getDefault());
    }

    private record Running(Process process, int port, Info info) {}

    private static final class PortTakenException extends IllegalStateException {

        private static final long serialVersionUID = 1L;

        PortTakenException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** Processes and temporary directories, which end with the JVM. */
    static final class Leftovers {

        static final Set<Process> PROCESSES = ConcurrentHashMap.newKeySet();
        private static final Set<Path> DIRECTORIES = ConcurrentHashMap.newKeySet();

        static {
            Runtime.getRuntime().addShutdownHook(new Thread(Leftovers::clear, "leftovers of tests"));
        }

        private Leftovers() {}

        static Path newDirectory(String purpose) {
            try {
                Path directory = Files.createTempDirectory("spillgate-" + purpose + "-");
                DIRECTORIES.add(directory);
                return directory;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        static void delete(Path directory) {
            if (!DIRECTORIES.remove(directory)) {
                return;
            }
            try (Stream<Path> files = Files.walk(directory)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            } catch (IOException | UncheckedIOException e) {
                System.out.println("[spillgate] " + directory + " was not deleted: " + e);
            }
        }

        private static void clear() {
            for (Process process : PROCESSES) {
                try {
                    end(process);
                } catch (IllegalStateException e) {
                    System.out.println("[spillgate] a server still runs: " + e.getMessage());
                }
            }
            DIRECTORIES.forEach(Leftovers::delete);
        }
    }
}
