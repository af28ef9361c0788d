package io.github.spillgate.testkit;

import java.nio.file.Path;
import java.util.List;
import java.util.function.UnaryOperator;

/**
 * A {@code redis-server} that can be started several times, for tests of several servers: the one on the {@code PATH},
 * and the embedded one. Each has been started once successfully.
 *
 * @param name the display name
 * @param path the path of the binary
 */
public record RedisBinary(String name, Path path) {

    public static RedisBinary first() {
        try (RedisForTests redis = attempts().first()) {
            return of(redis);
        }
    }

    /** Every one at hand; never empty. */
    public static List<RedisBinary> all() {
        List<RedisForTests> started = attempts().all();
        started.forEach(RedisForTests::close);
        return started.stream().map(RedisBinary::of).toList();
    }

    private static RedisForTests.Attempts attempts() {
        return new RedisForTests.Attempts(
                RedisCandidate.binaries(System.getenv()), UnaryOperator.identity(), line -> {});
    }

    private static RedisBinary of(RedisForTests redis) {
        return new RedisBinary(redis.name(), redis.own().binary());
    }

    @Override
    public String toString() {
        return name;
    }
}
