package io.github.spillgate.examples.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import java.io.IOException;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ExampleRedisTest {

    private final RedisClient client = RedisClient.create();

    @AfterEach
    void shutdown() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void theEmbeddedServerRestartsEmptyOnTheSamePort() throws IOException {
        try (ExampleRedis redis = ExampleRedis.open(null)) {
            String uri = redis.uri();
            assertThat(keysAfterOneMore(uri)).isEqualTo(1);
            redis.start();
            assertThat(keysAfterOneMore(uri)).isEqualTo(2);

            assertThat(redis.isOurs()).isTrue();
            assertThat(redis.isRunning()).isTrue();

            redis.stop();
            redis.stop();
            assertThat(redis.isRunning()).isFalse();
            assertGone(uri);

            redis.start();
            assertThat(redis.isRunning()).isTrue();
            assertThat(redis.uri()).isEqualTo(uri);
            assertThat(keysAfterOneMore(uri)).isEqualTo(1);
        }
    }

    @Test
    void closeStopsTheEmbeddedServer() throws IOException {
        ExampleRedis redis = ExampleRedis.embedded();
        redis.close();
        assertGone(redis.uri());
    }

    @Test
    void severalEmbeddedServersRunSideBySide() throws IOException {
        try (ExampleRedis one = ExampleRedis.embedded();
                ExampleRedis other = ExampleRedis.embedded()) {
            assertThat(keysAfterOneMore(one.uri())).isEqualTo(1);
            assertThat(keysAfterOneMore(other.uri())).isEqualTo(1);
        }
    }

    @Test
    void aServerOfTheEnvironmentIsNeitherStoppedNorStarted() throws IOException {
        try (ExampleRedis running = ExampleRedis.embedded()) {
            ExampleRedis named = ExampleRedis.open(running.uri());
            assertThat(named.uri()).isEqualTo(running.uri());
            assertThat(named.isOurs()).isFalse();
            assertThat(named.isRunning()).isTrue();
            assertThat(named.name()).isEqualTo("the server of SPILLGATE_REDIS_URI");
            assertThatExceptionOfType(UnsupportedOperationException.class)
                    .isThrownBy(named::stop)
                    .withMessage("Redis cannot be stopped: it is the server of SPILLGATE_REDIS_URI, which is yours;"
                            + " expected an embedded server, for which SPILLGATE_REDIS_URI must not be set");
            assertThatExceptionOfType(UnsupportedOperationException.class)
                    .isThrownBy(named::start)
                    .withMessageContaining("cannot be started");
            named.close();
            assertThat(keysAfterOneMore(running.uri())).isEqualTo(1);
        }
    }

    private long keysAfterOneMore(String uri) {
        try (StatefulRedisConnection<String, String> connection = client.connect(uri(uri))) {
            connection.sync().incr("counter-" + System.nanoTime());
            return connection.sync().dbsize();
        }
    }

    private void assertGone(String uri) {
        assertThatExceptionOfType(RedisConnectionException.class).isThrownBy(() -> client.connect(uri(uri)));
    }

    private static RedisURI uri(String uri) {
        return RedisURI.create(uri);
    }
}
