package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.Source;
import io.github.spillgate.StoreState.Breaker;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.LogForTests;
import io.github.spillgate.testkit.RedisForTests;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.scheduler.Schedulers;

/** Requests that wait in this process for longer than their deadline, although Redis replies to each command. */
class ResilientStoreQueuedRequestTest {

    private static final Duration LONG = Duration.ofSeconds(30);

    /** Takes the time of Redis for 20 ms. */
    private static final String WORK = """
            local function micros()
              local time = redis.call('TIME')
              return time[1] * 1000000 + time[2]
            end
            local start = micros()
            repeat until micros() - start > 20000
            return 1
            """;

    private final RedisForTests redis = RedisForTests.startOwn();
    private final RedisClient client = RedisClient.create(redis.uri());
    private final StatefulRedisConnection<String, String> admin = client.connect();
    private RedisStore store;
    private RateLimiter limiter;

    private void connect(RedisStore.Builder settings) {
        // Limiters of earlier tests may log that their stores are closed.
        store = settings.namespace("queue").build();
        limiter = RateLimiter.builder("queue")
                .store(store)
                .deadline(Duration.ofSeconds(1))
                .limit(Limit.perHour(1_000_000))
                .build();
        limiter.ready().block(LONG);
        limiter.tryAcquire("first").block(LONG);
    }

    @AfterEach
    void shutdown() {
        limiter.closeLater().block(LONG);
        store.closeLater().block(LONG);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        redis.close();
    }

    /** A caller keeps the event loop of the store busy. */
    @Test
    void redisHasTheWholeDeadlineForRequestsThatCouldNotBeSentBefore() throws Exception {
        connect(RedisStore.builder(redis.uri()).deliverOn(Schedulers.immediate()));
        CountDownLatch isHeld = new CountDownLatch(1);
        CountDownLatch isOver = new CountDownLatch(1);
        limiter.tryAcquire("slow").subscribe(decision -> {
            isHeld.countDown();
            holdUntil(isOver);
        });
        isHeld.await();
        // More than fill the window of the breaker.
        List<CompletableFuture<Decision>> peeks = IntStream.range(0, 40)
                .mapToObj(i -> limiter.peek("user:" + i).toFuture())
                .toList();
        assertThat(peeks).allSatisfy(peek -> assertThat(peek.get().source()).isEqualTo(Source.LOCAL));
        admin.sync().clientPause(200);
        isOver.countDown();
        assertThat(limiter.tryAcquire("last").block(LONG).source()).isEqualTo(Source.REDIS);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
    }

    /** Holds the thread without blocking. */
    private static void holdUntil(CountDownLatch isOver) {
        boolean isHeld;
        do {
            isHeld = isOver.getCount() > 0;
        } while (isHeld);
    }

    /** A Redis with little time cannot decide all of them by the deadline. */
    @Test
    void requestsThatWaitForOthersOpenNoBreakerAndAreNotSentTooLate() {
        int requests = 200;
        connect(RedisStore.builder(redis.uri()).batching(1, 1, requests));
        long sentBefore = sent();
        // With several clients, Redis has other work between any two decisions.
        Disposable work = Flux.range(0, 3)
                .map(i -> client.connect().reactive())
                .flatMap(other -> other.eval(WORK, ScriptOutputType.INTEGER).repeat())
                .subscribe();
        List<Source> sources;
        try (LogForTests log = LogForTests.listen()) {
            sources = Flux.range(0, requests)
                    .flatMap(i -> limiter.tryAcquire("user:" + i), requests)
                    .map(Decision::source)
                    .collectList()
                    .block(LONG);
            assertThat(limiter.tryAcquire("last").block(LONG).source()).isEqualTo(Source.REDIS);
            assertThat(log.lines("Falling back", store.toString())).isEmpty();
        } finally {
            work.dispose();
        }
        assertThat(sources).hasSize(requests).contains(Source.REDIS, Source.LOCAL);
        assertThat(limiter.state().breaker()).isEqualTo(Breaker.CLOSED);
        assertThat(sent() - sentBefore).isLessThan(requests);
    }

    /** Returns how many decisions Redis has received. */
    private long sent() {
        return admin.sync()
                .info("commandstats")
                .lines()
                .filter(line -> line.startsWith("cmdstat_evalsha:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll(".*calls=(\\d+),.*", "$1")))
                .sum();
    }
}
