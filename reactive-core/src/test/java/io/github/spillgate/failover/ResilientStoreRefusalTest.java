package io.github.spillgate.failover;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.AclSetuserArgs;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCredentials;
import io.lettuce.core.RedisCredentialsProvider;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The Redis user lacks a right that only some operations need: Redis refuses those, and goes on deciding. */
class ResilientStoreRefusalTest {

    private static final String KEY = "a";
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    /** Its own for each test, so that the log tells its store from those of other tests. */
    private final String namespace = "refusal-" + UUID.randomUUID();

    private final String name = "RedisStore[" + namespace + ":";
    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient administrator = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> admin = administrator.connect();
    private RedisClient client;
    private RedisStore store;
    private RateLimiter limiter;
    private Duration deadline = Duration.ofMillis(100);

    @BeforeEach
    void loadTheScripts() {
        RedisStore loading = RedisStore.create(administrator);
        loading.prepare("").retry(3).block();
        loading.close();
    }

    @AfterEach
    void close() {
        if (limiter != null) {
            limiter.closeLater().then(store.closeLater()).block();
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
        administrator.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    @Test
    void aUserWithoutEvalReconnectsIfTheScriptsAreLoaded() {
        connectWithout(CommandType.EVAL);
        try (LogForTests log = LogForTests.listen()) {
            redis.pause();
            assertThat(limiter.tryAcquire(KEY).block().source()).isEqualTo(Source.LOCAL);
            assertThat(limiter.tryAcquire(KEY).block().source()).isEqualTo(Source.LOCAL);
            admin.reactive().clientKill(KillArgs.Builder.typeNormal().skipme()).subscribe();
            redis.resume();
            await().atMost(PATIENCE)
                    .until(() -> limiter.tryAcquire(KEY).block().source() == Source.REDIS
                            && limiter.state().toReconcile() == 0);
            assertThat(log.lines(name, "NOPERM")).isEmpty();
        }
    }

    /** What cannot be worked around: one line says what Redis refuses and what to do, and so does the state. */
    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            ~spillgate:* +@all -eval      | 0 | NOPERM | eval     | +eval +evalsha
            ~spillgate:* +@all -evalsha   | 0 | NOPERM | evalsha  | +eval +evalsha
            ~spillgate:* +@all -time      | 0 | script | user     | +time
            ~spillgate:* +@all -select    | 3 | NOPERM | 'select' | +select
            ~spillgate:* +@read +eval +evalsha +time | 0 | script | user | +set
            ~other:* +@all                | 0 | NOPERM | key      | ~spillgate:*
            """)
    void aRefusalIsNamedWithItsRemedy(String rights, int database, String code, String what, String remedy) {
        try (LogForTests log = LogForTests.listen()) {
            admin.sync().scriptFlush();
            createLimiter(rights, database);
            await().atMost(PATIENCE).until(() -> {
                limiter.tryAcquire(KEY).block();
                return limiter.state().isFallbackActive()
                        && limiter.state().problem().orElse("none").contains(remedy);
            });
            assertThat(limiter.state().problem().orElseThrow()).contains(code, what, remedy);
            // On a busy machine, the first decision misses its deadline before Redis refuses it; that is logged apart.
            await().atMost(PATIENCE)
                    .untilAsserted(() -> assertThat(log.lines(name, "Falling back to LocalFallback", remedy))
                            .singleElement()
                            .asString()
                            .contains(code, what));
            // What else the rights are for may be said apart, once.
            assertThat(log.lines(name, "does not exchange published limits")).hasSizeLessThan(2);
            assertThat(log.lines(name, remedy)).hasSizeLessThan(3);
            admin.sync().aclSetuser("app", AclSetuserArgs.Builder.on().allKeys().allCommands());
            await().atMost(PATIENCE).until(() -> limiter.tryAcquire(KEY).block().source() == Source.REDIS);
        }
    }

    @Test
    void aRefusedResetFailsItsCallerAndKeepsTheUsage() {
        // A busy machine is not under test.
        deadline = Duration.ofSeconds(10);
        // No pattern matches the key of a reset mark.
        connect("~spillgate:3: ~spillgate:*} +@all");
        try (LogForTests log = LogForTests.listen()) {
            for (int i = 0; i < 30; i++) {
                assertThatThrownBy(() -> limiter.reset(KEY).block())
                        .is(kind(Kind.REFUSED))
                        .hasMessageContaining("expected a user with the rights that the store needs");
                for (String key : List.of(KEY, "b")) {
                    assertThat(limiter.tryAcquire(key).block().source()).as(key).isEqualTo(Source.REDIS);
                }
                assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
                assertThat(limiter.state().source()).isEqualTo(Source.REDIS);
            }
            assertThat(log.lines(name, "Falling back")).isEmpty();
            assertThat(log.lines(name, "refuses an operation")).hasSize(1);
        }
        Charge charge = Charge.of("c", Limit.parse("5/1m"));
        assertThat(limiter.tryAcquire(charge.permits(5)).block().isAllowed()).isTrue();
        assertThatThrownBy(() -> limiter.reset(charge).block()).is(kind(Kind.REFUSED));
        redis.pause();
        assertThat(LimiterForTests.almostLate(limiter.tryAcquire(charge), deadline)
                        .block()
                        .isAllowed())
                .as("Redis still has all five")
                .isFalse();
        redis.resume();
    }

    @Test
    void theStateNamesTheRevokedRightToRunScripts() {
        connectWithout(CommandType.DEL);
        redis.pause();
        for (int i = 0; i < 3; i++) {
            limiter.tryAcquire(KEY).block();
        }
        admin.reactive()
                .aclSetuser("app", AclSetuserArgs.Builder.removeCommand(CommandType.EVALSHA))
                .subscribe();
        redis.resume();
        await().atMost(PATIENCE).until(() -> {
            limiter.tryAcquire(KEY).block();
            return limiter.state().isFallbackActive()
                    && limiter.state().problem().orElse("none").contains("evalsha");
        });
    }

    private void connectWithout(CommandType command) {
        connect("allkeys +@all -" + command.name());
    }

    private void connect(String rights) {
        createLimiter(rights, 0);
        await().atMost(PATIENCE)
                .until(() -> limiter.tryAcquire(KEY).block().source() == Source.REDIS
                        && limiter.state().toReconcile() == 0);
    }

    private void createLimiter(String rights, int database) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        for (String word : ("SETUSER app reset on >password " + rights).split(" ", -1)) {
            args.add(word.replace("spillgate", namespace));
        }
        admin.sync().dispatch(CommandType.ACL, new StatusOutput<>(StringCodec.UTF8), args);
        RedisURI uri = redis.uri();
        uri.setDatabase(database);
        uri.setCredentialsProvider(
                RedisCredentialsProvider.from(() -> RedisCredentials.just("app", "password".toCharArray())));
        client = RedisClient.create(uri);
        store = RedisStore.builder(client).namespace(namespace).build();
        limiter = RateLimiter.builder("refused")
                .store(store)
                .limit(Limit.parse("10000/1m"))
                .deadline(deadline)
                .build();
    }
}
