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
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.Future;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Event loops of an application that are busy for longer than the deadline, while Redis replies. */
class ResilientStoreBusyLoopTest {

    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration DEADLINE = Duration.ofSeconds(1);

    /** More than fill the window of the breaker. */
    private static final int REQUESTS = 40;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(2, NioIoHandler.newFactory());
    private final EventLoop busy = loops.next();
    private final EventLoop other = loops.next();
    private final RedisStore store = RedisStore.create(redis.uri());
    private final RateLimiter limiter = RateLimiter.builder("busy")
            .store(store)
            .deadline(DEADLINE)
            .limit(Limit.perHour(1_000_000))
            .build();

    /** What the other loop has got. */
    private final List<Source> sources = new ArrayList<>();

    /** What the busy loop has requested. */
    private final List<CompletableFuture<Decision>> late = new ArrayList<>();

    @BeforeEach
    void openTheLanes() {
        store.prepare("").retry(3).block(LONG);
        awaitLane(busy, limiter);
        awaitLane(other, limiter);
    }

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        Future<?> unused = loops.shutdownGracefully(0, 5, TimeUnit.SECONDS);
        redis.close();
    }

    @Test
    void repliesThatAreNotReadYetOpenNoBreaker() {
        busy.execute(() -> {
            requestMany();
            // After the task that sends them.
            busy.execute(this::work);
        });
        observe();
    }

    @Test
    void repliesThatAreReadSoonAfterTheDeadlineDecide() throws InterruptedException {
        Duration aLittleLonger = DEADLINE.plus(DEADLINE.dividedBy(10));
        CountDownLatch isHeld = new CountDownLatch(1);
        busy.execute(() -> {
            requestMany();
            // After the task that sends them.
            busy.execute(() -> {
                isHeld.countDown();
                long start = System.nanoTime();
                holdUntil(() -> System.nanoTime() - start > aLittleLonger.toNanos());
            });
        });
        // Before that, this request would be sent only after its deadline.
        isHeld.await();
        Source again = request(busy, limiter.tryAcquire("again")).join().source();
        assertThat(again).isEqualTo(Source.REDIS);
        assertThat(late)
                .hasSize(REQUESTS)
                .allSatisfy(answer -> assertThat(answer.join().source()).isEqualTo(Source.REDIS));
    }

    @Test
    void requestsThatAreNotSentYetOpenNoBreaker() {
        busy.execute(() -> {
            requestMany();
            work();
        });
        observe();
    }

    @Test
    void aBlockedLoopIsLoggedWithThePlace() {
        try (LogForTests log = LogForTests.listen()) {
            AtomicBoolean isLogged = new AtomicBoolean();
            busy.execute(() -> {
                // As applications do that name a thread after the request which it serves.
                Thread.currentThread().setName("of /a\nforged");
                requestMany();
                holdUntil(isLogged::get);
            });
            String place = "; it is at " + getClass().getName() + ".holdUntil(";
            await().atMost(LONG)
                    .untilAsserted(() -> assertThat(log.lines("Event loop of /a\\u000aforged has"))
                            .anyMatch(line -> line.contains(place)));
            isLogged.set(true);
            await().atMost(LONG).until(this::isAnswered);
        }
    }

    private void requestMany() {
        for (int i = 0; i < REQUESTS; i++) {
            late.add(limiter.tryAcquire("busy").toFuture());
        }
    }

    /** Holds the thread without blocking, until twice the deadline has passed and every request is answered. */
    private void work() {
        long start = System.nanoTime();
        holdUntil(() -> System.nanoTime() - start > 2 * DEADLINE.toNanos() && isAnswered());
    }

    private static void holdUntil(BooleanSupplier isOver) {
        boolean isHeld;
        do {
            isHeld = !isOver.getAsBoolean();
        } while (isHeld);
    }

    private boolean isAnswered() {
        return late.stream().allMatch(CompletableFuture::isDone);
    }

    /** Requests decisions on the other loop until the busy loop works again. */
    private void observe() {
        CompletableFuture<Source> again =
                request(busy, limiter.tryAcquire("again").map(Decision::source));
        while (!again.isDone()) {
            sources.add(request(other, limiter.tryAcquire("other")).join().source());
            assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        }
        for (int i = 0; i < REQUESTS; i++) {
            sources.add(request(other, limiter.tryAcquire("other")).join().source());
        }
        assertThat(late)
                .hasSize(REQUESTS)
                .allSatisfy(answer -> assertThat(answer.join().source()).isEqualTo(Source.LOCAL));
        assertThat(sources).containsOnly(Source.REDIS);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        // Late replies cancel local grants, and the others are reconciled.
        await().atMost(LONG).until(() -> limiter.state().toReconcile() == 0);
        Decision charged = request(other, limiter.peek("busy")).join();
        assertThat(charged.limits().get(0).used()).isEqualTo(REQUESTS);
        assertThat(limiter.state().unknown()).isZero();
    }
}
