package io.github.spillgate.failover;

import static io.github.spillgate.testkit.LoopRequests.awaitLane;
import static io.github.spillgate.testkit.LoopRequests.request;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.CommandType;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The connection of one of three event loops is lost, with decisions in flight; the breaker has its default window. */
class ResilientStoreLostLaneTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    /** No decision waits as long as that. */
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    /** As many failures open the breaker. */
    private static final int IN_FLIGHT = 10;

    private static final Pattern ID = Pattern.compile("(?m)^id=(\\d+)");

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final RedisCommands<String, String> admin = client.connect().sync();
    private final EventLoopGroup group = new MultiThreadIoEventLoopGroup(3, NioIoHandler.newFactory());
    private final List<EventLoop> others = List.of(group.next(), group.next());
    private final EventLoop losing = group.next();
    private final RedisStore store = RedisStore.create(redis.uri());
    private final RateLimiter limiter = RateLimiter.builder("lost")
            .store(store)
            .deadline(DEADLINE)
            .limit(Limit.perHour(1_000_000))
            .build();

    @BeforeEach
    void openTheLanes() {
        // A busy machine is not under test.
        store.prepare().retry(3).block(LONG);
        others.forEach(other -> awaitLane(other, limiter));
        awaitLane(losing, limiter);
    }

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        Future<?> unused = group.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        client.shutdown(0, 1, TimeUnit.SECONDS);
        redis.close();
    }

    /** @param waiting how many more decisions wait on the loop, because enough commands are in flight */
    @ParameterizedTest
    @ValueSource(ints = {0, 4 * IN_FLIGHT})
    void theOtherLoopsGoOnDecidingInRedis(int waiting) {
        client("PAUSE", "60000", "WRITE");
        List<CompletableFuture<Decision>> lost = request10(losing);
        List<CompletableFuture<Decision>> kept = new ArrayList<>();
        others.forEach(other -> kept.addAll(request10(other)));
        // Redis has read a command of each loop by then, and replies to none.
        await().atMost(LONG).until(() -> blocked().size() == 3);
        for (int i = 0; i < waiting; i += IN_FLIGHT) {
            lost.addAll(request10(losing));
        }
        awaitRun(losing);
        admin.clientKill(KillArgs.Builder.id(newestOf(blocked())));
        assertThat(lost)
                .allSatisfy(decision ->
                        assertThat(decision.get(30, TimeUnit.SECONDS).source()).isEqualTo(Source.LOCAL));
        client("UNPAUSE");
        assertThat(kept)
                .allSatisfy(decision ->
                        assertThat(decision.get(30, TimeUnit.SECONDS).source()).isEqualTo(Source.REDIS));
        for (EventLoop other : others) {
            assertThat(request10(other))
                    .allSatisfy(decision -> assertThat(
                                    decision.get(30, TimeUnit.SECONDS).source())
                            .isEqualTo(Source.REDIS));
        }
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        // First on the connection of the store, then on the next one of the loop.
        assertThat(request(losing, limiter.tryAcquire("of another key")).join().source())
                .isEqualTo(Source.REDIS);
        awaitLane(losing, limiter);
    }

    /** All decisions in one run of the loop. */
    private List<CompletableFuture<Decision>> request10(EventLoop loop) {
        return CompletableFuture.supplyAsync(
                        () -> {
                            List<CompletableFuture<Decision>> requested = new ArrayList<>();
                            for (int i = 0; i < IN_FLIGHT; i++) {
                                // Each on a key of its own: the local grants of another are not awaited.
                                requested.add(limiter.tryAcquire("key-" + System.nanoTime() + "-" + i)
                                        .toFuture());
                            }
                            return requested;
                        },
                        loop)
                .join();
    }

    private static void awaitRun(EventLoop loop) {
        // The first task may be before the one that sends the queue.
        loop.submit(() -> {}).syncUninterruptibly();
        loop.submit(() -> {}).syncUninterruptibly();
    }

    /** Returns the ids of the clients that wait for their held command. */
    private List<Long> blocked() {
        return admin.clientList()
                .lines()
                .filter(line -> line.contains(" flags=b "))
                .flatMap(line -> ID.matcher(line).results())
                .map(id -> Long.parseLong(id.group(1)))
                .toList();
    }

    private static long newestOf(List<Long> ids) {
        return ids.stream().mapToLong(Long::longValue).max().orElseThrow();
    }

    private void client(String... arguments) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        for (String argument : arguments) {
            args.add(argument);
        }
        admin.dispatch(CommandType.CLIENT, new StatusOutput<>(StringCodec.UTF8), args);
    }
}
