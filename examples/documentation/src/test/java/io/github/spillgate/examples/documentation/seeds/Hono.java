package io.github.spillgate.examples.documentation.seeds;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.Range;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The middleware for Hono, on a real Redis: in one pipeline, it adds the request to a sorted set, removes entries older
 * than the window, counts, reads the oldest, and sets the expiry. A pipeline is no transaction, so here it is two
 * steps, between which other commands may run. The time is that of the calling instance.
 */
final class Hono {

    private static final AtomicInteger NUMBER = new AtomicInteger();

    private final RedisAsyncCommands<String, String> redis;
    private final String prefix;
    private final long max;
    private final long window;
    private final Random random = new Random();

    Hono(StatefulRedisConnection<String, String> connection, long max, Duration window) {
        this(connection, "hono-" + NUMBER.incrementAndGet() + "-" + System.nanoTime() + ":", max, window.toMillis());
    }

    private Hono(StatefulRedisConnection<String, String> connection, String prefix, long max, long window) {
        this.redis = connection.async();
        this.prefix = prefix;
        this.max = max;
        this.window = window;
    }

    /** Returns another instance of the service, with its own connection and the same sorted sets. */
    Hono over(StatefulRedisConnection<String, String> connection) {
        return new Hono(connection, prefix, max, window);
    }

    Answer ask(String address, long now) {
        RedisFuture<Long> added = add(address, now);
        Answer answer = counts(address, now);
        get(added);
        return answer;
    }

    /** Adds the request, and waits for the reply. */
    void adds(String address, long now) {
        get(add(address, now));
    }

    Answer counts(String address, long now) {
        String key = key(address);
        RedisFuture<Long> removed = redis.zremrangebyscore(key, Range.create(0, now - window));
        RedisFuture<Long> counted = redis.zcard(key);
        RedisFuture<List<ScoredValue<String>>> oldest = redis.zrangeWithScores(key, 0, 0);
        RedisFuture<Boolean> expires = redis.expire(key, (window + 999) / 1_000);
        get(removed);
        get(expires);
        if (get(counted) <= max) {
            return new Answer(true, 0);
        }
        double leaves = get(oldest).get(0).getScore() + (double) window;
        return new Answer(false, Math.max(1, (long) Math.ceil((leaves - now) / 1_000)));
    }

    long stored(String address) {
        return get(redis.zcard(key(address)));
    }

    long memory(String address) {
        return get(redis.memoryUsage(key(address)));
    }

    private RedisFuture<Long> add(String address, long now) {
        return redis.zadd(key(address), (double) now, now + "-" + Long.toString(random.nextLong() >>> 1, 36));
    }

    private String key(String address) {
        return prefix + "rate_limit:" + address + ":post_shorten";
    }

    private static <T> T get(RedisFuture<T> future) {
        LettuceFutures.awaitOrCancel(future, 30, TimeUnit.SECONDS);
        return future.toCompletableFuture().join();
    }

    /** The response to the client; the seconds are set only if the request is denied. */
    record Answer(boolean allowed, long retryAfterSeconds) {}
}
