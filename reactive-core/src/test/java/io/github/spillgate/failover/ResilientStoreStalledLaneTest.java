package io.github.spillgate.failover;

import static io.github.spillgate.testkit.LoopRequests.awaitLane;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LoopRequests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The connection of one of three event loops stalls or is lost, with enough decisions in flight to open the breaker,
 * which has its default window. If all stall, Redis is silent.
 */
class ResilientStoreStalledLaneTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    /** Longer than a thread of a busy machine waits for a processor, shorter than until a connection is replaced. */
    private static final Duration DEADLINE = Duration.ofSeconds(1);

    /** As many failures open the breaker. */
    private static final int IN_FLIGHT = 10;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final BadNetwork network = new BadNetwork(redis.uri().getPort());
    private final EventLoopGroup group = new MultiThreadIoEventLoopGroup(3, NioIoHandler.newFactory());
    private final List<EventLoop> others = List.of(group.next(), group.next());
    private final EventLoop stalling = group.next();
    private final RedisStore store = RedisStore.create(network.uri());
    private final RateLimiter limiter = RateLimiter.builder("stalled")
            .store(store)
            .deadline(DEADLINE)
            .limit(Limit.perHour(1_000_000))
            .build();

    private final AtomicLong keys = new AtomicLong();

    @BeforeEach
    void openTheLanes() {
        // A busy machine is not under test.
        store.prepare("").retry(3).block(LONG);
        others.forEach(other -> awaitLane(other, limiter));
        // As the last one, so that its connection is the newest.
        awaitLane(stalling, limiter);
    }

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        Future<?> unused = group.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        network.close();
        redis.close();
    }

    @Test
    void theOtherLoopsGoOnDecidingInRedis() {
        network.stallNewest();
        List<CompletableFuture<Decision>> stalled = request(stalling, 3 * IN_FLIGHT);
        Queue<Source> sources = new ConcurrentLinkedQueue<>();
        // They miss their deadlines one after another.
        while (!stalled.stream().allMatch(CompletableFuture::isDone)) {
            for (EventLoop other : others) {
                sources.add(request(other, 1).get(0).join().source());
            }
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        }
        assertThat(sources).containsOnly(Source.REDIS);
        assertThat(stalled)
                .allSatisfy(decision -> assertThat(decision.join().source()).isEqualTo(Source.LOCAL));
        // After the timer of the loop that judges the silence, which was set before the decisions were made.
        stalling.schedule(() -> {}, 20, TimeUnit.MILLISECONDS).syncUninterruptibly();
        // On the connection of the store, before that of the loop is replaced.
        assertThat(request(stalling, IN_FLIGHT))
                .allSatisfy(decision -> assertThat(decision.join().source()).isEqualTo(Source.REDIS));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        network.endStalls();
        awaitLane(stalling, limiter);
    }

    /** The fallback decides for the failing loop on a key from which the others take in Redis. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void allLoopsTogetherKeepALimitAndEachPermitIsChargedOnce(boolean isLost) {
        Charge shared = Charge.of("shared", Limit.perHour(5 * IN_FLIGHT));
        network.stallNewest();
        List<CompletableFuture<Decision>> decisions = new ArrayList<>(request(stalling, shared, 3 * IN_FLIGHT));
        await().atMost(LONG).until(network::isHoldingBack);
        others.forEach(other -> decisions.addAll(request(other, shared, IN_FLIGHT)));
        if (isLost) {
            network.closeStalled();
        }
        decisions.forEach(CompletableFuture::join);
        network.endStalls();
        others.forEach(other -> decisions.addAll(request(other, shared, IN_FLIGHT)));
        assertThat(decisions.stream().filter(one -> one.join().isAllowed())).hasSize(5 * IN_FLIGHT);
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
        Decision charged = LoopRequests.request(stalling, limiter.peek(shared)).join();
        assertThat(charged.source()).isEqualTo(Source.REDIS);
        assertThat(charged.limits().get(0).used()).isEqualTo(5 * IN_FLIGHT);
    }

    @Test
    void aConnectionThatStaysStalledIsReplacedAndOpensNoBreaker() {
        network.stallNewest();
        List<CompletableFuture<Decision>> stalled = request(stalling, 3 * IN_FLIGHT);
        while (!stalled.stream().allMatch(CompletableFuture::isDone)) {
            others.forEach(other -> request(other, 1).get(0).join());
        }
        int before = network.connections();
        await().atMost(LONG).until(() -> {
            others.forEach(other -> request(other, 1).get(0).join());
            request(stalling, 1).get(0).join();
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
            return network.connections() > before;
        });
        awaitLane(stalling, limiter);
        // Its decisions in flight fail then.
        await().atMost(LONG).until(network::isEachStalledClosedByClient);
        assertThat(request(stalling, IN_FLIGHT))
                .allSatisfy(decision -> assertThat(decision.join().source()).isEqualTo(Source.REDIS));
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    /** @param waiting how many more decisions wait on the loop, because enough commands are in flight */
    @ParameterizedTest
    @ValueSource(ints = {0, 4 * IN_FLIGHT})
    void aLostConnectionOpensNoBreaker(int waiting) {
        RateLimiter patient = patient();
        awaitLane(stalling, patient);
        network.stallNewest();
        List<CompletableFuture<Decision>> lost = new ArrayList<>(request(stalling, patient, IN_FLIGHT));
        await().atMost(LONG).until(network::isHoldingBack);
        lost.addAll(request(stalling, patient, waiting));
        // The first task may be before the one that sends the queue.
        stalling.submit(() -> {}).syncUninterruptibly();
        stalling.submit(() -> {}).syncUninterruptibly();
        network.closeStalled();
        assertThat(lost)
                .allSatisfy(decision -> assertThat(decision.join().source()).isEqualTo(Source.LOCAL));
        for (EventLoop other : others) {
            assertThat(request(other, patient, IN_FLIGHT))
                    .allSatisfy(decision -> assertThat(decision.join().source()).isEqualTo(Source.REDIS));
        }
        assertThat(patient.state().breaker()).isEqualTo(Breaker.CLOSED);
        // First on the connection of the store, then on the next one of the loop.
        assertThat(request(stalling, patient, 1).get(0).join().source()).isEqualTo(Source.REDIS);
        awaitLane(stalling, patient);
        patient.closeLater().block(LONG);
    }

    @Test
    void aSilentRedisOpensTheBreakerAtTheFirstDeadline() {
        long before = keys.get();
        network.dropPackets();
        List<CompletableFuture<Decision>> silent = Stream.concat(others.stream(), Stream.of(stalling))
                .flatMap(loop -> request(loop, IN_FLIGHT).stream())
                .toList();
        silent.forEach(CompletableFuture::join);
        await().atMost(LONG).until(() -> limiter.state().breaker() == Breaker.OPEN);
        assertThat(keys.get() - before).isEqualTo(3 * IN_FLIGHT);
        network.restore();
    }

    /** Replies to earlier requests arrive on the other connections: they do not show that Redis is fast enough. */
    @Test
    void aSlowRedisOpensTheBreaker() {
        RateLimiter patient = patient();
        AtomicLong delay = new AtomicLong(DEADLINE.toMillis() * 7 / 10);
        try (RedisClient direct = RedisClient.create(redis.uri())) {
            RedisCommands<String, String> admin = direct.connect().sync();
            AtomicInteger replies = new AtomicInteger();
            network.delayReplies(() -> {
                replies.incrementAndGet();
                return delay.get();
            });
            List<CompletableFuture<Decision>> early = others.stream()
                    .map(other -> LoopRequests.request(other, patient.tryAcquire("early-" + keys.getAndIncrement())))
                    .toList();
            await().pollInterval(Duration.ofMillis(10))
                    .atMost(LONG)
                    .until(() -> admin.keys("*early*").size() == others.size() && replies.get() >= others.size());
            delay.set(LONG.toMillis());
            request(stalling, IN_FLIGHT).forEach(CompletableFuture::join);
            assertThat(early)
                    .allSatisfy(decision -> assertThat(decision.join().source()).isEqualTo(Source.REDIS));
        }
        await().atMost(LONG).until(() -> limiter.state().breaker() == Breaker.OPEN);
        patient.closeLater().block(LONG);
    }

    /** Returns a limiter with a deadline that no decision misses. */
    private RateLimiter patient() {
        return RateLimiter.builder("patient")
                .store(store)
                .deadline(LONG)
                .limit(Limit.perHour(1_000_000))
                .build();
    }

    private List<CompletableFuture<Decision>> request(EventLoop loop, int times) {
        return request(loop, limiter, times);
    }

    private List<CompletableFuture<Decision>> request(EventLoop loop, Charge charge, int times) {
        return IntStream.range(0, times)
                .mapToObj(i -> LoopRequests.request(loop, limiter.tryAcquire(charge)))
                .toList();
    }

    /** Each on a key of its own, so that none waits for the reconciliation of another. */
    private List<CompletableFuture<Decision>> request(EventLoop loop, RateLimiter asked, int times) {
        return IntStream.range(0, times)
                .mapToObj(i -> LoopRequests.request(loop, asked.tryAcquire("key-" + keys.getAndIncrement())))
                .toList();
    }
}
