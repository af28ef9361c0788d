package io.github.spillgate.redis;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.testkit.RedisBinary;
import io.github.spillgate.testkit.RedisClusterForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.RedisNode;
import io.github.spillgate.testkit.SentinelForTests;
import io.github.spillgate.testkit.StoreFailure;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.AclSetuserArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.protocol.CommandType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The errors for a healthy server of another kind than the store expects. */
class ServerKindTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private static RedisClusterForTests cluster;
    private static SentinelForTests sentinel;
    private static @Nullable RedisForTests single;

    private final List<AbstractRedisClient> clients = new ArrayList<>();

    @BeforeAll
    static void startTheFirst() {
        start(RedisClusterForTests.shared(), RedisBinary.first());
    }

    /** From now on this cluster, and a Sentinel of this program, are tested. */
    static void start(RedisClusterForTests tested, RedisBinary binary) {
        stop();
        cluster = tested;
        sentinel = SentinelForTests.start(binary, 0);
        single = RedisForTests.startOwn();
    }

    @AfterAll
    static void stop() {
        if (single != null) {
            single.close();
            sentinel.close();
            single = null;
        }
    }

    @AfterEach
    void end() {
        clients.forEach(client -> client.shutdown(0, 1, TimeUnit.SECONDS));
    }

    @Test
    void aClusterStoreReportsASingleRedis() {
        RedisURI uri = single.uri();
        RedisStore store =
                RedisStore.builder(clusterClient(uri)).nodes(List.of(uri)).build();
        // On a busy machine the first connection may take longer than a node is waited for.
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(StoreFailure.of(store.prepare("")))
                        .is(kind(Kind.UNREACHABLE))
                        .hasMessage("Redis is unavailable: " + place(uri)
                                + " is not part of a cluster, and replied ERR This instance has cluster support "
                                + "disabled: expected"
                                + " the URIs of a cluster's nodes, or a store for a single Redis, for example"
                                + " RedisStore.create(RedisClient.create(\"redis://host:6379\")), and in settings"
                                + " redis.cluster=false"));
        assertThat(StoreFailure.of(store)).hasMessageContaining("is not part of a cluster");
    }

    @Test
    void aClusterStoreWithoutNodesReportsASingleRedis() {
        assertThat(StoreFailure.of(RedisStore.create(clusterClient(single.uri()))))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageStartingWith("Redis is unavailable: the configured server is not part of a"
                        + " cluster, and replied ERR This instance has cluster support disabled: expected the URIs of")
                .hasMessageEndingWith("redis.cluster=false");
    }

    @Test
    void aSingleStoreReportsASentinel() {
        RedisURI uri = sentinel();
        assertThat(StoreFailure.of(RedisStore.create(client(uri))))
                .is(kind(Kind.UNREACHABLE))
                .hasMessage("Redis is unavailable: the configured server is a Sentinel, which runs"
                        + " no scripts; it monitors primary: expected a URI that names a monitored primary, "
                        + "for example redis-sentinel://host:26379/0#primary");
        uri.setDatabase(3);
        RedisStore withDatabase = RedisStore.create(client(uri));
        // Lettuce closes the connection when it reads the error, and may report only that.
        await().untilAsserted(() -> assertThat(StoreFailure.of(withDatabase))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageMatching("Redis is unavailable: no connection to " + place(uri)
                        + ", because Redis rejected the connection: ERR unknown command .SELECT.: expected a"
                        + " URI without a database, for example redis://host:6379; the URI of a Sentinel names"
                        + " a primary, for example redis-sentinel://host:26379/0#name"));
    }

    @Test
    void aClusterStoreReportsASentinel() {
        RedisURI uri = sentinel();
        RedisStore named =
                RedisStore.builder(clusterClient(uri)).nodes(List.of(uri)).build();
        String example = "RedisStore.create(RedisClient.create(\"redis-sentinel://host:26379/0#name\"))";
        await().atMost(LONG)
                .untilAsserted(() -> assertThat(StoreFailure.of(named))
                        .is(kind(Kind.UNREACHABLE))
                        .hasMessageContaining(place(uri) + " is not part of a cluster, and replied ERR unknown command")
                        .hasMessageEndingWith(example));
        assertThat(StoreFailure.of(RedisStore.create(clusterClient(uri))))
                .is(kind(Kind.UNREACHABLE))
                .hasMessageContaining("is not part of a cluster")
                .hasMessageEndingWith(example);
    }

    @Test
    void anUnknownCommandIsReportedWithoutItsKeys() {
        RedisNode one = sentinel.sentinels().get(0);
        one.commands()
                .aclSetuser(
                        "app",
                        AclSetuserArgs.Builder.on()
                                .addPassword("password")
                                .allCommands()
                                .removeCommand(CommandType.ROLE));
        RedisURI uri = RedisURI.builder(one.uri())
                .withAuthentication("app", "password".toCharArray())
                .build();
        assertThat(StoreFailure.of(RedisStore.create(client(uri))))
                .is(kind(Kind.UNREACHABLE))
                .hasNoCause()
                .hasMessageMatching("Redis is unavailable: the configured server replied ERR unknown command"
                        + " .EVAL.: expected a Redis, or a proxy, that runs EVAL and EVALSHA, with TIME, [A-Z, ]+ and"
                        + " PEXPIRE in scripts; the URI of a Sentinel names a primary, .*");
    }

    @Test
    void aSingleStoreReportsACluster() {
        RateLimiter limiter = limiter(RedisStore.create(client(cluster.uris().get(0))));
        Flux<Mono<Decision>> alone = Flux.range(0, 20).map(i -> limiter.tryAcquire("key-" + i));
        Flux<Mono<Decision>> severalKeys =
                Flux.range(0, 20).map(i -> limiter.tryAcquire(Charge.of("one-" + i), Charge.of("other-" + i)));
        Flux<Mono<Decision>> inBatches = Flux.range(0, 200).map(i -> limiter.tryAcquire("key-" + i));
        List<LimitStoreException> failures = Flux.concat(alone, severalKeys)
                .concatMap(ServerKindTest::failureOfDecision)
                .concatWith(inBatches.flatMap(ServerKindTest::failureOfDecision))
                .collectList()
                .block(LONG);
        assertThat(failures)
                .anyMatch(failure -> failure.getMessage().contains(": MOVED "))
                .anyMatch(failure -> failure.getMessage().contains(": CROSSSLOT "))
                .allSatisfy(failure -> assertThat(failure)
                        .is(kind(Kind.UNAVAILABLE))
                        .hasMessageContaining("it is one node of a cluster")
                        .hasMessageContaining("RedisStore.create(RedisClusterClient.create(uri))")
                        .hasMessageContaining("redis.cluster=true"));
    }

    private static Mono<LimitStoreException> failureOfDecision(Mono<Decision> decision) {
        return decision.flatMap(ignored -> Mono.<LimitStoreException>empty())
                .onErrorResume(LimitStoreException.class, Mono::just);
    }

    private static String place(RedisURI uri) {
        return uri.getHost() + ":" + uri.getPort();
    }

    private static RedisURI sentinel() {
        return sentinel.sentinels().get(0).uri();
    }

    private RedisClient client(RedisURI uri) {
        RedisClient client = RedisClient.create(uri);
        clients.add(client);
        return client;
    }

    private RedisClusterClient clusterClient(RedisURI uri) {
        RedisClusterClient client = RedisClusterClient.create(uri);
        clients.add(client);
        return client;
    }

    private static RateLimiter limiter(RedisStore store) {
        return Unprotected.limiter(store, Limit.perHour(100));
    }
}
