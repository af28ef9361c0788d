package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.LoopRequests.awaitLane;
import static io.github.spillgate.testkit.LoopRequests.request;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.Keyspace;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import io.lettuce.core.resource.SocketAddressResolver;
import io.netty.channel.DefaultEventLoopGroup;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.resolver.AddressResolver;
import io.netty.resolver.AddressResolverGroup;
import io.netty.resolver.DefaultNameResolver;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.concurrent.Future;
import io.netty.util.concurrent.Promise;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;

/** Decisions that are requested on event loops of an application. */
class LoopLanesTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Limit LIMIT = Limit.perHour(1_000_000);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final List<EventLoopGroup> groups = new ArrayList<>();
    private final List<RedisStore> stores = new ArrayList<>();
    private RedisClient admin;
    private StatefulRedisConnection<String, String> connection;

    @BeforeEach
    void connect() {
        admin = RedisClient.create(redis.uri());
        connection = admin.connect();
    }

    @AfterEach
    void shutdown() {
        stores.forEach(store -> store.closeLater().block(LONG));
        for (EventLoopGroup group : groups) {
            Future<?> unused = end(group);
        }
        admin.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    @Test
    void aDecisionIsEmittedOnTheLoopThatRequestedItAndForOtherThreadsElsewhere() {
        EventLoop loop = loops(1).next();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        awaitLane(loop, limiter);
        for (int i = 0; i < 100; i++) {
            assertThat(threadOf(limiter, loop)).isSameAs(threadOf(loop));
        }
        Thread thread =
                limiter.tryAcquire("a").map(decision -> Thread.currentThread()).block(LONG);
        assertThat(thread).isNotSameAs(threadOf(loop));
    }

    @Test
    void noMoreThan32LoopsHaveConnections() {
        EventLoopGroup loops = loops(LoopLanes.MOST_LOOPS + 2);
        long before = connections();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        List<EventLoop> without = new ArrayList<>();
        loops.forEach(each -> {
            EventLoop loop = (EventLoop) each;
            if (without.isEmpty() && connections() - before < 1 + LoopLanes.MOST_LOOPS) {
                awaitLane(loop, limiter);
            } else {
                without.add(loop);
            }
        });
        assertThat(without).hasSize(2);
        for (int i = 0; i < 20; i++) {
            assertThat(threadOf(limiter, without.get(i % 2))).isNotSameAs(threadOf(without.get(i % 2)));
        }
        assertThat(connections() - before).isEqualTo(1 + LoopLanes.MOST_LOOPS);
    }

    @Test
    void everythingThatALoopRequestsInOneRunIsSentInFourBatches() throws Exception {
        EventLoop loop = loops(1).next();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        awaitLane(loop, limiter);
        for (int i = 0; i < 20; i++) {
            // One of them is so fast that Redis counts as near, also on a busy machine.
            request(loop, limiter.tryAcquire("near")).join();
        }
        long before = scripts();
        List<CompletableFuture<Decision>> decisions = loop.submit(() -> {
                    List<CompletableFuture<Decision>> all = new ArrayList<>();
                    for (int i = 0; i < 200; i++) {
                        all.add(limiter.tryAcquire("key-" + i).toFuture());
                    }
                    return all;
                })
                .get();
        for (CompletableFuture<Decision> decision : decisions) {
            assertThat(decision.get(30, TimeUnit.SECONDS).isAllowed()).isTrue();
        }
        assertThat(scripts() - before).isEqualTo(4);
    }

    @Test
    void aBlockedLoopDelaysNoOtherCaller() {
        EventLoopGroup loops = loops(2);
        EventLoop blocked = loops.next();
        EventLoop other = loops.next();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        awaitLane(blocked, limiter);
        awaitLane(other, limiter);
        CountDownLatch latch = new CountDownLatch(1);
        CompletableFuture<Decision> waiting = request(blocked, limiter.tryAcquire("a"));
        blocked.execute(() -> {
            // This must hold the thread without blocking.
            long left;
            do {
                left = latch.getCount();
            } while (left > 0);
        });
        for (int i = 0; i < 20; i++) {
            assertThat(request(other, limiter.tryAcquire("a")).join().isAllowed())
                    .isTrue();
            assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
        }
        latch.countDown();
        assertThat(waiting.join().isAllowed()).isTrue();
    }

    @Test
    void aLostConnectionOfALoopIsReplaced() {
        EventLoop loop = loops(1).next();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        awaitLane(loop, limiter);
        connection
                .sync()
                .clientKill(io.lettuce.core.KillArgs.Builder.typeNormal().skipme());
        await().atMost(LONG)
                .ignoreExceptionsMatching(e -> e.getCause() instanceof LimitStoreException)
                .until(() -> threadOf(limiter, loop) == threadOf(loop));
    }

    /** Other lanes work, so no breaker would stop the attempts. */
    @Test
    void aLoopRetriesARejectedConnectionOnceASecond() {
        EventLoop loop = loops(1).next();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        connection.sync().configSet("maxclients", String.valueOf(connections()));
        long since = System.nanoTime();
        for (int i = 0; i < 500; i++) {
            assertThat(request(loop, limiter.tryAcquire("a")).join().isAllowed())
                    .isTrue();
        }
        // If Lettuce has lost the reason, an attempt connects again.
        long attempts = 1 + TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - since);
        assertThat(rejected()).isLessThanOrEqualTo(attempts * (1 + Lane.MOST_REPETITIONS));
        connection.sync().configSet("maxclients", "1000");
        awaitLane(loop, limiter);
    }

    private long rejected() {
        return connection
                .sync()
                .info("stats")
                .lines()
                .filter(line -> line.startsWith("rejected_connections:"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf(':') + 1)))
                .sum();
    }

    @Test
    void theLanesOfALoopThatEndsAreClosed() {
        EventLoopGroup ending = loops(1);
        EventLoop staying = loops(1).next();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        awaitLane(ending.next(), limiter);
        awaitLane(staying, limiter);
        long before = connections();
        end(ending).syncUninterruptibly();
        await().atMost(LONG).until(() -> connections() == before - 1);
        assertThat(threadOf(limiter, staying)).isSameAs(threadOf(staying));
        assertThat(limiter.tryAcquire("a").block(LONG).isAllowed()).isTrue();
        EventLoop next = loops(1).next();
        awaitLane(next, limiter);
    }

    /** As when a server is stopped under load. */
    @Test
    void everyDecisionOnALoopThatEndsIsAnswered() {
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        for (int round = 0; round < 20; round++) {
            EventLoopGroup ending = loops(1);
            EventLoop loop = ending.next();
            awaitLane(loop, limiter);
            Set<CompletableFuture<Decision>> open = ConcurrentHashMap.newKeySet();
            loop.execute(() -> {
                for (int i = 0; i < 500; i++) {
                    open.add(limiter.tryAcquire("key-" + i).toFuture());
                }
            });
            end(ending).syncUninterruptibly();
            await().atMost(LONG).until(() -> open.size() == 500 && open.stream().allMatch(CompletableFuture::isDone));
        }
    }

    @Test
    void aClosedStoreLeavesNoConnection() {
        EventLoopGroup loops = loops(2);
        long before = connections();
        RedisStore store = RedisStore.create(redis.uri());
        RateLimiter limiter = limiter(store);
        loops.forEach(loop -> awaitLane((EventLoop) loop, limiter));
        store.closeLater().block(LONG);
        assertThat(request(loops.next(), limiter.tryAcquire("a"))).failsWithin(LONG);
        await().atMost(LONG).until(() -> connections() == before);
        assertThat(loops.isShuttingDown()).isFalse();
    }

    @Test
    @SuppressWarnings("deprecation") // the only other transport on the class path of this module
    void loopsOfAnotherTransportUseTheConnectionOfTheStoreAndTakeNoPlace() {
        EventLoopGroup others = group(new DefaultEventLoopGroup(LoopLanes.MOST_LOOPS));
        long before = connections();
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        for (EventExecutor other : others) {
            assertThat(threadOf(limiter, (EventLoop) other)).isNotSameAs(threadOf((EventLoop) other));
        }
        assertThat(connections() - before).isEqualTo(1);
        awaitLane(loops(1).next(), limiter);
    }

    /** A client may have been created for another database than the URI. */
    @Test
    void allCallersUseTheDatabaseOfTheUri() {
        EventLoop loop = loops(1).next();
        RedisURI second = redis.uri();
        second.setDatabase(1);
        RedisStore store = RedisStore.builder(admin).nodes(List.of(second)).build();
        RateLimiter limiter = limiter(store, Limit.perHour(10));
        awaitLane(loop, limiter);
        assertThat(limiter.tryAcquire(Charge.of("a", 10)).block(LONG).isAllowed())
                .isTrue();
        assertThat(request(loop, limiter.tryAcquire("a")).join().isAllowed()).isFalse();
    }

    @Test
    void severalNodesOfAClientForOneServerAreRejected() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RedisStore.builder(admin)
                        .nodes(List.of(redis.uri(), redis.uri()))
                        .build())
                .withMessageContaining("2 nodes are too many for a RedisClient");
    }

    @Test
    void noThreadStaysWhenLoopsEndWhileTheyConnect() {
        RateLimiter limiter = limiter(RedisStore.create(redis.uri()));
        // Attempts of other tests may be there.
        Set<Thread> before = Thread.getAllStackTraces().keySet();
        for (int i = 0; i < 50; i++) {
            EventLoopGroup ending = loops(1);
            EventLoop loop = ending.next();
            CompletableFuture<Decision> first = request(loop, limiter.tryAcquire("a"));
            assertThat(first.join().isAllowed()).isTrue();
            loop.execute(() -> limiter.tryAcquire("a").subscribe());
            end(ending).syncUninterruptibly();
        }
        await().atMost(LONG)
                .until(() -> Thread.getAllStackTraces().keySet().stream()
                        .noneMatch(thread -> thread.getName().equals("spillgate-connect") && !before.contains(thread)));
    }

    @Test
    void connectionsThatMightBlockALoopGetNoLane() {
        assertThat(hasLanes(uri -> {})).isTrue();
        assertThat(hasLanes(uri -> uri.setCredentialsProvider(new StaticCredentialsProvider("a", new char[] {'b'}))))
                .isTrue();
        assertThat(hasLanes(uri -> uri.setSsl(true))).isFalse();
        assertThat(hasLanes(uri -> uri.setSocket("/tmp/redis"))).isFalse();
        assertThat(hasLanes(uri -> uri.setCredentialsProvider(Mono::never))).isFalse();
        assertThat(hasLanes(uri -> {
                    RedisURI sentinel = RedisURI.create("localhost", 26379);
                    sentinel.setSsl(true);
                    uri.getSentinels().add(sentinel);
                }))
                .isFalse();
        try (LogForTests log = LogForTests.listen()) {
            assertThat(LoopLanes.of(admin, List.of(), "RedisStore[test]")).isNull();
            assertThat(log.lines(
                            "RedisStore[test] does not know the URI of its client", "expected .nodes(List.of(uri))"))
                    .hasSize(1);
        }
    }

    /** The resolver of the JDK blocks its caller. */
    @Test
    void theResolversOfTheClientApplyAndNamesAreResolvedOnAThreadThatMayBlock() {
        Set<Thread> resolving = ConcurrentHashMap.newKeySet();
        Set<RedisURI> asked = ConcurrentHashMap.newKeySet();
        ClientResources resources = DefaultClientResources.builder()
                .socketAddressResolver(new SocketAddressResolver() {
                    @Override
                    public SocketAddress resolve(RedisURI uri) {
                        asked.add(uri);
                        return super.resolve(uri);
                    }
                })
                .addressResolverGroup(new AddressResolverGroup<InetSocketAddress>() {
                    @Override
                    protected AddressResolver<InetSocketAddress> newResolver(EventExecutor executor) {
                        return new DefaultNameResolver(executor) {
                            @Override
                            protected void doResolve(String name, Promise<InetAddress> promise) throws Exception {
                                resolving.add(Thread.currentThread());
                                super.doResolve(name, promise);
                            }
                        }.asAddressResolver();
                    }
                })
                .build();
        RedisURI uri = RedisURI.create("localhost", redis.uri().getPort());
        RedisClient client = RedisClient.create(resources, uri);
        try {
            EventLoop loop = loops(1).next();
            RedisStore store = RedisStore.builder(client).nodes(List.of(uri)).build();
            RateLimiter limiter = limiter(store);
            resolving.clear();
            asked.clear();
            awaitLane(loop, limiter);
            assertThat(asked).isNotEmpty();
            assertThat(resolving).isNotEmpty().doesNotContain(threadOf(loop));
            assertThat(threadOf(limiter, loop)).isSameAs(threadOf(loop));
            store.closeLater().block(LONG);
            assertThat(client.connect().sync().ping())
                    .as("the client still works")
                    .isEqualTo("PONG");
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
            Future<Boolean> unused = resources.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    private boolean hasLanes(Consumer<RedisURI> change) {
        RedisURI uri = RedisURI.create("localhost", 6379);
        change.accept(uri);
        return LoopLanes.of(admin, List.of(uri), "test") != null;
    }

    private EventLoopGroup loops(int number) {
        return group(new MultiThreadIoEventLoopGroup(number, NioIoHandler.newFactory()));
    }

    private EventLoopGroup group(EventLoopGroup group) {
        groups.add(group);
        return group;
    }

    private RateLimiter limiter(RedisStore store) {
        return limiter(store, LIMIT);
    }

    private RateLimiter limiter(RedisStore store, Limit limit) {
        stores.add(store);
        store.prepare("").retry(3).block(LONG);
        return Unprotected.limiter(store, limit);
    }

    private static Future<?> end(EventLoopGroup group) {
        return group.shutdownGracefully(0, 5, TimeUnit.SECONDS);
    }

    private static Thread threadOf(EventLoop loop) {
        return CompletableFuture.supplyAsync(Thread::currentThread, loop).join();
    }

    private static Thread threadOf(RateLimiter limiter, EventLoop loop) {
        return request(loop, limiter.peek("lane").map(decision -> Thread.currentThread()))
                .join();
    }

    private long connections() {
        return connection.sync().clientList().lines().count();
    }

    private long scripts() {
        return new Keyspace(admin).callsOf("evalsha");
    }
}
