package io.github.spillgate.examples.benchmark.measure;

import io.github.spillgate.examples.benchmark.contender.CommandCalls;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Predicate;
import java.util.stream.Stream;

/** A Redis on loopback, without persistence. */
public final class RedisServer implements Server {

    private static final int SOME = 1_000;

    private final RedisURI uri;
    private final RedisClient client;
    private final RedisCommands<String, String> commands;

    RedisServer(RedisURI uri) {
        this.uri = uri;
        this.client = RedisClient.create(uri);
        this.commands = client.connect().sync();
    }

    @Override
    public int port() {
        return uri.getPort();
    }

    @Override
    public String version() {
        return "Redis " + info("server").get("redis_version") + ", on loopback, without persistence";
    }

    /** Deletes all keys, and keeps the scripts. */
    @Override
    public void empty() {
        commands.flushdb();
    }

    @Override
    public ServerUsage usage() {
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
        client.shutdown();
    }
}
