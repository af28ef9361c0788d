package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.testkit.ManualClock;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import reactor.core.scheduler.Schedulers;

/**
 * The clock of Redis stores with scripts that read their time from a key, so that a test can set it. Otherwise the
 * scripts are those of production, with two differences:
 *
 * <ul>
 *   <li>counts live for at least a thousand seconds, because Redis expires them by its own clock;
 *   <li>in a shortened script, logs are read in small pieces and rewritten after a few hits, so that few hits reach all
 *       of its code.
 * </ul>
 */
public final class ScriptedClock {

    private static final AtomicInteger NUMBER = new AtomicInteger();

    private final StatefulRedisConnection<String, String> connection;
    private long micros;
    private final String key = "scripted-clock-" + NUMBER.incrementAndGet() + "-" + System.nanoTime();

    public ScriptedClock(RedisClient client) {
        this.connection = client.connect();
    }

    /** Returns a store on this clock with a namespace of its own. */
    RedisStore store(RedisClient client, boolean shortened) {
        return store(client, "scripted-" + NUMBER.incrementAndGet() + "-" + System.nanoTime(), shortened);
    }

    /** Returns a store on this clock that decides single requests like batches. */
    RedisStore storeWithoutFastPath(RedisClient client, boolean shortened) {
        return store(
                client,
                "scripted-" + NUMBER.incrementAndGet() + "-" + System.nanoTime(),
                shortened,
                ScriptedClock::withoutFastPath);
    }

    /** Returns a store on this clock that rewrites a log with each change, and decides single requests like batches. */
    RedisStore storeThatRewritesLogs(RedisClient client, String namespace) {
        return store(
                client,
                namespace,
                false,
                text -> withoutFastPath(replaceIfPresent(
                        text,
                        "kinds[LOG] = ",
                        "local function write(log)\n",
                        "local function write(log)\nloadWhole(log)\n")));
    }

    /** Returns a script that decides single requests like batches. */
    static String withoutFastPath(String text) {
        return replaceInFastPath(
                text, "while rest <= #argument do\nlocal mode, times", "while false do\nlocal mode, times");
    }

    /** Returns a store on this clock. */
    RedisStore store(RedisClient client, String namespace, boolean shortened) {
        return store(client, namespace, shortened, UnaryOperator.identity());
    }

    /** Returns a store on a clock that advances by one tick per command; no two decisions share a command. */
    RedisStore storeOfTicks(RedisClient client, String namespace, Duration tick) {
        String clock = clockThatAdvances(tick);
        return RedisStore.builder(client)
                .namespace(namespace)
                .batching(1, 256, 100_000)
                .scripts(text -> withLongExpiry(replaceOnce(text, "redis.call('TIME')", clock)))
                .build();
    }

    private RedisStore store(RedisClient client, String namespace, boolean shortened, UnaryOperator<String> change) {
        UnaryOperator<String> clock = text ->
                replaceOnce(text, "redis.call('TIME')", "redis.call('MGET', '" + key + ":s', '" + key + ":us')");
        UnaryOperator<String> length = shortened ? ScriptedClock::shorten : UnaryOperator.identity();
        return RedisStore.builder(client)
                .namespace(namespace)
                .scripts(text -> change.apply(length.apply(withLongExpiry(clock.apply(text)))))
                .build();
    }

    private static String shorten(String script) {
        String shortened = replaceInFastPath(script, "BEHIND_SHORT_LOG = 40, '404'", "BEHIND_SHORT_LOG = 3, '71'");
        shortened = replaceOnce(shortened, "FIRST_PIECE, LONGEST_PIECE = 16, 512", "FIRST_PIECE, LONGEST_PIECE = 2, 5");
        return replaceOnce(shortened, "MOST_SPARE = 256", "MOST_SPARE = 6");
    }

    /** Returns a store on a clock that advances by one tick per script, so that no two scripts read the same time. */
    public RedisStore ticking(RedisClient client, String namespace, Duration tick) {
        String clock = clockThatAdvances(tick);
        return RedisStore.builder(client)
                .namespace(namespace)
                .scripts(text -> replaceOnce(text, "redis.call('TIME')", clock))
                .deliverOn(Schedulers.immediate())
                .build();
    }

    /** Returns a store on the clock of Redis, plus the milliseconds that are under a key of Redis. */
    public static RedisStore shifted(RedisURI uri, String shift) {
        String clock = "(function() local t, by = redis.call('TIME'), tonumber(redis.call('GET', '" + shift
                + "') or 0) local us = t[1] * 1000000 + t[2] + by * 1000"
                + " return {floor(us / 1000000), us % 1000000} end)()";
        return RedisStore.builder(uri)
                .scripts(text -> withLongExpiry(replaceOnce(text, "redis.call('TIME')", clock)))
                .build();
    }

    private String clockThatAdvances(Duration tick) {
        connection.sync().set(key + ":ticks", Long.toString(new ManualClock().millis()), SetArgs.Builder.nx());
        return "(function() local ms = redis.call('INCRBY', '" + key + ":ticks', " + tick.toMillis()
                + ") return {floor(ms / 1000), ms % 1000 * 1000} end)()";
    }

    private static String withLongExpiry(String script) {
        return script.replace("'PX',", "'EX', 1000 +").replaceAll("'PEXPIRE', ([a-z.]+),", "'EXPIRE', $1, 1000 +");
    }

    void show(ManualClock clock) {
        show(clock, 900);
    }

    /** Sets the time, with microseconds, which only distinguish a decision from a reset. */
    void show(ManualClock clock, int micros) {
        long millis = clock.millis();
        this.micros = millis * 1_000 + micros;
        connection
                .sync()
                .mset(Map.of(
                        key + ":s", Long.toString(millis / 1_000), key + ":us", millis % 1_000 * 1_000 + micros + ""));
    }

    /** Returns the time that was set last, in microseconds. */
    long micros() {
        return micros;
    }

    public void close() {
        connection.close();
    }

    /** Only the script that decides has a fast path. */
    private static String replaceInFastPath(String text, String from, String to) {
        return replaceIfPresent(text, "BEHIND_SHORT_LOG = ", from, to);
    }

    private static String replaceIfPresent(String text, String mark, String from, String to) {
        return text.contains(mark) ? replaceOnce(text, from, to) : text;
    }

    private static String replaceOnce(String text, String from, String to) {
        assertThat(text.split(java.util.regex.Pattern.quote(from), -1))
                .as("occurrences of %s in the script", from)
                .hasSize(2);
        return text.replace(from, to);
    }
}
