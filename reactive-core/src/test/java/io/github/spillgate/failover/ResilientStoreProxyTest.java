package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Thorough;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A proxy or a setting that prevents each decision in Redis: the log and the state name it with its remedy. */
class ResilientStoreProxyTest {

    private static final String KEY = "a";
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    /** Its own for each test, so that the log tells its store from those of other tests. */
    private final String namespace = "proxy-" + UUID.randomUUID();

    private final CommandProxy proxy =
            new CommandProxy(RedisForTests.first().uri().getPort());
    private final RedisURI uri = RedisURI.create("127.0.0.1", proxy.port());
    private final LogForTests log = LogForTests.listen();
    private Duration deadline = Duration.ofMillis(100);
    private RedisStore store;
    private RateLimiter limiter;

    @AfterEach
    void close() {
        limiter.closeLater().then(store.closeLater()).block();
        log.close();
        proxy.close();
    }

    @Test
    void aProxyThatClosesTheConnectionOnHelloIsNamed() {
        proxy.answer(command -> command.equals("HELLO") ? CommandProxy.CLOSE : CommandProxy.PASS);
        assertNamed(
                "a proxy does not know HELLO or CLIENT",
                "protocolVersion(ProtocolVersion.RESP2)",
                "setLibraryName(\"\")");
        assertDecidedAgain();
    }

    @Test
    void aDatabaseThatDoesNotExistIsNamed() {
        uri.setDatabase(99);
        assertNamed("DB index is out of range", "expected a URI with a database of this Redis, 0 to 15 by default");
    }

    @ParameterizedTest
    @ValueSource(strings = {"ERR SELECT is not allowed in cluster mode", "ERR unknown command 'SELECT'"})
    void aServerWithoutSelectIsNamed(String refusal) {
        uri.setDatabase(3);
        proxy.answer(command -> command.equals("SELECT") ? refusal : CommandProxy.PASS);
        assertNamed(refusal, "expected a URI without a database");
    }

    @Test
    void aProxyThatAnswersOtherCommandsButDropsScriptsIsNamed() {
        proxy.answer(command -> command.startsWith("EVAL") ? CommandProxy.DROP : CommandProxy.PASS);
        assertNamed("did not reply to EVAL", "a proxy that passes EVAL and EVALSHA on");
        assertDecidedAgain();
    }

    /** Decisions send EVALSHA; the first script of a connection is sent by EVAL. */
    @Test
    void aProxyThatDropsOnlyDigestsIsNamed() {
        proxy.answer(command -> command.equals("EVALSHA") ? CommandProxy.DROP : CommandProxy.PASS);
        assertNamed("replied only to EVAL on 2 connections in a row", "a proxy that passes EVAL and EVALSHA on");
        assertDecidedAgain();
    }

    @Test
    void aProxyThatClosesTheConnectionOnScriptsIsNamed() {
        proxy.answer(command -> command.startsWith("EVAL") ? CommandProxy.CLOSE : CommandProxy.PASS);
        assertNamed("closed it on EVAL", "a proxy that passes EVAL and EVALSHA on");
        assertDecidedAgain();
    }

    /** As servers reply that run no scripts, or not all commands in them. */
    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            ERR unknown command 'eval', with args beginning with: 'secret' | replied ERR unknown command 'eval':
            ERR unsupported command 'eval'                                 | ERR unsupported command 'eval':
            ERR This Redis command is not allowed from script              | command is not allowed from script:
            ERR Unknown Redis command called from script                   | command called from script:
            """)
    void aServerThatRefusesScriptsIsNamed(String refusal, String problem) {
        // A busy machine is not under test.
        deadline = Duration.ofSeconds(30);
        proxy.answer(command -> command.startsWith("EVAL") ? refusal : CommandProxy.PASS);
        assertNamed(problem, "a proxy, that runs EVAL and EVALSHA, with TIME, GETRANGE, STRLEN, SET");
        assertThat(problem()).doesNotContain("secret");
        assertDecidedAgain();
    }

    @ParameterizedTest
    @ValueSource(strings = {"HELLO", "CLIENT"})
    @Thorough
    void aProxyThatDropsTheHandshakeIsNamed(String dropped) {
        proxy.answer(command -> command.equals(dropped) ? CommandProxy.DROP : CommandProxy.PASS);
        assertNamed("a proxy that drops HELLO or CLIENT", "setLibraryName(\"\")");
        assertDecidedAgain();
    }

    /** Lettuce waits for the handshake as long as for a reply: 60 s by default. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    @Thorough
    void aHandshakeThatTheNetworkDropsKeepsNoOtherFromBeginning(boolean isUriKnown) {
        proxy.answer(command -> command.equals("HELLO") ? CommandProxy.DROP : CommandProxy.PASS);
        RedisClient client = RedisClient.create(uri);
        store = (isUriKnown ? RedisStore.builder(uri) : RedisStore.builder(client))
                .namespace(namespace)
                .build();
        limiter = RateLimiter.builder("dropped")
                .store(store)
                .limit(Limit.perMinute(100_000))
                .build();
        await().atMost(PATIENCE.dividedBy(2)).until(() -> {
            limiter.tryAcquire(KEY).block();
            return proxy.calls("HELLO") >= 3;
        });
        assertDecidedAgain(PATIENCE.dividedBy(2));
        client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
    }

    @Test
    void aConnectionThatIsOpenedWhileRedisLoadsItsDataDecidesAfterwards() {
        // A busy machine is not under test.
        deadline = Duration.ofSeconds(30);
        proxy.answer(command ->
                command.startsWith("EVAL") ? "LOADING Redis is loading the dataset in memory" : CommandProxy.PASS);
        assertNamed("LOADING", "Redis cannot decide");
        long connections = proxy.calls("HELLO");
        // Without a clock, no request would have a deadline.
        assertThat(proxy.calls("TIME")).isEqualTo(connections);
        assertDecidedAgain();
        assertThat(proxy.calls("HELLO")).isEqualTo(connections);
    }

    private void assertNamed(String problem, String... remedy) {
        store = RedisStore.builder(uri).namespace(namespace).build();
        limiter = RateLimiter.builder("proxied")
                .store(store)
                .limit(Limit.perMinute(100_000))
                .deadline(deadline)
                .build();
        await().atMost(PATIENCE).until(() -> {
            assertThat(limiter.tryAcquire(KEY).block().source()).isEqualTo(Source.LOCAL);
            return limiter.state().isFallbackActive() && problem().contains(problem);
        });
        assertThat(problem()).contains(remedy);
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(log.lines(namespace, problem))
                        .singleElement()
                        .asString()
                        .contains(remedy));
    }

    private void assertDecidedAgain() {
        assertDecidedAgain(PATIENCE);
    }

    private void assertDecidedAgain(Duration patience) {
        proxy.answer(command -> CommandProxy.PASS);
        await().atMost(patience).until(() -> limiter.tryAcquire(KEY).block().source() == Source.REDIS);
        await().atMost(PATIENCE).until(() -> {
            limiter.tryAcquire(KEY).block();
            StoreState state = limiter.state();
            return !state.isFallbackActive() && state.problem().isEmpty();
        });
        assertThat(log.lines("already closed")).isEmpty();
    }

    private String problem() {
        return limiter.state().problem().orElse("");
    }
}
