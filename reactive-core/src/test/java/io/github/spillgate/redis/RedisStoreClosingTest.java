package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.NettyCustomizer;
import io.netty.channel.Channel;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** After a store is closed its client can be shut down: nothing of the store is open then. */
class RedisStoreClosingTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisClusterForTests cluster = RedisClusterForTests.shared();
    private final Queue<Channel> channels = new ConcurrentLinkedQueue<>();
    private ClientResources resources;

    @BeforeEach
    void listen() {
        resources = ClientResources.builder()
                .nettyCustomizer(new NettyCustomizer() {
                    @Override
                    public void afterChannelInitialized(Channel channel) {
                        channels.add(channel);
                    }
                })
                .build();
    }

    @AfterEach
    void end() throws InterruptedException {
        resources.shutdown(0, 1, TimeUnit.SECONDS).await();
    }

    @Test
    void aStoreInAClusterIsClosedWhenItsConnectionsAre() {
        RedisStore store = inCluster(clusterClient());
        use(store);
        assertThat(channels).hasSizeGreaterThanOrEqualTo(3).allMatch(Channel::isOpen);
        store.closeLater().block(LONG);
        assertThat(channels).noneMatch(Channel::isOpen);
    }

    @Test
    void aStoreOnASingleRedisIsClosedWhenItsConnectionIs() {
        RedisClient client = RedisClient.create(resources, RedisForTests.first().uri());
        StatefulRedisConnection<String, String> ofTheUser = client.connect();
        channels.clear();
        RedisStore store = RedisStore.create(client);
        use(store);
        assertThat(channels).isNotEmpty().allMatch(Channel::isOpen);
        store.closeLater().block(LONG);
        assertThat(channels).noneMatch(Channel::isOpen);
        assertThat(ofTheUser.sync().ping()).isEqualTo("PONG");
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    @Test
    void concurrentClosersWaitForTheSameClosing() {
        RedisStore store = inCluster(clusterClient());
        use(store);
        store.close();
        store.closeLater().block(LONG);
        assertThat(channels).noneMatch(Channel::isOpen);
        store.closeLater().block(LONG);
        store.close();
        assertThat(StoreFailure.of(store))
                .isExactlyInstanceOf(LimitStoreException.class)
                .hasMessageStartingWith("the store is closed");
    }

    @Test
    void nothingIsClosedBeforeASubscription() {
        RedisStore store = inCluster(clusterClient());
        use(store);
        Mono<Void> closing = store.closeLater();
        use(store);
        assertThat(channels).allMatch(Channel::isOpen);
        closing.block(LONG);
    }

    @Test
    void closingAfterTheClientShutdownCompletes() {
        RedisClusterClient client = RedisClusterClient.create(cluster.uris());
        RedisStore store = inCluster(client);
        use(store);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        store.closeLater().block(LONG);
    }

    @Test
    void aClientShutdownAfterClosingLogsNothing() {
        try (LogForTests log = LogForTests.listen()) {
            for (int i = 0; i < 10; i++) {
                RedisClusterClient client = RedisClusterClient.create(cluster.uris());
                RedisStore store = inCluster(client);
                RateLimiter limiter = RateLimiter.builder("api").store(store).build();
                use(store);
                limiter.closeLater()
                        .then(store.closeLater())
                        .then(Mono.fromFuture(() -> client.shutdownAsync(0, 1, TimeUnit.SECONDS)))
                        .block(LONG);
            }
            // Stores that other tests left open still log, with names of their own.
            assertThat(log.lines())
                    .allMatch(line -> line.contains(" io.github.spillgate.") && !line.contains("RedisStore[closing:"));
        }
    }

    private RedisClusterClient clusterClient() {
        return RedisClusterClient.create(resources, cluster.uris());
    }

    /** The client itself is asked nothing then. */
    private RedisStore inCluster(RedisClusterClient client) {
        return RedisStore.builder(client)
                .nodes(cluster.uris())
                .namespace("closing")
                .build();
    }

    private static void use(RedisStore store) {
        RateLimiter limiter = Unprotected.limiter(store, Limit.perHour(1_000));
        assertThat(Flux.range(0, 100)
                        .flatMap(i -> limiter.tryAcquire("key-" + i))
                        .all(Decision::isAllowed)
                        .block(LONG))
                .isTrue();
    }
}
