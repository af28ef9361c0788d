package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.github.spillgate.testkit.PostgresForTests;
import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.stream.Stream;

/**
 * A PostgreSQL on loopback that does not wait for the disk, with the extension that counts statements, without BEGIN
 * and COMMIT.
 */
final class PostgresServer implements Server {

    private final PostgresForTests postgres = PostgresForTests.startOwn(
            "shared_preload_libraries=pg_stat_statements",
            // It would count a COMMIT that the server has parsed before as none.
            "pg_stat_statements.track_utility=off",
            "max_connections=200",
            "shared_buffers=128MB");
    private final ProcessHandle process;

    PostgresServer() {
        postgres.execute("CREATE EXTENSION pg_stat_statements");
        process = ProcessHandle.of(Long.parseLong(ask("split_part(pg_read_file('postmaster.pid'), chr(10), 1)")))
                .orElseThrow();
    }

    private String ask(String expression) {
        return postgres.execute("SELECT " + expression).get(0);
    }

    @Override
    public int port() {
        return URI.create(postgres.uri().substring("r2dbc:".length())).getPort();
    }

    @Override
    public String version() {
        return "PostgreSQL " + ask("current_setting('server_version')") + ", on loopback, without fsync";
    }

    @Override
    public ServerUsage usage() {
        // Without this statement, and those of new connections of the driver.
        String[] counted = ask("sum(calls) || ' ' || (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)"
                        + " FROM pg_stat_statements WHERE query !~ 'pg_stat_statements|pg_catalog'")
                .split(" ", -1);
        double cpuMicros = cpuMicros();
        CommandCalls.Sum statements = new CommandCalls.Sum(Long.parseLong(counted[0]), cpuMicros);
        return new ServerUsage(
                new CommandCalls(Map.of(CommandCalls.STATEMENT, statements)),
                cpuMicros,
                0,
                Double.parseDouble(counted[1]));
    }

    /** Returns the CPU time of all processes of the server. */
    private double cpuMicros() {
        return Stream.concat(Stream.of(process), process.descendants())
                        .flatMap(one -> one.info().totalCpuDuration().stream())
                        .mapToLong(Duration::toNanos)
                        .sum()
                / 1e3;
    }

    @Override
    public void close() {
        postgres.close();
    }
}
