package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;

/** Another program has written the key of a count: this instance decides on that key until the value is gone. */
class ResilientStoreForeignValueTest {

    private static final Limit LOG = Limit.parse("3/1h");
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String namespace = "foreign-" + UUID.randomUUID();
    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final RedisCommands<String, String> admin = client.connect().sync();
    private final RedisStore store =
            RedisStore.builder(client).namespace(namespace).build();
    private final ResilientStore resilient = ResilientStore.builder(store)
            .deadline(Duration.ofSeconds(5))
            .fallback(Fallback.local(1_000))
            .build();
    private final RateLimiter limiter =
            RateLimiter.builder("test").store(resilient).build();

    @AfterEach
    void close() {
        resilient.close();
        store.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @ParameterizedTest
    @ValueSource(strings = {"3/1h", "3/1h counter", "3/1h burst=3"})
    void theLimitHoldsUntilTheValueIsGoneAndAfterwards(String text) {
        Limit limit = Limit.parse(text);
        Charge charge = Charge.of("a", limit);
        String key = writeForeignValue(limit);
        assertThat(granted(charge, 40)).isEqualTo(3);
        admin.del(key);
        assertThat(granted(charge, 40)).isZero();
        await().atMost(PATIENCE).until(() -> {
            Decision now = limiter.peek(charge).block();
            return now.source() == Source.REDIS && now.limits().get(0).used() == 3;
        });
        assertThat(resilient.state().lost()).isZero();
    }

    /** A reset deletes the value, and what was granted before is not charged. */
    @Test
    void aResetEndsIt() {
        Charge charge = Charge.of("a", LOG);
        writeForeignValue(LOG);
        assertThat(granted(charge, 40)).isEqualTo(3);
        limiter.reset(charge).block();
        await().atMost(PATIENCE)
                .until(() -> limiter.peek(charge).block().source() == Source.REDIS
                        && resilient.state().toReconcile() == 0);
        assertThat(granted(charge, 40)).isEqualTo(3);
        assertThat(admin.type(admin.keys(namespace + ":*{a}").get(0))).isEqualTo("string");
    }

    /** Redis works, so this is no outage. One line names the key. */
    @Test
    void otherKeysAreNotAffected() {
        try (LogForTests log = LogForTests.listen()) {
            Charge charge = Charge.of("a", LOG);
            String key = writeForeignValue(LOG);
            assertThat(granted(charge, 40)).isEqualTo(3);
            assertThat(resilient.state().isFallbackActive()).isFalse();
            assertThat(limiter.tryAcquire(Charge.of("b", LOG)).block().source()).isEqualTo(Source.REDIS);
            assertThat(log.lines("RedisStore[" + namespace))
                    .singleElement()
                    .asString()
                    .contains(key);
        }
    }

    /** No request shows that Redis is back, and the value stays. */
    @Test
    void anOutageEndsWithoutRequestsWhileTheValueIsThere() {
        try (RedisForTests own = RedisForTests.startOwn();
                RedisStore ofOwn = RedisStore.create(own.uri());
                ResilientStore resilientOwn = ResilientStore.builder(ofOwn)
                        .fallback(Fallback.local(1_000))
                        .build()) {
            RateLimiter onOwn = RateLimiter.builder("test").store(resilientOwn).build();
            onOwn.ready().retry(3).block(PATIENCE);
            onOwn.tryAcquire(Charge.of("b", LOG)).block(PATIENCE);
            RedisClient other = RedisClient.create(own.uri());
            RedisCommands<String, String> commands = other.connect().sync();
            commands.rpush(commands.keys("*{b}").get(0).replace("{b}", "{a}"), "another", "program");
            other.shutdown(Duration.ZERO, Duration.ofSeconds(2));
            own.pause();
            await().atMost(PATIENCE).until(() -> {
                onOwn.tryAcquire(Charge.of("a", LOG)).block(PATIENCE);
                return onOwn.state().isFallbackActive();
            });
            own.resume();
            await().atMost(Duration.ofSeconds(20)).until(() -> !onOwn.state().isFallbackActive());
        }
    }

    private String writeForeignValue(Limit limit) {
        limiter.tryAcquire(Charge.of("b", limit)).block();
        String key = admin.keys(namespace + ":*{b}").get(0).replace("{b}", "{a}");
        admin.rpush(key, "another", "program");
        return key;
    }

    /** Counts the grants of requests over several times the interval in which local grants are charged. */
    private long granted(Charge charge, int requests) {
        List<Decision> decisions = Flux.interval(Duration.ofMillis(75))
                .onBackpressureBuffer()
                .take(requests)
                .concatMap(i -> limiter.tryAcquire(charge))
                .collectList()
                .block();
        return decisions.stream().filter(Decision::isAllowed).count();
    }
}
