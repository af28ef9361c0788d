package io.github.spillgate.redis.lane;

import static org.awaitility.Awaitility.await;

import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;

/** A lane to a Redis of its own. The test sets the time. */
abstract class LaneFixture {

    static final Duration LONG = Duration.ofSeconds(30);

    private static final String NAME = "lane";

    final AtomicLong nanos = new AtomicLong(-5);
    final RedisForTests redis = RedisForTests.startOwn();
    final RedisClient client = named();
    private final RedisClient ofTheTest = RedisClient.create(redis.uri());
    final RedisCommands<String, String> admin = ofTheTest.connect().sync();
    final Lane lane = BatchQueueFixture.lane(() -> client.connect(ByteArrayCodec.INSTANCE), nanos::get);

    private RedisClient named() {
        RedisURI uri = redis.uri();
        uri.setClientName(NAME);
        return RedisClient.create(uri);
    }

    @AfterEach
    void end() {
        client.shutdown(0, 1, TimeUnit.SECONDS);
        ofTheTest.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    void pass(Duration time) {
        nanos.addAndGet(time.toNanos());
    }

    /** Returns the number by which Redis tells one connection from another. It replies in any state. */
    long id() {
        long id = lane.<Long>send(commands -> commands.clientId()).block(LONG);
        // Waiting callers get the connection a moment before later callers do.
        await().atMost(LONG).until(() -> lane.ifOpen() != null);
        return id;
    }

    /** Returns the number of connections of the lane. */
    long connections() {
        return admin.clientList()
                .lines()
                .filter(line -> line.contains("name=" + NAME + " "))
                .count();
    }
}
