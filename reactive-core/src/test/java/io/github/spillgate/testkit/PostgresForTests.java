package io.github.spillgate.testkit;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.RedisProcess.Leftovers;
import io.r2dbc.spi.ConnectionFactories;
import io.r2dbc.spi.ConnectionFactory;
import io.r2dbc.spi.Readable;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.apache.commons.compress.compressors.xz.XZCompressorInputStream;
import org.jspecify.annotations.Nullable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * A real PostgreSQL for tests, which needs nothing installed: its programs are in a jar. Set {@code
 * SPILLGATE_POSTGRES_BIN} to a directory with {@code initdb} and {@code postgres} to test on another one.
 *
 * <p>{@link #shared()} is started once per JVM, and tests share its data. A test that stops or pauses its server starts
 * one of its own. The programs and an empty database are unpacked once into the temporary directory, for all JVMs.
 */
public final class PostgresForTests implements AutoCloseable {

    private static final String VERSION = "18.1.0";
    private static final String JAR_ENTRY = "/postgres-linux-x86_64.txz";
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int TRIES = 5;

    private static @Nullable PostgresForTests shared;

    private final Path directory = Leftovers.newDirectory("postgres-data");
    private final List<String> options;
    private int port;
    private Process process;

    private PostgresForTests(Path data, List<String> options) {
        this.options = options;
        copy(data, directory.resolve("data"));
        for (int tries = 1; ; tries++) {
            port = RedisProcess.freePort();
            try {
                process = launch();
                return;
            } catch (IllegalStateException e) {
                if (tries == TRIES || !String.valueOf(e.getMessage()).contains("Address already in use")) {
                    Leftovers.delete(directory);
                    throw e;
                }
            }
        }
    }

    /** The server that all tests of this JVM share. */
    public static synchronized PostgresForTests shared() {
        if (shared == null) {
            shared = startOwn();
            System.out.println("[spillgate] tests use PostgreSQL, 127.0.0.1:" + shared.port);
        }
        return shared;
    }

    /**
     * Starts a server that is the caller's alone, in about a second.
     *
     * @param options settings, such as {@code max_connections=5}
     */
    public static PostgresForTests startOwn(String... options) {
        return new PostgresForTests(Programs.unpacked().resolve("empty"), List.of(options));
    }

    public String uri() {
        return "r2dbc:postgresql://spillgate@127.0.0.1:" + port + "/postgres";
    }

    /** A factory of connections as the owner of the database. */
    public ConnectionFactory factory() {
        return ConnectionFactories.get(uri());
    }

    /** Executes statements as the owner of the database, and returns the first column as text. */
    public List<String> execute(String sql) {
        return Mono.usingWhen(
                        factory().create(),
                        connection -> Flux.from(connection.createStatement(sql).execute())
                                .concatMap(result -> result.map((Readable row) -> String.valueOf(row.get(0))))
                                .collectList(),
                        connection -> connection.close())
                .block(PATIENCE);
    }

    /** Stops all processes of the server in their tracks (SIGSTOP), as a stalled virtual machine would. */
    public synchronized void pause() {
        signal("STOP");
    }

    /** Resumes the paused server; it then executes what it has received during the pause. */
    public synchronized void resume() {
        signal("CONT");
    }

    /** Kills all processes of the server (SIGKILL). Unlogged tables are empty after it. */
    public synchronized void kill() {
        List<ProcessHandle> backends = process.descendants().toList();
        RedisProcess.end(process);
        backends.forEach(ProcessHandle::destroyForcibly);
        await("the end of the processes of PostgreSQL")
                .atMost(PATIENCE)
                .until(() -> backends.stream().noneMatch(ProcessHandle::isAlive));
    }

    /** Stops the server as an administrator does: it ends connections, and keeps all tables. */
    public synchronized void stop() {
        signal(List.of(process.toHandle()), "INT");
        await("the end of PostgreSQL").atMost(PATIENCE).until(() -> !process.isAlive());
        Leftovers.PROCESSES.remove(process);
    }

    /** Starts the server again on the same port, with its data; stops it first if it still runs. */
    public synchronized void restart() {
        if (process.isAlive()) {
            stop();
        }
        process = launch();
    }

    /** Ends the connections of all clients. */
    public void endConnections() {
        execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                + " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    }

    /**
     * Makes this server a standby of a copy of itself, until it is promoted by {@code pg_promote()}. It has the same
     * port as before, and its unlogged tables cannot be read.
     *
     * @return the primary, which the caller closes
     */
    public synchronized PostgresForTests becomeStandby() {
        stop();
        Path data = directory.resolve("data");
        PostgresForTests primary = new PostgresForTests(data, options);
        try {
            Files.createFile(data.resolve("standby.signal"));
            Files.writeString(
                    data.resolve("postgresql.auto.conf"),
                    "primary_conninfo = 'host=127.0.0.1 port=" + primary.port + " user=spillgate'\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        process = launch();
        return primary;
    }

    @Override
    public synchronized void close() {
        if (process.isAlive()) {
            kill();
        }
        Leftovers.delete(directory);
    }

    private Process launch() {
        List<String> command =
                Programs.command("postgres", "-D", directory.resolve("data").toString());
        List<String> settings = new ArrayList<>(List.of(
                "port=" + port,
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "fsync=off",
                "shared_buffers=16MB",
                "lc_messages=C"));
        settings.addAll(options);
        settings.forEach(setting -> command.addAll(List.of("-c", setting)));
        Path output = directory.resolve("output.log");
        try {
            Files.deleteIfExists(output);
            Process started = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(output.toFile())
                    .start();
            Leftovers.PROCESSES.add(started);
            await("the start of PostgreSQL")
                    .atMost(PATIENCE)
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> !started.isAlive()
                            || Files.readString(output, StandardCharsets.ISO_8859_1)
                                    .contains("ready to accept "));
            if (!started.isAlive()) {
                throw new IllegalStateException("PostgreSQL ended; it said:\n" + Files.readString(output));
            }
            return started;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void signal(String signal) {
        List<ProcessHandle> all = new ArrayList<>(List.of(process.toHandle()));
        signal(all, signal);
        all.clear();
        process.descendants().forEach(all::add);
        signal(all, signal);
    }

    private static void signal(List<ProcessHandle> processes, String signal) {
        StringBuilder command = new StringBuilder("kill -" + signal);
        processes.forEach(each -> command.append(' ').append(each.pid()));
        command.append("; true"); // one of them may have ended since
        RedisProcess.run(command.toString(), List.of("/bin/sh", "-c", command.toString()));
    }

    private static void copy(Path from, Path to) {
        RedisProcess.run("cp", List.of("cp", "-r", from.toString(), to.toString()));
    }

    /** The programs of the server, and an empty database. */
    private static final class Programs {

        private static final @Nullable String BIN = System.getenv("SPILLGATE_POSTGRES_BIN");
        private static final Path CACHE = Path.of(
                System.getProperty("java.io.tmpdir"),
                "spillgate-postgres-" + (BIN == null ? VERSION : Integer.toHexString(BIN.hashCode())) + "-"
                        + System.getProperty("user.name"));

        private Programs() {}

        /** Returns a directory with the programs in {@code bin}, and a database in {@code empty}. */
        static synchronized Path unpacked() {
            try {
                Path done = CACHE.resolve("done");
                if (Files.exists(done)) {
                    return CACHE;
                }
                Files.createDirectories(
                        CACHE, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
                try (FileChannel channel =
                        FileChannel.open(CACHE.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                    channel.lock();
                    if (!Files.exists(done)) {
                        if (BIN == null) {
                            unpack();
                        }
                        // Of an attempt that did not end.
                        RedisProcess.run(
                                "rm",
                                List.of("rm", "-rf", CACHE.resolve("empty").toString()));
                        RedisProcess.run(
                                "initdb",
                                command(
                                        "initdb",
                                        "--pgdata=" + CACHE.resolve("empty"),
                                        "--username=spillgate",
                                        "--auth=trust",
                                        "--encoding=UTF8",
                                        "--locale=C",
                                        "--no-sync",
                                        "--no-instructions"));
                        Files.createFile(done);
                    }
                }
                return CACHE;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static void unpack() throws IOException {
            try (InputStream jar = PostgresForTests.class.getResourceAsStream(JAR_ENTRY)) {
                if (jar == null) {
                    throw new IllegalStateException("tests need PostgreSQL, and " + JAR_ENTRY + " is not on the class"
                            + " path: expected SPILLGATE_POSTGRES_BIN, for example /usr/lib/postgresql/17/bin");
                }
                TarArchiveInputStream tar = new TarArchiveInputStream(new XZCompressorInputStream(jar));
                for (TarArchiveEntry entry = tar.getNextEntry(); entry != null; entry = tar.getNextEntry()) {
                    Path file = CACHE.resolve(entry.getName()).normalize();
                    if (!file.startsWith(CACHE) || entry.isDirectory()) {
                        continue;
                    }
                    Files.createDirectories(file.getParent());
                    Files.deleteIfExists(file);
                    if (entry.isSymbolicLink()) {
                        Files.createSymbolicLink(file, Path.of(entry.getLinkName()));
                    } else {
                        Files.copy(tar, file);
                        file.toFile().setExecutable((entry.getMode() & 0100) != 0);
                    }
                }
            }
        }

        /** Returns a command that may run as root, which the programs refuse, in a user namespace of its own. */
        static List<String> command(String program, String... arguments) {
            List<String> command = new ArrayList<>();
            if (System.getProperty("user.name").equals("root")) {
                command.addAll(List.of("unshare", "-U"));
            }
            command.add((BIN == null ? CACHE.resolve("bin") : Path.of(BIN))
                    .resolve(program)
                    .toString());
            Stream.of(arguments).forEach(command::add);
            return command;
        }
    }
}
