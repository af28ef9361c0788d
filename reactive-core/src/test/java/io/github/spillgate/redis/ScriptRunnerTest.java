package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.LimitStoreException;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.LimiterForTests;
import io.github.spillgate.testkit.LoopRequests;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
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
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Scripts are loaded again whenever Redis has lost them, whatever becomes of earlier loads. */
class ScriptRunnerTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient administrator = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> admin = administrator.connect();
    private final CommandProxy proxy = new CommandProxy(redis.uri().getPort());
    private final RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", proxy.port()));

    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(3, NioIoHandler.newFactory());

    private final AtomicBoolean isHeld = new AtomicBoolean();
    private final CompletableFuture<Void> released = new CompletableFuture<>();

    @AfterEach
    void close() {
        Future<?> unused = loops.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        proxy.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        administrator.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    /** The lanes share what they know about the server. */
    @Test
    void callsOnAllLanesSendTheTextOnceIfTheServerHasLostTheScript() {
        RedisStore store = RedisStore.create(RedisURI.create("127.0.0.1", proxy.port()));
        RateLimiter limiter = limiter(store);
        loops.forEach(loop -> LoopRequests.awaitLane((EventLoop) loop, limiter));
        for (int round = 0; round < 5; round++) {
            admin.sync().scriptFlush();
            long before = proxy.calls("EVAL");
            List<CompletableFuture<Decision>> decisions = new ArrayList<>();
            for (int i = 0; i < 1_000; i++) {
                decisions.add(LoopRequests.request(loops.next(), limiter.tryAcquire("key-" + i % 300)));
            }
            assertThat(decisions).allSatisfy(decision -> assertThat(decision).succeedsWithin(LONG));
            assertThat(proxy.calls("EVAL") - before).isEqualTo(1);
        }
        store.closeLater().block(LONG);
    }

    @Test
    void aRefundSendsTheTextIfTheServerHasLostTheScript() {
        RedisStore store = RedisStore.create(client);
        RateLimiter limiter = limiter(store);
        List<Decision> decisions = Flux.range(0, 2)
                .concatMap(i -> limiter.tryAcquire("a"))
                .collectList()
                .block(LONG);
        for (Decision decision : decisions) {
            admin.sync().scriptFlush();
            long before = proxy.calls("EVAL");
            limiter.refund(decision).block(LONG);
            assertThat(proxy.calls("EVAL") - before).isEqualTo(1);
        }
        store.close();
    }

    /** The lane of one loop does not reply, and the script is missing on another lane that works. */
    @Test
    void aLoadWithoutAReplyDelaysNoOtherLaneForLong() {
        RedisStore store = RedisStore.create(RedisURI.create("127.0.0.1", proxy.port()));
        RateLimiter limiter = limiter(store);
        loops.forEach(loop -> LoopRequests.awaitLane((EventLoop) loop, limiter));
        admin.sync().scriptFlush();
        holdTheFirstText();
        CompletableFuture<Decision> held = LoopRequests.request(loops.next(), limiter.tryAcquire("a"));
        await().atMost(LONG).until(isHeld::get);
        assertThat(LoopRequests.request(loops.next(), limiter.tryAcquire("b"))).succeedsWithin(LONG);
        released.complete(null);
        assertThat(held).succeedsWithin(LONG);
        store.closeLater().block(LONG);
    }

    /** A call that brings the text fails, and the others do not fail because of it. */
    @Test
    void aLoadThatFailsFailsNoOtherCall() {
        RedisStore store = RedisStore.builder(client).batching(1, 256, 1_000).build();
        RateLimiter limiter = limiter(store);
        limiter.tryAcquire("a").block(LONG);
        admin.sync().scriptFlush();
        AtomicBoolean hasFailed = new AtomicBoolean();
        proxy.answer(command -> command.equals("EVAL") && hasFailed.compareAndSet(false, true)
                ? "NOPERM this user has no permissions to access one of the keys used as arguments"
                : CommandProxy.PASS);
        AtomicInteger failures = new AtomicInteger();
        List<Decision> decisions = Flux.range(0, 20)
                .flatMap(
                        i -> limiter.tryAcquire("key-" + i).onErrorResume(e -> {
                            failures.incrementAndGet();
                            return Mono.empty();
                        }),
                        20)
                .collectList()
                .block(LONG);
        assertThat(failures).hasValue(1);
        assertThat(decisions).hasSize(19).allMatch(Decision::isAllowed);
        store.close();
    }

    /** Redis has executed the command with the text, or not. Nothing is sent again on the next connection. */
    @ParameterizedTest
    @CsvSource({CommandProxy.CLOSE + ", 0", CommandProxy.LOSE_REPLY + ", 1"})
    void ifTheConnectionIsLostWithTheTextTheFallbackDecidesAtOnce(String answer, int executedWithoutReply) {
        RedisStore store = RedisStore.builder(client).batching(1, 256, 1_000).build();
        RateLimiter limiter = RateLimiter.builder("api")
                .store(store)
                .deadline(LONG)
                .limit(Limit.perMinute(1_000))
                .build();
        LimiterForTests.awaitReady(limiter);
        limiter.tryAcquire("a").block(LONG);
        admin.sync().scriptFlush();
        proxy.answerWords(command -> {
            boolean isLost = command.get(0).equals("EVAL")
                    && command.get(3).endsWith("{a}")
                    && isHeld.compareAndSet(false, true);
            if (isLost) {
                released.join();
            }
            return isLost ? answer : CommandProxy.PASS;
        });
        List<CompletableFuture<Decision>> callers = Stream.generate(
                        () -> limiter.tryAcquire("a").toFuture())
                .limit(20)
                .toList();
        released.complete(null);
        assertThat(callers).allSatisfy(caller -> {
            assertThat(caller).succeedsWithin(LONG).matches(Decision::isAllowed);
            assertThat(caller.join().source()).isEqualTo(Source.LOCAL);
        });
        assertThat(isHeld).isTrue();
        assertThat(limiter.state().missedDeadlines()).isZero();
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
        assertThat(limiter.state().lost()).isZero();
        assertThat(limiter(store).peek("a").block(LONG).limits().get(0).used()).isEqualTo(21 + executedWithoutReply);
        limiter.closeLater().then(store.closeLater()).block(LONG);
    }

    /** The text is not sent again and again. */
    @Test
    void aScriptThatIsUnknownEvenWithItsTextFails() {
        RedisStore store = RedisStore.builder(client)
                .scripts(text -> "return redis.error_reply('NOSCRIPT lost')")
                .build();
        RateLimiter limiter = limiter(store);
        assertThatExceptionOfType(LimitStoreException.class)
                .isThrownBy(() -> limiter.tryAcquire("a").block(LONG))
                .withMessageContaining("NOSCRIPT lost");
        store.close();
    }

    /** Its connection does not reply, and its end comes after that of its successor. */
    @Test
    void aLoadThatNeverSeemsToEndDelaysNoOtherConnectionForLong() {
        RedisStore store = RedisStore.create(client);
        RateLimiter limiter = limiter(store);
        limiter.tryAcquire("a").block(LONG);
        admin.sync().scriptFlush();
        holdTheFirstText();
        CompletableFuture<Decision> held = limiter.tryAcquire("a").toFuture();
        await().atMost(LONG).until(isHeld::get);
        // After 2 s of silence there is another connection.
        await().atMost(LONG).until(() -> {
            CompletableFuture<Decision> next = limiter.tryAcquire("b").toFuture();
            return next.handle((decision, error) -> error == null)
                    .completeOnTimeout(false, 1, TimeUnit.SECONDS)
                    .join();
        });
        released.complete(null);
        await().atMost(LONG).until(held::isDone);
        for (int i = 0; i < 3; i++) {
            admin.sync().scriptFlush();
            assertThat(limiter.tryAcquire("c").block(LONG).isAllowed()).isTrue();
        }
        store.close();
    }

    /** No later caller ends the attempt to connect. */
    @Test
    void aCallerWithoutADeadlineDoesNotWaitForAFirstReplyThatNeverComes() {
        proxy.answer(
                command -> command.equals("EVAL") || command.equals("EVALSHA") ? CommandProxy.DROP : CommandProxy.PASS);
        RedisStore store = RedisStore.create(RedisURI.create("127.0.0.1", proxy.port()));
        assertThat(limiter(store).tryAcquire("a").toFuture())
                .failsWithin(LONG)
                .withThrowableThat()
                .withMessageContaining("did not reply to EVAL within 5 s");
        store.close();
    }

    private void holdTheFirstText() {
        proxy.answer(command -> {
            if (command.equals("EVAL") && isHeld.compareAndSet(false, true)) {
                released.join();
            }
            return CommandProxy.PASS;
        });
    }

    private static RateLimiter limiter(RedisStore store) {
        return Unprotected.limiter(store, Limit.perMinute(1_000));
    }
}
