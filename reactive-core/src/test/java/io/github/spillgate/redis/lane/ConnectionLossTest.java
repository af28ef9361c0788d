package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.StoreFailure.kind;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Charge;
import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.LimitStoreException.Kind;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.github.spillgate.testkit.VirtualTime;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.reactive.RedisReactiveCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** What happens to what was sent when the connection breaks, and after that. */
class ConnectionLossTest {

    private static final Limit LIMIT = Limit.perHour(100);
    private static final Duration LONG = Duration.ofSeconds(30);

    private RedisForTests redis;
    private CommandProxy proxy;
    private RedisClient client;
    private RateLimiter limiter;

    @BeforeEach
    void connect() {
        redis = RedisForTests.startOwn();
        proxy = new CommandProxy(redis.uri().getPort());
        client = RedisClient.create(RedisURI.create("127.0.0.1", proxy.port()));
        limiter = limiter(client);
        limiter.tryAcquire(Charge.of("a", 5)).block();
        limiter.refund(Charge.of("never seen", 1)).block();
    }

    @AfterEach
    void shutdown() {
        client.shutdown();
        proxy.close();
        redis.close();
    }

    @Test
    void aChargeWithALostReplyIsMadeOnce() {
        for (int i = 1; i <= 20; i++) {
            proxy.loseNextReply();
            assertThatThrownBy(() -> limiter.tryAcquire(Charge.of("a", 3)).block())
                    .is(kind(Kind.UNANSWERED))
                    .hasMessageStartingWith("Redis did not reply: ");
            assertThat(used()).isEqualTo(5 + 3 * i);
        }
    }

    @Test
    void aRefundWithALostReplyIsMadeOnce() {
        proxy.loseNextReply();
        assertThatThrownBy(() -> limiter.refund(Charge.of("a", 1)).block()).is(kind(Kind.UNANSWERED));
        assertThat(used()).isEqualTo(4);

        Decision decision = limiter.tryAcquire(Charge.of("a", 2)).block();
        proxy.loseNextReply();
        assertThatThrownBy(() -> limiter.refund(decision).block()).is(kind(Kind.UNANSWERED));
        limiter.refund(decision).block();
        assertThat(used()).isEqualTo(4);
    }

    @Test
    void anErrorIsNotDeliveredOnTheConnectionsThread() {
        proxy.loseNextReply();
        String thread = limiter.tryAcquire("a")
                .map(decision -> "no error")
                .onErrorResume(
                        e -> Mono.fromCallable(() -> Thread.currentThread().getName()))
                .block();
        assertThat(thread).startsWith("parallel-");
    }

    @Test
    void theStoreReconnectsIfTheClientDisablesReconnect() {
        RedisClient stubborn = RedisClient.create(redis.uri());
        stubborn.setOptions(ClientOptions.builder().autoReconnect(false).build());
        RateLimiter other = limiter(stubborn);
        other.tryAcquire("a").block();
        redis.restart();
        Awaitility.await()
                .atMost(Duration.ofSeconds(30))
                .ignoreExceptionsInstanceOf(LimitStoreException.class)
                .until(() -> other.tryAcquire("a").block().isAllowed());
        stubborn.shutdown();
    }

    @Test
    void closingDuringTheConnectLeavesNoConnection() {
        RedisURI named = redis.uri();
        named.setClientName("closing");
        RedisClient slow = RedisClient.create(named);
        redis.pause();
        RedisStore store = RedisStore.create(slow);
        RateLimiter closing = Unprotected.limiter(store, LIMIT);
        Mono<String> outcome = closing.tryAcquire("a")
                .map(decision -> "decided")
                .onErrorResume(LimitStoreException.class, e -> Mono.just(e.getMessage()))
                .cache();
        outcome.subscribe();
        store.close();
        redis.resume();
        assertThat(outcome.block()).contains("the store is closed");
        try (var looking = RedisClient.create(redis.uri()).connect()) {
            Awaitility.await().until(() -> !looking.sync().clientList().contains("name=closing "));
        }
        slow.shutdown();
    }

    @Test
    void commandsThatAreWrittenTogetherWhileTheirConnectionEndsAllFail() {
        Lane lane = BatchQueueFixture.lane(() -> client.connect(ByteArrayCodec.INSTANCE), System::nanoTime);
        assertThat(lane.send(RedisReactiveCommands::ping).block(LONG)).isEqualTo("PONG");
        OpenConnection open = lane.opened().block(LONG);
        List<CompletableFuture<String>> sent = new ArrayList<>();
        CompletableFuture.runAsync(
                        () -> open.sendTogether(() -> {
                            sent.add(open.send(RedisReactiveCommands::ping).toFuture());
                            open.close();
                            sent.add(open.send(RedisReactiveCommands::ping).toFuture());
                        }),
                        open::run)
                .join();
        assertThat(sent).hasSize(2).allSatisfy(one -> assertThat(one).failsWithin(LONG));
    }

    /** Commands that were sent on a silent connection would else occupy all places for ever. */
    @Test
    void decisionsBehindASilentConnectionFailAndFreeTheirPlacesAlthoughTheQueueIsFull() {
        try (VirtualTime time = new VirtualTime()) {
            RateLimiter few =
                    limiter(RedisStore.builder(client).batching(10, 1, 4).deliverOn(Schedulers.immediate()));
            few.tryAcquire("b").block(LONG);
            proxy.silenceOpen();
            CompletableFuture<Decision> sent = few.tryAcquire("b").toFuture();
            // Redis has answered, so the others come too late for the same batch, and wait.
            Awaitility.await().until(proxy::hasDroppedReply);
            List<CompletableFuture<Decision>> waiting = Stream.generate(
                            () -> few.tryAcquire("b").toFuture())
                    .limit(4)
                    .toList();
            Queue<Decision> decided = new ConcurrentLinkedQueue<>();
            Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
            AtomicInteger passed = new AtomicInteger();
            Awaitility.await().atMost(LONG).until(() -> {
                if (passed.addAndGet(100) <= 10_000) {
                    time.passMillis(100);
                }
                few.tryAcquire("b").subscribe(decided::add, errors::add);
                return decided.stream().anyMatch(Decision::isAllowed);
            });
            assertThat(errors).allSatisfy(error -> assertThat(error).isInstanceOf(LimitStoreException.class));
            // Far less than the minute after which a silent connection is closed in any case.
            AtomicInteger seconds = new AtomicInteger();
            Awaitility.await().atMost(LONG).until(() -> {
                if (seconds.incrementAndGet() <= 10) {
                    time.pass(Duration.ofSeconds(1));
                }
                return sent.isDone() && waiting.stream().allMatch(CompletableFuture::isDone);
            });
            assertThatThrownBy(sent::get)
                    .as("it was sent, and is in doubt until the silent connection is closed")
                    .satisfies(error -> assertThat(error.getCause()).is(kind(Kind.UNANSWERED)));
            assertThat(waiting)
                    .allSatisfy(waiter -> assertThatThrownBy(waiter::get)
                            .satisfies(error -> assertThat(error.getCause()).is(kind(Kind.UNAVAILABLE)))
                            .hasMessageContaining("stopped responding"));
        }
    }

    /** The first peeks may find the connection lost. */
    private long used() {
        return await().ignoreExceptionsMatching(Kind.UNAVAILABLE::isOf)
                .until(() -> limiter.peek("a").block().limits().get(0).used(), used -> true);
    }

    private static RateLimiter limiter(RedisClient client) {
        return limiter(RedisStore.builder(client).deliverOn(Schedulers.parallel()));
    }

    private static RateLimiter limiter(RedisStore.Builder store) {
        return Unprotected.limiter(store.build(), LIMIT);
    }
}
