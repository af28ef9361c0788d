package io.github.spillgate.testkit;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A {@code redis-server} that we started: in a directory of its own, on the loopback interface alone, keeping nothing
 * on disk.
 *
 * <p>It counts as started when its port answers {@code PING} <em>and</em> says that the process there is the one we
 * started. The port was free a moment ago, which is no promise: another server may have come first, and would answer
 * just as well while ours is dying of it.
 */
final class RedisProcess {

    private static final String LOOPBACK = "127.0.0.1";
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(2);
    private static final int TRIES = 5;

    private final Path binary;
    private final Path directory;
    private final Listening listening;
    private Running running;

    private RedisProcess(Path binary, Path directory, Listening listening, Running running) {
        this.binary = binary;
        this.directory = directory;
        this.listening = listening;
        this.running = running;
    }

    static RedisProcess start(Path binary) throws IOException {
        return start(binary, Listening.PLAINLY);
    }

    static RedisProcess start(Path binary, Listening listening) throws IOException {
        return start(binary, listening, RedisProcess::freePort);
    }

    static RedisProcess start(Path binary, Ports ports) throws IOException {
        return start(binary, Listening.PLAINLY, ports);
    }

    /** Starts the binary with more arguments, which come before ours: the first of them may be a file. */
    static RedisProcess start(Path binary, Ports ports, List<String> more) throws IOException {
        return start(binary, Listening.plainly(more), ports);
    }

    /** Starts the binary on the first of these ports that it can have. */
    static RedisProcess start(Path binary, Listening listening, Ports ports) throws IOException {
        Path directory = Leftovers.newDirectory("data");
        try {
            return new RedisProcess(binary, directory, listening, launch(binary, directory, listening, ports));
        } catch (IOException e) {
            Leftovers.delete(directory);
            throw e;
        }
    }

    Path binary() {
        return binary;
    }

    Path directory() {
        return directory;
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

    synchronized void pause() throws IOException {
        signal("STOP");
        // The signal has been sent, not yet obeyed. Where the system tells, wait until it is.
        Path stat = Path.of("/proc", Long.toString(pid()), "stat");
        if (Files.exists(stat)) {
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (!standsStill(stat)) {
                nap(deadline, "process " + pid() + " to stand still after SIGSTOP");
            }
        }
    }

    synchronized void resume() throws IOException {
        signal("CONT");
    }

    synchronized void kill() throws IOException {
        end(running.process());
    }

    synchronized void restart() throws IOException {
        kill();
        int port = running.port();
        running = launch(binary, directory, listening, () -> port);
    }

    synchronized void close() throws IOException {
        kill();
        Leftovers.delete(directory);
    }

    private static Running launch(Path binary, Path directory, Listening listening, Ports ports) throws IOException {
        for (int tries = 1; ; tries++) {
            try {
                return launch(binary, directory, listening, ports.next());
            } catch (PortTakenException e) {
                if (tries == TRIES) {
                    throw e;
                }
            }
        }
    }

    private static Running launch(Path binary, Path directory, Listening listening, int port) throws IOException {
        Process process = spawn(binary, directory, listening.options(port));
        Leftovers.add(process);
        Output output = Output.of(process);
        try {
            return new Running(process, port, awaitAnswer(process, listening, port));
        } catch (IOException e) {
            boolean died = !process.isAlive();
            if (died) {
                // Before it is ended for good, which closes its output, read or not.
                output.awaitEnd();
            }
            end(process);
            String said = output.text();
            String text = binary + ": " + e.getMessage() + "; it said:\n" + said + remedy(said);
            // All versions name their "listening" socket when they cannot have the port, and agree on nothing else.
            throw died && said.contains("listening") ? new PortTakenException(text, e) : new IOException(text, e);
        }
    }

    private static Process spawn(Path binary, Path directory, List<String> listening) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(binary.toString());
        command.addAll(listening);
        command.addAll(List.of(
                "--bind",
                LOOPBACK,
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                directory.toString(),
                "--daemonize",
                "no"));
        try {
            return new ProcessBuilder(command).redirectErrorStream(true).start();
        } catch (IOException e) {
            throw new IOException(e.getMessage() + remedy(String.valueOf(e.getMessage())), e);
        }
    }

    private static Info awaitAnswer(Process process, Listening listening, int port) throws IOException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (process.isAlive()) {
            Optional<Info> answer = ask(listening, port);
            if (answer.isPresent() && answer.get().processId().equals(Long.toString(process.pid()))) {
                return answer.get();
            }
            String other = answer.map(info -> "process " + info.processId()).orElse("none");
            nap(
                    deadline,
                    "process " + process.pid() + " to answer PING on port " + port + ", where " + other + " does");
        }
        throw new IOException("ended with exit code " + process.exitValue() + " before it answered PING");
    }

    /** Uses a plain socket, because it is not known yet whether a server listens. */
    private static Optional<Info> ask(Listening listening, int port) {
        try (Socket socket = listening.socket()) {
            socket.setSoTimeout(1_000);
            socket.connect(loopback(port), 1_000);
            socket.getOutputStream().write("PING\r\nINFO server\r\n".getBytes(StandardCharsets.US_ASCII));
            // It hangs up when it has answered; not every Sentinel knows QUIT.
            socket.shutdownOutput();
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return answer.startsWith("+PONG") ? Optional.of(Info.parse(answer)) : Optional.empty();
        } catch (IOException e) {
            // The server does not listen yet, or is busy: the caller retries until its deadline.
            return Optional.empty();
        }
    }

    static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(loopback(0));
            return socket.getLocalPort();
        }
    }

    private static InetSocketAddress loopback(int port) throws IOException {
        return new InetSocketAddress(InetAddress.getByAddress(new byte[] {127, 0, 0, 1}), port);
    }

    private void signal(String signal) throws IOException {
        if (isWindows()) {
            throw new UnsupportedOperationException("Windows has no SIG" + signal + ": expected Linux or macOS");
        }
        if (!running.process().isAlive()) {
            // Its id may be that of another process by now.
            throw new IOException(
                    "no SIG" + signal + " for process " + pid() + ": expected one that runs, not a killed one");
        }
        // The kill inside the shell: slim images have no program of that name.
        Process shell = new ProcessBuilder("/bin/sh", "-c", "kill -" + signal + " " + pid())
                .redirectErrorStream(true)
                .start();
        String said = new String(shell.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        awaitEnd(shell);
        if (shell.exitValue() != 0) {
            throw new IOException("no SIG" + signal + " for process " + pid() + "; kill said: " + said);
        }
    }

    /** The state is the first field behind the name of the program, and the name may hold anything. */
    private static boolean standsStill(Path stat) throws IOException {
        String text = Files.readString(stat);
        return text.startsWith(") T", text.lastIndexOf(')'));
    }

    private static void end(Process process) throws IOException {
        // SIGKILL, for SIGTERM would wait in the queue of a paused process. There is nothing to save. The
        // descendants, for the binary may have been a script around it.
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
        awaitEnd(process);
        Leftovers.remove(process);
    }

    static void awaitEnd(Process process) throws IOException {
        try {
            if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                throw new IOException("expected process " + process.pid() + " to end");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted before process " + process.pid() + " ended");
        }
    }

    private static void nap(long deadline, String expected) throws IOException {
        if (Thread.currentThread().isInterrupted()) {
            throw new InterruptedIOException("interrupted while it expected " + expected);
        }
        if (System.nanoTime() - deadline > 0) {
            throw new IOException("expected " + expected + ", within " + PATIENCE.toSeconds() + " s");
        }
        LockSupport.parkNanos(POLL.toNanos());
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

    /** What {@code INFO server} tells about a server. */
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

    /** How a server listens, and how it is talked to. */
    interface Listening {

        Listening PLAINLY = plainly(List.of());

        /** Without TLS, and with these arguments before all others. */
        static Listening plainly(List<String> more) {
            return new Listening() {
                @Override
                public String scheme() {
                    return "redis";
                }

                @Override
                public List<String> options(int port) {
                    List<String> options = new ArrayList<>(more);
                    options.addAll(List.of("--port", Integer.toString(port)));
                    return options;
                }

                @Override
                public Socket socket() {
                    return new Socket();
                }
            };
        }

        /** What a URI of it begins with. */
        String scheme();

        /** What it is told when it is started. */
        List<String> options(int port);

        /** A socket that is not connected yet. */
        Socket socket() throws IOException;
    }

    /** Where the next port comes from; a test gives one that is taken. */
    @FunctionalInterface
    interface Ports {
        int next() throws IOException;
    }

    private record Running(Process process, int port, Info info) {}

    private static final class PortTakenException extends IOException {

        private static final long serialVersionUID = 1L;

        PortTakenException(String message, IOException cause) {
            super(message, cause);
        }
    }

    /** The last lines that a process said, read as they come, so that it never waits for a reader. */
    private static final class Output {

        private static final int LINES_KEPT = 50;
        private static final long REST_MILLIS = 2_000;

        private final Deque<String> lines = new ArrayDeque<>();
        private final Thread reader;

        private Output(Process process) {
            reader = new Thread(() -> read(process), "output of redis-server " + process.pid());
            reader.setDaemon(true);
        }

        static Output of(Process process) {
            Output output = new Output(process);
            output.reader.start();
            return output;
        }

        private void read(Process process) {
            try (BufferedReader said = process.inputReader()) {
                said.lines().forEach(this::keep);
            } catch (IOException | UncheckedIOException e) {
                keep("(the rest could not be read: " + e.getMessage() + ")");
            }
        }

        private synchronized void keep(String line) {
            if (lines.size() == LINES_KEPT) {
                lines.removeFirst();
            }
            lines.addLast(line);
        }

        void awaitEnd() throws IOException {
            try {
                reader.join(REST_MILLIS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted before all that redis-server said was read");
            }
        }

        synchronized String text() {
            return lines.isEmpty() ? "  (nothing)" : "  | " + String.join("\n  | ", lines);
        }
    }

    /** What must be gone when the JVM is: processes and temporary directories. */
    static final class Leftovers {

        private static final Set<Process> PROCESSES = ConcurrentHashMap.newKeySet();
        private static final Set<Path> DIRECTORIES = ConcurrentHashMap.newKeySet();

        static {
            Runtime.getRuntime().addShutdownHook(new Thread(Leftovers::clear, "leftovers of RedisForTests"));
        }

        private Leftovers() {}

        static Path newDirectory(String purpose) throws IOException {
            Path directory = Files.createTempDirectory("spillgate-redis-" + purpose + "-");
            DIRECTORIES.add(directory);
            return directory;
        }

        static void add(Process process) {
            PROCESSES.add(process);
        }

        static void remove(Process process) {
            PROCESSES.remove(process);
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
                System.out.println("[spillgate] " + directory + " stays behind: " + e);
            }
        }

        private static void clear() {
            for (Process process : PROCESSES) {
                try {
                    end(process);
                } catch (IOException e) {
                    System.out.println("[spillgate] a redis-server stays behind: " + e.getMessage());
                }
            }
            DIRECTORIES.forEach(Leftovers::delete);
        }
    }
}
