package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Mono;

/** A Redis behind a proxy, or a managed one, that refuses commands. */
class RestrictedRedisTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    /** PING is sent by Lettuce. */
    private static final Set<String> NEEDED = Set.of("EVAL", "EVALSHA", "PING");

    private final RedisForTests redis = RedisForTests.startOwn();
    private final CommandProxy proxy = new CommandProxy(redis.uri().getPort());
    private final RedisClient client = RedisClient.create(uri());
    private final RedisStore store = RedisStore.create(client);
    private final RateLimiter limiter = Unprotected.limiter(store, Limit.perMinute(1_000));

    @AfterEach
    void close() {
        store.closeLater().block(LONG);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        proxy.close();
        redis.close();
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aProxyThatClosesTheConnectionOnOtherCommandsIsEnough(boolean reconnects) {
        client.setOptions(ClientOptions.builder()
                .autoReconnect(reconnects)
                .protocolVersion(ProtocolVersion.RESP2)
                .maintNotificationsConfig(MaintNotificationsConfig.disabled())
                .build());
        proxy.answer(CommandProxy.only(NEEDED, CommandProxy.CLOSE));
        // The first connection is lost with ROLE, the next one omits it.
        await().atMost(LONG)
                .ignoreExceptionsInstanceOf(LimitStoreException.class)
                .until(() -> limiter.peek("a").block(LONG) != null);
        assertDecidedInRedis();
        assertThatCode(() -> store.prepare("").block(LONG)).doesNotThrowAnyException();
    }

    /** A dropped command delays the first connections, and the next one omits it. */
    @ParameterizedTest
    @ValueSource(strings = {"ROLE", "INFO"})
    void aProxyThatDropsACommandThatDecisionsDoNotNeedIsEnough(String dropped) {
        proxy.answer(command -> command.equals(dropped) ? CommandProxy.DROP : CommandProxy.PASS);
        await().atMost(LONG).until(this::isDecided);
        assertDecidedInRedis();
        assertThat(proxy.calls(dropped)).isBetween(1L, 2L);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ERR unknown command 'EVALSHA'", "NOSCRIPT No matching script."})
    void aServerThatKnowsNoEvalshaOrNoDigestGetsTheTexts(String answer) {
        proxy.answer(command -> command.equals("EVALSHA") ? answer : CommandProxy.PASS);
        for (int i = 0; i < 10; i++) {
            assertDecidedInRedis();
        }
        assertThat(proxy.calls("EVALSHA")).isLessThan(30);
    }

    @Test
    void aLimiterWithAFallbackNeedsNoOtherCommands() {
        proxy.answer(CommandProxy.only(NEEDED, "ERR unknown command 'x'"));
        try (LimiterForTests own = LimiterForTests.on(uri(), LONG)) {
            own.awaitReady();
            RateLimiter withFallback = own.limiter();
            Charge charge = Charge.of("a", Limit.perMinute(10));
            Decision decision = withFallback.tryAcquire(charge.permits(4)).block(LONG);
            assertThat(decision.source()).isEqualTo(Source.REDIS);
            withFallback.settle(decision, 3).block(LONG);
            withFallback.refund(charge).block(LONG);
            await().atMost(LONG).until(() -> used(withFallback, charge) == 2);
            withFallback.reset(charge).block(LONG);
            assertThat(used(withFallback, charge)).isZero();
            Charge running = Charge.of("a", Limit.concurrent(1));
            assertThat(Mono.just("done")
                            .transform(withFallback.limited(running))
                            .block(LONG))
                    .isEqualTo("done");
            await().atMost(LONG).until(() -> used(withFallback, running) == 0);
            assertThat(withFallback.state().problem()).isEmpty();
        }
        assertThat(proxy.calls("EVALSHA")).isPositive();
    }

    private static long used(RateLimiter asked, Charge charge) {
        return asked.peek(charge).block(LONG).limits().get(0).used();
    }

    /** Also after a connection attempt that was abandoned. */
    private boolean isDecided() {
        return limiter.peek("a")
                .timeout(Duration.ofSeconds(5))
                .map(decision -> true)
                .onErrorReturn(false)
                .block();
    }

    /** Without CLIENT SETINFO, which a proxy may answer by closing the connection. */
    private RedisURI uri() {
        RedisURI uri = RedisURI.create("127.0.0.1", proxy.port());
        uri.setLibraryName("");
        uri.setLibraryVersion("");
        return uri;
    }

    private void assertDecidedInRedis() {
        for (int used = 1; used <= 5; used++) {
            Decision decision = limiter.tryAcquire("a").block(LONG);
            assertThat(decision.source()).isEqualTo(Source.REDIS);
            assertThat(decision.limits().get(0).used()).isEqualTo(used);
        }
        assertThat(limiter.refund(limiter.tryAcquire("a").block(LONG)).block(LONG))
                .isNull();
        assertThat(limiter.peek("a").block(LONG).limits().get(0).used()).isEqualTo(5);
        limiter.reset("a").block(LONG);
        assertThat(limiter.peek("a").block(LONG).limits().get(0).used()).isZero();
    }
}
