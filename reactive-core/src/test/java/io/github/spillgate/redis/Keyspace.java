package io.github.spillgate.redis;

import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.api.sync.RedisServerCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/**
 * What a store has left in Redis, looked at from outside. Its namespace is no other's, though tests share the server.
 */
public final class Keyspace {

    private static final AtomicInteger NUMBER = new AtomicInteger();

    private final StatefulRedisConnection<String, String> connection;
    private final StatefulRedisConnection<byte[], byte[]> binary;
    private final String namespace = "test-" + NUMBER.incrementAndGet() + "-" + System.nanoTime();

    public Keyspace(RedisClient client) {
        this.connection = client.connect();
        this.binary = client.connect(ByteArrayCodec.INSTANCE);
    }

    public String namespace() {
        return namespace;
    }

    public RedisCommands<String, String> commands() {
        return connection.sync();
    }

    /** Returns the keys of counts and marks. */
    public List<String> keys() {
        return commands().keys(namespace + ":*").stream()
                .filter(key -> !key.endsWith(":{fleet}"))
                .toList();
    }

    public String onlyKey() {
        List<String> keys = keys();
        if (keys.size() != 1) {
            throw new AssertionError("expected one key, but found " + keys);
        }
        return keys.get(0);
    }

    /** Returns the key of the only count, which may have marks. */
    public String countKey() {
        return key(key -> !key.contains("!"));
    }

    public String keyEndingWith(String end) {
        return key(key -> key.endsWith(end));
    }

    private String key(Predicate<String> which) {
        return keys().stream().filter(which).findAny().orElseThrow();
    }

    public byte[] bytes(String key) {
        return binary.sync().get(key.getBytes(StandardCharsets.US_ASCII));
    }

    /** Replaces a value; an empty one is deleted. */
    public void put(String key, byte[] bytes) {
        byte[] name = key.getBytes(StandardCharsets.US_ASCII);
        if (bytes.length == 0) {
            binary.sync().del(name);
        } else {
            binary.sync().set(name, bytes, SetArgs.Builder.ex(1_000));
        }
    }

    public long memoryOf(String key) {
        return commands().memoryUsage(key);
    }

    /** The clock of Redis, in milliseconds. */
    public long now() {
        List<String> time = commands().time();
        return Long.parseLong(time.get(0)) * 1_000 + Long.parseLong(time.get(1)) / 1_000;
    }

    /** When a key expires by the clock of Redis, in milliseconds. One script, so that no time passes in between. */
    public long expiryOf(String key) {
        String script = "local left, time = redis.call('PTTL', KEYS[1]), redis.call('TIME')"
                + " return time[1] * 1000 + math.floor(time[2] / 1000) + left";
        return commands().<Long>eval(script, ScriptOutputType.INTEGER, key);
    }

    /** How often the server has run a command since it was started, with all subcommands. */
    public long callsOf(String command) {
        return callsOf(command, commands());
    }

    public static long callsOf(String command, RedisServerCommands<String, String> server) {
        return Pattern.compile("cmdstat_" + Pattern.quote(command) + "(?:\\|[^:]+)?:calls=(\\d+)")
                .matcher(server.info("commandstats"))
                .results()
                .mapToLong(found -> Long.parseLong(found.group(1)))
                .sum();
    }
}
