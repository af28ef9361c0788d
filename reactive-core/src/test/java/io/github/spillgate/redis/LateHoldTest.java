package io.github.spillgate.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.HoldExpiredException;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.Fallback;
import io.github.spillgate.testkit.CommandProxy;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.core.publisher.Mono;

/** The reply of Redis arrives after the hold time, because the deadline is longer. Others have the permit by then. */
class LateHoldTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    private final RedisForTests redis = RedisForTests.first();
    private final CommandProxy proxy = new CommandProxy(redis.uri().getPort());
    private final String name = "late-" + UUID.randomUUID();
    private final RedisStore slowStore = RedisStore.create(RedisURI.create("127.0.0.1", proxy.port()));
    private final RedisStore store = RedisStore.create(redis.uri());
    private final RateLimiter slow = limiter(slowStore);
    private final RateLimiter other = limiter(store);
    private final Disposable.Composite held = Disposables.composite();

    private RateLimiter limiter(RedisStore on) {
        return RateLimiter.builder(name)
                .store(on)
                .deadline(LONG)
                .fallback(Fallback.error())
                .limit(Limit.concurrent(1).hold(Limit.SHORTEST_HOLD))
                .build();
    }

    @AfterEach
    void close() {
        // Or it would be renewed in a closed store, which logs that in a later test.
        held.dispose();
        slow.close();
        other.close();
        slowStore.close();
        store.close();
        proxy.close();
    }

    private long used() {
        return other.peek("a").block(LONG).limits().get(0).used();
    }

    /** Sends a request for the permit, and lets another limiter get it after the hold time. */
    private CompletableFuture<?> overtaken(Mono<?> request) {
        slow.ready().block(LONG);
        other.ready().block(LONG);
        CompletableFuture<Void> released = new CompletableFuture<>();
        proxy.changeReplies(reply -> {
            released.join();
            return reply;
        });
        CompletableFuture<?> late = request.toFuture();
        await().atMost(LONG).until(() -> used() == 1);
        Decision decision = other.acquire("a", LONG).block(LONG);
        assertThat(decision.isAllowed()).isTrue();
        held.add(other.keepHolding(decision, expired -> {}));
        assertThat(late).isNotDone();
        released.complete(null);
        return late;
    }

    @Test
    void workDoesNotRun() {
        List<String> runs = new CopyOnWriteArrayList<>();
        CompletableFuture<?> late = overtaken(slow.whileHolding("a", Mono.fromRunnable(() -> runs.add("run"))));
        assertThat(late).failsWithin(LONG).withThrowableThat().withCauseInstanceOf(HoldExpiredException.class);
        assertThat(runs).isEmpty();
        assertThat(slow.peek("a").block(LONG).limits().get(0).used()).isEqualTo(1);
    }
}
