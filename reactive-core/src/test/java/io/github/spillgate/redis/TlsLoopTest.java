package io.github.spillgate.redis;

import static io.github.spillgate.testkit.LoopRequests.request;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.TlsForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.concurrent.Future;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Decisions of a store with TLS that are requested on event loops of a server. Lettuce reads the certificates on the
 * event loop of each connection, so no connection may be on a loop of the server.
 */
class TlsLoopTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final TlsForTests tls = TlsForTests.ofServer();
    private final RedisForTests redis = RedisForTests.programsWithTls().get(0).another(tls);
    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(3, NioIoHandler.newFactory());
    private final RedisClient client = RedisClient.create(redis.uri());
    private final RedisClient admin = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> connection;
    private final RedisStore store;
    private final RateLimiter limiter;

    /** The threads that have read the certificate of the authority. */
    private final Set<Thread> readers = ConcurrentHashMap.newKeySet();

    TlsLoopTest() {
        admin.setOptions(trusting(SslOptions.builder().trustManager(tls.authority())));
        connection = admin.connect();
        client.setOptions(trusting(SslOptions.builder().trustManager(this::authority)));
        store = RedisStore.builder(client).nodes(List.of(redis.uri())).build();
        limiter = RateLimiter.builder("tls-loops")
                .store(new Unprotected(store))
                .limit(Limit.perHour(1_000_000))
                .build();
    }

    @AfterEach
    void shutdown() {
        store.closeLater().block(LONG);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
        admin.shutdown(Duration.ZERO, Duration.ofSeconds(1));
        Future<?> unused = loops.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        redis.close();
    }

    @Test
    void decisionsThatLoopsRequestAreMadeInRedisWithoutBlockingThem() {
        long before = connections();
        assertManyDecisionsInRedis();
        assertNoLoopReadACertificate();
        assertThat(connections() - before).as("connections").isEqualTo(1);
    }

    @Test
    void aLostConnectionIsReplacedWithoutBlockingTheLoops() {
        assertManyDecisionsInRedis();
        for (int i = 0; i < 3; i++) {
            readers.clear();
            long killed =
                    connection.sync().clientKill(KillArgs.Builder.typeNormal().skipme());
            assertThat(killed).isEqualTo(1);
            await().atMost(LONG)
                    .ignoreExceptionsMatching(e -> e.getCause() instanceof LimitStoreException)
                    .until(() -> decide("again") == Source.REDIS);
            assertNoLoopReadACertificate();
            assertManyDecisionsInRedis();
        }
    }

    private void assertManyDecisionsInRedis() {
        List<CompletableFuture<Source>> sources = IntStream.range(0, 600)
                .mapToObj(i -> request(
                        loops.next(), limiter.tryAcquire("key-" + i % 50).map(decision -> decision.source())))
                .toList();
        assertThat(sources).allSatisfy(source -> assertThat(source.join()).isEqualTo(Source.REDIS));
    }

    private Source decide(String key) {
        return request(loops.next(), limiter.tryAcquire(key).map(decision -> decision.source()))
                .join();
    }

    private void assertNoLoopReadACertificate() {
        assertThat(readers).isNotEmpty().noneMatch(this::isOfALoop);
    }

    private boolean isOfALoop(Thread thread) {
        for (EventExecutor loop : loops) {
            if (CompletableFuture.supplyAsync(Thread::currentThread, (EventLoop) loop)
                    .join()
                    .equals(thread)) {
                return true;
            }
        }
        return false;
    }

    private InputStream authority() throws IOException {
        readers.add(Thread.currentThread());
        return new FileInputStream(tls.authority());
    }

    private static ClientOptions trusting(SslOptions.Builder options) {
        return ClientOptions.builder().sslOptions(options.build()).build();
    }

    private long connections() {
        return connection.sync().clientList().lines().count();
    }
}
