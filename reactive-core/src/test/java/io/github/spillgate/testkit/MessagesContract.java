package io.github.spillgate.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.WaitQueueCount;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Tests of the limits on messages that docs/websockets-and-grpc.md shows, for any framework: with a real server, a real
 * client and a real Redis. An adapter extends this class, and opens sockets that answer each message with itself and an
 * exclamation mark.
 */
public abstract class MessagesContract {

    /** How long anything may take that is waited for. */
    protected static final Duration LONG = Duration.ofSeconds(60);

    /** The key of the client, which is that of all clients of a test. */
    protected static final String ME = "ip:127.0.0.1";

    /** No more of them come back while a test runs. */
    protected static final Limit THREE = Limit.of(3, Duration.ofHours(1));

    /** The same permits in a shorter window, so that callers wait for them. */
    private static final Limit THREE_SOON = Limit.of(3, Duration.ofMinutes(5));

    private final RedisClient redis = RedisClient.create(RedisForTests.first().uri());
    private final RedisStore store = RedisStore.create(redis);
    private final List<AutoCloseable> open = new CopyOnWriteArrayList<>();

    /** Opens a socket with messages that are slowed to the limit. */
    protected abstract WebSocketForTests slowed(RateLimiter limiter);

    /** Opens a socket that is closed at the first message too many. */
    protected abstract WebSocketForTests closed(RateLimiter limiter);

    /** A limiter by a name of its own. */
    protected final RateLimiter limiter(Limit limit) {
        return closedLater(RateLimiter.builder("messages-" + UUID.randomUUID())
                .store(store)
                .deadline(Duration.ofSeconds(5))
                .limit(limit)
                .build());
    }

    /** The same, which is closed when the test is over: what came last first. */
    protected final <T extends AutoCloseable> T closedLater(T resource) {
        open.add(resource);
        return resource;
    }

    @AfterEach
    void close() throws Exception {
        for (int i = open.size() - 1; i >= 0; i--) {
            open.get(i).close();
        }
        store.close();
        redis.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @Test
    void messagesAreThrottledInOrder() {
        WebSocketForTests client = slowed(limiter(Limit.of(2, Duration.ofMillis(300))));
        long began = System.nanoTime();
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(() -> client.heard().size() == 7);
        assertThat(client.heard()).containsExactly("m0!", "m1!", "m2!", "m3!", "m4!", "m5!", "m6!");
        assertThat(System.nanoTime() - began)
                .as("nanoseconds for seven, by two")
                .isGreaterThan(900_000_000L);
    }

    @Test
    void aThrottledClientGetsBackpressure() {
        WebSocketForTests client = slowed(limiter(THREE_SOON));
        String large = "x".repeat(60_000);
        AtomicInteger sent = new AtomicInteger();
        CompletableFuture<?> last = CompletableFuture.completedFuture(null);
        for (int i = 0; i < 500; i++) {
            last = last.thenCompose(before -> client.sayLater(large).thenRun(sent::incrementAndGet));
        }
        await().atMost(LONG).until(() -> client.heard().size() == 3);
        await().during(Duration.ofMillis(500))
                .atMost(LONG)
                .until(() -> sent.get() < 500 && client.heard().size() == 3);
        assertThat(last).isNotDone();
    }

    @Test
    void aDisconnectedClientLeavesNoWaiter() {
        RateLimiter limiter = limiter(THREE_SOON);
        WebSocketForTests client = slowed(limiter);
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(() -> client.heard().size() == 3 && WaitQueueCount.of(limiter) > 0);
        client.close();
        await().atMost(LONG).until(() -> WaitQueueCount.of(limiter) == 0);
        assertThat(limiter.peek(ME).block().limits().get(0).used()).isEqualTo(3);
    }

    @Test
    void theFirstDeniedMessageClosesTheSocketAfterEarlierReplies() {
        RateLimiter limiter = limiter(THREE);
        WebSocketForTests client = closed(limiter);
        IntStream.range(0, 7).forEach(i -> client.say("m" + i));
        await().atMost(LONG).until(client.closed()::isDone);
        assertThat(client.heard()).containsExactly("m0!", "m1!", "m2!");
        assertThat(client.closed().join()).matches("1013 retry-after=3[56]\\d\\d");
        assertThat(limiter.peek(ME).block().limits().get(0).used()).isEqualTo(3);
    }
}
