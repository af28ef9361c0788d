package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.util.Throwables.getStackTrace;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.publisher.Hooks;
import reactor.core.scheduler.Schedulers;

/** The errors of a store that cannot reach Redis, or that Redis rejects: what is wrong, and where. */
class RedisStoreUnreachableTest {

    private static final String PASSWORD = "pa55word";
    private static final Duration LONG = Duration.ofSeconds(30);

    private RedisForTests redis;
    private RedisClient client;

    @BeforeEach
    void start() {
        redis = RedisForTests.startOwn();
    }

    @AfterEach
    void end() {
        client.shutdown();
        redis.close();
    }

    @Test
    void aClosedPort() {
        redis.kill();
        assertThat(failureAt(redis.uri()))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith("Redis is unavailable: no connection to " + place() + ": Connection refused");
    }

    /** All scripts wait for the same connection, and Reactor logs errors without a receiver. */
    @Test
    void aPreparationThatFailsDropsNoError() {
        redis.kill();
        client = RedisClient.create(redis.uri());
        RedisStore store = RedisStore.create(client);
        Queue<Throwable> dropped = new ConcurrentLinkedQueue<>();
        Hooks.onErrorDropped(dropped::add);
        try {
            assertThat(StoreFailure.of(store.prepare(""))).is(kind(Kind.UNREACHABLE));
            assertThat(dropped).isEmpty();
        } finally {
            Hooks.resetOnErrorDropped();
        }
    }

    @Test
    void aFailedConnectionAttemptFreesThePlacesOfItsDecisions() {
        redis.kill();
        client = RedisClient.create(redis.uri());
        RateLimiter limiter =
                limiter(RedisStore.builder(client).batching(10, 1, 2).build());
        for (int i = 0; i < 5; i++) {
            assertThat(StoreFailure.of(limiter.tryAcquire("a"))).is(kind(Kind.UNREACHABLE));
        }
    }

    /** Otherwise the waiting decisions would prevent that any later one abandons the attempt. */
    @Test
    void aDecisionThatFindsTheQueueFullAbandonsAStalledAttempt() {
        redis.pause();
        client = RedisClient.create(redis.uri());
        try (VirtualTime time = new VirtualTime()) {
            RateLimiter limiter = limiter(RedisStore.builder(client)
                    .batching(10, 1, 2)
                    .deliverOn(Schedulers.immediate())
                    .build());
            List<CompletableFuture<Decision>> waiting = Stream.generate(
                            () -> limiter.tryAcquire("a").toFuture())
                    .limit(2)
                    .toList();
            time.pass(Duration.ofSeconds(6));
            assertThat(waiting).noneMatch(CompletableFuture::isDone);
            CompletableFuture<Decision> next = limiter.tryAcquire("a").toFuture();
            time.passMillis(1);
            assertThat(waiting)
                    .allSatisfy(one -> assertThat(one)
                            .failsWithin(LONG)
                            .withThrowableThat()
                            .havingCause()
                            .is(kind(Kind.UNREACHABLE))
                            .withMessageContaining(
                                    "no connection within 5 s: expected a Redis that this host can reach, rediss://"
                                            + " only if it uses TLS"));
            next.cancel(true);
        }
        redis.resume();
    }

    @Test
    void anUnknownHost() {
        assertThat(failureAt(RedisURI.create("no-such-host.invalid", 6379)))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith("Redis is unavailable: no connection to no-such-host.invalid:6379: ");
    }

    @Test
    void aServerThatNeverRepliesIsReported() {
        RedisURI uri = redis.uri();
        uri.setTimeout(Duration.ofMillis(200));
        redis.pause();
        assertThat(failureAt(uri))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith("Redis is unavailable: no connection to " + place() + ": ")
                .hasMessageContaining("timed out");
        redis.resume();
    }

    @ParameterizedTest
    @EnumSource(ProtocolVersion.class)
    void aPasswordThatIsMissingOrWrong(ProtocolVersion version) {
        requirePassword();
        assertThat(refusalAt(redis.uri(), version))
                .hasMessageStartingWith("Redis is unavailable: no connection to " + place()
                        + ", because Redis rejected the connection: NOAUTH ")
                .hasMessageContaining("for example redis://user:password@host:6379");
        assertThat(refusalAt(withPassword("wr0ng"), version))
                .hasMessageContaining("no connection to " + place())
                .hasMessageContaining("WRONGPASS invalid username-password pair")
                .hasMessageContaining("for example redis://user:password@host:6379")
                .satisfies(e -> assertThat(getStackTrace(e)).doesNotContain("wr0ng"));
    }

    /** Without a handshake Redis rejects the first command, in other words if that is long. */
    @Test
    void aPasswordThatIsMissingOnAConnectionThatIsOpen() {
        requirePassword();
        RedisURI uri = redis.uri();
        client = RedisClient.create(uri);
        client.setOptions(ClientOptions.builder()
                .protocolVersion(ProtocolVersion.RESP2)
                .pingBeforeActivateConnection(false)
                .build());
        RateLimiter limiter = limiter(RedisStore.create(client));
        // Redis closes the connection with the rest of the script unread, and then its reply may be lost.
        await().untilAsserted(() -> assertThat(StoreFailure.of(limiter.tryAcquire("a")))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContaining("Redis rejected the connection: ")
                .hasMessageContaining("unauthenticated")
                .hasMessageContaining("for example redis://user:password@host:6379"));
    }

    @Test
    void aCommandTimeoutOfLettuceIsUnanswered() {
        client = RedisClient.create(redis.uri());
        client.setOptions(ClientOptions.builder()
                .timeoutOptions(TimeoutOptions.enabled(Duration.ofMillis(200)))
                .build());
        RateLimiter limiter = limiter(RedisStore.create(client));
        limiter.tryAcquire("a").block();
        redis.pause();
        assertThat(StoreFailure.of(limiter.tryAcquire("a")))
                .is(kind(Kind.UNANSWERED))
                .hasMessageStartingWith("Redis did not reply: ");
        redis.resume();
    }

    private String place() {
        return redis.uri().getHost() + ":" + redis.uri().getPort();
    }

    private void requirePassword() {
        try (StatefulRedisConnection<String, String> admin = admin()) {
            admin.sync().configSet("requirepass", PASSWORD);
        }
        client.shutdown();
    }

    private StatefulRedisConnection<String, String> admin() {
        client = RedisClient.create(redis.uri());
        return client.connect();
    }

    private RedisURI withPassword(String password) {
        return RedisURI.create("redis://" + password + "@" + place());
    }

    /**
     * Connects until the reason is known: Lettuce loses it if it notices that the connection is closed before it reads
     * the reply.
     */
    private LimitStoreException refusalAt(RedisURI uri, ProtocolVersion version) {
        LimitStoreException refusal = await().until(
                        () -> {
                            LimitStoreException failure = failureAt(uri, version);
                            client.shutdown();
                            return failure;
                        },
                        failure -> failure.getMessage().contains("rejected the connection"));
        assertThat(refusal).is(kind(Kind.UNREACHABLE));
        return refusal;
    }

    private LimitStoreException failureAt(RedisURI uri) {
        return failureAt(uri, ProtocolVersion.newestSupported());
    }

    private LimitStoreException failureAt(RedisURI uri, ProtocolVersion version) {
        client = RedisClient.create(uri);
        client.setOptions(ClientOptions.builder().protocolVersion(version).build());
        return StoreFailure.of(RedisStore.create(client));
    }

    private static RateLimiter limiter(RedisStore store) {
        return Unprotected.limiter(store, Limit.perHour(100));
    }
}
