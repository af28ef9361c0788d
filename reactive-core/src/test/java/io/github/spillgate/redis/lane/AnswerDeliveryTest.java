package io.github.spillgate.redis.lane;

import static io.github.spillgate.testkit.LoopRequests.request;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.failover.ResilientStore;
import io.github.spillgate.redis.RedisStore;
import io.lettuce.core.api.StatefulRedisConnection;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** On which thread a caller continues that is on no event loop of the application. */
class AnswerDeliveryTest extends BatchQueueFixture {

    private static final String OF_CONNECTION = "lettuce-";
    private static final String ELSEWHERE = "parallel-";
    private static final Limit LIMIT = Limit.perHour(1_000_000);

    private RateLimiter limiter;

    @BeforeEach
    void create() {
        limiter = limiter(store(how -> how), LIMIT);
    }

    @Test
    void aFewAnswersAreEmittedOnTheThreadThatReadsThem() {
        await().atMost(LONG).until(() -> threadsOf(8).stream().allMatch(thread -> thread.startsWith(OF_CONNECTION)));
    }

    /** Often, because after answers that took long, fewer would be emitted elsewhere too. */
    @Test
    void moreAnswersAreEmittedElsewhere() {
        for (int i = 0; i < 20; i++) {
            awaitTried();
            assertThat(threadsOf(9)).hasSize(9).allMatch(thread -> thread.startsWith(ELSEWHERE));
        }
    }

    @Test
    void aSchedulerOfTheUserEmitsAllAnswers() {
        RateLimiter onParallel = limiter(store(how -> how.deliverOn(Schedulers.parallel())), LIMIT);
        for (int i = 0; i < 100; i++) {
            assertThat(threadOf(onParallel)).startsWith(ELSEWHERE);
        }
    }

    /** One answer after 5 ms is worth the time of 500 batches. */
    @Test
    void aCallerThatTakesLongMovesTheNextAnswersElsewhereForAWhile() {
        AtomicInteger turned = new AtomicInteger();
        Mono<String> slow = limiter.tryAcquire("slow").map(decision -> {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(5);
            while (System.nanoTime() < end) {
                turned.incrementAndGet();
            }
            return Thread.currentThread().getName();
        });
        await().atMost(LONG).until(() -> slow.block(LONG).startsWith(OF_CONNECTION));
        for (int i = 0; i < 400; i++) {
            assertThat(threadOf(limiter)).startsWith(ELSEWHERE);
        }
        awaitTried();
    }

    @Test
    void reactorRefusesToBlockTheThread() {
        Mono<String> blocking = limiter.tryAcquire("a")
                .map(decision -> String.valueOf(limiter.tryAcquire("b").block(LONG)))
                .onErrorResume(IllegalStateException.class, refused -> Mono.just(refused.getMessage()));
        await().atMost(LONG)
                .until(() ->
                        blocking.block(LONG).contains("blocking, which is not supported in thread " + OF_CONNECTION));
    }

    /** Otherwise it would hold the thread, and the replies for other callers would wait. */
    @Test
    void aStreamOfCachedDenialsLeavesTheThread() {
        ResilientStore resilient = ResilientStore.builder(store(how -> how)).build();
        RateLimiter cached = RateLimiter.builder("cached")
                .store(resilient)
                .limit(Limit.perHour(1))
                .build();
        cached.tryAcquire("a").then(cached.tryAcquire("a")).block(LONG);
        AtomicInteger onThread = new AtomicInteger();
        AtomicInteger tries = new AtomicInteger();
        Mono<Long> stream = Mono.defer(() -> cached.tryAcquire("free" + tries.incrementAndGet()))
                .filter(first -> Thread.currentThread().getName().startsWith(OF_CONNECTION))
                .repeatWhenEmpty(empty -> empty)
                .flatMap(first -> {
                    Thread reading = Thread.currentThread();
                    return Flux.range(0, 10_000)
                            .concatMap(i -> cached.tryAcquire("a"))
                            .doOnNext(decision -> onThread.addAndGet(Thread.currentThread() == reading ? 1 : 0))
                            .count();
                });
        assertThat(stream.block(LONG)).isEqualTo(10_000);
        assertThat(onThread).hasValueLessThanOrEqualTo(256);
        cached.close();
        resilient.close();
    }

    /** Each caller has one cached denial, so none of them holds the thread. */
    @Test
    void manyShortCallersStayOnTheThreadIfTheSchedulerOfTheUserEmitsThere() {
        RedisStore immediate = store(how -> how.deliverOn(Schedulers.immediate()));
        ResilientStore resilient =
                ResilientStore.builder(immediate).deadline(LONG).build();
        RateLimiter cached = RateLimiter.builder("cached")
                .store(resilient)
                .limit(Limit.perHour(1))
                .build();
        cached.tryAcquire("a").then(cached.tryAcquire("a")).block(LONG);
        for (int i = 0; i < 300; i++) {
            String thread = cached.tryAcquire("free" + i)
                    .then(cached.tryAcquire("a"))
                    .map(denial -> Thread.currentThread().getName())
                    .block(LONG);
            assertThat(thread).startsWith(OF_CONNECTION);
        }
        cached.close();
        resilient.close();
    }

    /** The loop of a store is no loop of the application, although a caller of another store continues on it. */
    @Test
    void anotherStoreGetsNoLaneOnTheThread() {
        awaitTried();
        RedisStore other = store(how -> how.nodes(List.of(redis.uri())));
        RateLimiter second = limiter(other, LIMIT);
        StatefulRedisConnection<String, String> admin = client.connect();
        long before = admin.sync().clientList().lines().count();
        for (int i = 0; i < 100; i++) {
            assertThat(request(loop(), second.tryAcquire("c")).join().isAllowed())
                    .isTrue();
        }
        assertThat(admin.sync().clientList().lines().count()).isEqualTo(before);
    }

    /** Requests decisions on one key as one batch, and returns the threads on which their callers continue. */
    private Queue<String> threadsOf(int decisions) {
        Queue<String> threads = new ConcurrentLinkedQueue<>();
        List<Heard> heard = whileRedisIsPaused(() -> {
            List<Heard> first = askOneByOne(2, i -> limiter.tryAcquire("first"));
            first.addAll(ask(decisions, i -> note(threads)));
            return first;
        });
        assertThat(decisions(heard)).allMatch(Decision::isAllowed);
        return threads;
    }

    private Mono<Decision> note(Queue<String> threads) {
        return limiter.tryAcquire("a")
                .doOnNext(decision -> threads.add(Thread.currentThread().getName()));
    }

    /** Waits until an answer was emitted on the thread that reads: a busy machine looks like slow callers. */
    private void awaitTried() {
        await().atMost(LONG).until(() -> threadOf(limiter).startsWith(OF_CONNECTION));
    }

    private static String threadOf(RateLimiter limiter) {
        return limiter.tryAcquire("b")
                .map(decision -> Thread.currentThread().getName())
                .block(LONG);
    }
}
