package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.io.File;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Stream;
import redis.embedded.core.ExecutableProvider;

/**
 * A Redis server on loopback, without persistence: the installed one, or else the one of the build. It ends with this
 * process.
 */
public final class RedisServer implements AutoCloseable {

    private static final String HOST = "127.0.0.1";
    private static final Duration START = Duration.ofSeconds(20);

    /** The offset of the port on which nodes of a cluster talk to each other. */
    private static final int BUS = 10_000;

    private static final int LAST_PORT = 65_535;

    private static final int SOME = 1_000;

    private final Process process;
    private final Thread atExit;
    private final int port;
    private final boolean installed;
    private final RedisClient client;
    private final RedisCommands<String, String> commands;

    private RedisServer(Process process, int port, boolean installed) {
        this.process = process;
        this.port = port;
        this.installed = installed;
        this.atExit = new Thread(process::destroyForcibly, "redis-end");
        Runtime.getRuntime().addShutdownHook(atExit);
        this.client = RedisClient.create(RedisURI.create(HOST, port));
        try {
            this.commands = connect().sync();
        } catch (RuntimeException e) {
            stop();
            throw e;
        }
    }

    public static RedisServer start() throws IOException {
        return start(freePort());
    }

    /** Starts a node of a cluster, which writes its configuration into that directory. */
    static RedisServer startNode(Path directory) throws IOException {
        int port = freePort();
        while (port + BUS > LAST_PORT || !isFree(port + BUS)) {
            port = freePort();
        }
        return start(
                port,
                "--cluster-enabled",
                "yes",
                "--cluster-config-file",
                "nodes-" + port + ".conf",
                "--dir",
                directory.toString());
    }

    private static RedisServer start(int port, String... more) throws IOException {
        Optional<File> installed = installed();
        File executable = installed.isPresent()
                ? installed.get()
                : ExecutableProvider.newJarResourceProvider().get();
        List<String> command = new ArrayList<>(
                List.of(executable.getPath(), "--port", Integer.toString(port), "--bind", HOST, "--save", ""));
        command.addAll(List.of(more));
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        return new RedisServer(process, port, installed.isPresent());
    }

    private static Optional<File> installed() {
        String path = Objects.requireNonNullElse(System.getenv("PATH"), "");
        return Arrays.stream(path.split(File.pathSeparator))
                .filter(directory -> !directory.isEmpty())
                .map(directory -> Path.of(directory, "redis-server"))
                .filter(Files::isExecutable)
                .map(Path::toFile)
                .findFirst();
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static boolean isFree(int port) throws IOException {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            return true;
        } catch (BindException e) {
            return false;
        }
    }

    private StatefulRedisConnection<String, String> connect() {
        long giveUp = System.nanoTime() + START.toNanos();
        while (true) {
            try {
                return client.connect();
            } catch (RuntimeException e) {
                if (!process.isAlive() || System.nanoTime() > giveUp) {
                    throw new IllegalStateException(
                            "Redis on port " + port + " did not start: expected a response within " + START.toSeconds()
                                    + " s, on a free port",
                            e);
                }
                pause();
            }
        }
    }

    static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while Redis starts", e);
        }
    }

    RedisCommands<String, String> commands() {
        return commands;
    }

    public String host() {
        return HOST;
    }

    public int port() {
        return port;
    }

    /** Returns the version, for the head of the results. */
    public String version() {
        return info("server").get("redis_version") + (installed ? ", the installed one" : ", the one of the build");
    }

    /** Deletes all keys, and keeps the scripts. */
    public void empty() {
        commands.flushdb();
    }

    /** Returns the resources that the server has used since its start. */
    ServerUsage usage() {
        Map<String, String> cpu = info("cpu");
        Map<String, String> stats = info("stats");
        return new ServerUsage(
                calls(),
                1e6 * (number(cpu, "used_cpu_user") + number(cpu, "used_cpu_sys")),
                number(stats, "total_net_input_bytes"),
                number(stats, "total_net_output_bytes"));
    }

    private static double number(Map<String, String> fields, String name) {
        return Double.parseDouble(fields.getOrDefault(name, "0"));
    }

    /** Returns the used memory, in bytes. */
    public long usedMemory() {
        return (long) number(info("memory"), "used_memory");
    }

    /** Returns the mean MEMORY USAGE of some random keys that match. There must be at least one. */
    public double memoryOf(Predicate<String> such) {
        return Stream.generate(commands::randomkey)
                .filter(such)
                .limit(SOME)
                .mapToLong(key -> Objects.requireNonNullElse(commands.memoryUsage(key), 0L))
                .average()
                .orElse(0);
    }

    /** Returns the calls of each command since the start. */
    public CommandCalls calls() {
        Map<String, CommandCalls.Sum> calls = new HashMap<>();
        info("commandstats").forEach((name, value) -> {
            Map<String, String> fields = fields(value.split(","), '=');
            calls.put(
                    name.substring("cmdstat_".length()),
                    new CommandCalls.Sum(
                            Long.parseLong(fields.getOrDefault("calls", "0")),
                            Double.parseDouble(fields.getOrDefault("usec", "0"))));
        });
        return new CommandCalls(calls);
    }

    private Map<String, String> info(String section) {
        return fields(commands.info(section).split("\r?\n"), ':');
    }

    private static Map<String, String> fields(String[] lines, char separator) {
        Map<String, String> fields = new HashMap<>();
        for (String line : lines) {
            int at = line.indexOf(separator);
            if (at > 0) {
                fields.put(line.substring(0, at), line.substring(at + 1).strip());
            }
        }
        return fields;
    }

    @Override
    public void close() {
        stop();
        Runtime.getRuntime().removeShutdownHook(atExit);
    }

    private void stop() {
        client.shutdown();
        process.destroy();
        try {
            if (!process.waitFor(5, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
