package io.github.spillgate.failover;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.spillgate.Decision;
import io.github.spillgate.Limit;
import io.github.spillgate.RateLimiter;
import io.github.spillgate.local.LocalStore;
import io.github.spillgate.redis.RedisStore;
import io.github.spillgate.testkit.Proof;
import io.github.spillgate.testkit.RedisForTests;
import io.github.spillgate.testkit.Unprotected;
import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Instances that lease on a busy machine, beside one exact limiter that gets the same requests at the same times. A
 * stall of the machine delays both.
 */
class LeaseReplayTest {

    private static final int INSTANCES = 4;
    private static final Duration LENGTH = Duration.ofSeconds(5);

    /** The least of 24 runs was 0.985. */
    private static final double LEAST = 0.95;

    private final RedisClient client = RedisClient.create(RedisForTests.first().uri());
    private final List<ResilientStore> stores = new ArrayList<>();
    private final AtomicBoolean isOver = new AtomicBoolean();
    private final List<Thread> busyLoops = new ArrayList<>();

    @AfterEach
    void shutdown() throws InterruptedException {
        isOver.set(true);
        for (Thread loop : busyLoops) {
            loop.join();
        }
        stores.forEach(ResilientStore::close);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    @ParameterizedTest
    @CsvSource({"1000/1s, 1, 0", "1000/1s, 1, 4", "300/1s, 2, 8", "1000/1s burst=300, 1, 4"})
    @Proof
    void leasesGrantNearlyWhatAnExactLimiterGrants(String text, int demand, int loops) {
        Limit limit = Limit.parse(text);
        IntStream.range(0, loops).forEach(i -> startBusyLoop());
        Queue<Decision> decisions =
                decide(limit, demand * (double) limit.permits() / limit.period().toNanos());
        long granted = decisions.stream().filter(Decision::isAllowed).count();
        long exact = grantedExactly(limit, decisions);
        assertThat(stores).allMatch(store -> store.state().leases().decisions() > 0);
        assertThat((double) granted / exact)
                .as("%s of %s permits", granted, exact)
                .isGreaterThan(LEAST);
    }

    /** Sends requests at random times to random instances. */
    private Queue<Decision> decide(Limit limit, double perNano) {
        String key = UUID.randomUUID().toString();
        List<RateLimiter> limiters =
                IntStream.range(0, INSTANCES).mapToObj(i -> limiter(limit)).toList();
        Random random = new Random(7);
        Queue<Decision> decisions = new ConcurrentLinkedQueue<>();
        int sent = 0;
        long due = System.nanoTime();
        long end = due + LENGTH.toNanos();
        while (due - end < 0) {
            due += (long) (-Math.log(1 - random.nextDouble()) / perNano);
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            limiters.get(random.nextInt(INSTANCES)).tryAcquire(key).subscribe(decisions::add);
            sent++;
        }
        int all = sent;
        await().until(() -> decisions.size() == all);
        return decisions;
    }

    /** Returns how many of these requests one exact limiter grants, in the order of time. */
    private static long grantedExactly(Limit limit, Queue<Decision> decisions) {
        AtomicReference<Instant> clock = new AtomicReference<>();
        RateLimiter exact = Unprotected.limiter(LocalStore.bounded(16, clock::get), limit);
        return decisions.stream()
                .map(Decision::at)
                .sorted()
                .filter(at -> {
                    clock.set(at);
                    return exact.tryAcquire("key").block().isAllowed();
                })
                .count();
    }

    private RateLimiter limiter(Limit limit) {
        ResilientStore store = ResilientStore.builder(RedisStore.create(client))
                .deadline(Duration.ofSeconds(30))
                .fallback(Fallback.error())
                .build();
        stores.add(store);
        RateLimiter limiter =
                RateLimiter.builder("api").store(store).limit(limit.leased()).build();
        limiter.ready().block();
        return limiter;
    }

    private void startBusyLoop() {
        Thread loop = new Thread(
                () -> {
                    while (!isOver.get()) {
                        Thread.onSpinWait();
                    }
                },
                "busy");
        loop.setDaemon(true);
        loop.start();
        busyLoops.add(loop);
    }
}
